// The configuration as text: sizes, the dump and the way back, comparison and hash.
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/train/config/good_config.h"
#include "train/config/config.h"

namespace pal {
namespace {

TEST(Config, sizes_read_and_print) {
  EXPECT_EQ(parse_size("11GiB").bytes, 11ll << 30);
  EXPECT_EQ(parse_size("1.5 GB").bytes, 1'500'000'000);
  EXPECT_EQ(parse_size("1 kib").bytes, 1024);
  EXPECT_EQ(parse_size("4096").bytes, 4096);
  EXPECT_EQ(parse_size("0.5KiB").bytes, 512);
  for (const char* bad : {"", "GiB", "-1GB", "1e3", "1 G", "0", "0.1", "1GBx", "9999999TiB", "nan"})
    EXPECT_THROW(parse_size(bad), UsageError) << bad;
  for (int64_t bytes : {1ll, 1000ll, 1024ll, 11ll << 30, (1ll << 30) + 1, 1'500'000'000ll})
    EXPECT_EQ(parse_size(to_string(Size{bytes})).bytes, bytes);
  EXPECT_EQ(to_string(Size{11ll << 30}), "11GiB");
}

TEST(Config, the_dump_reads_back_equal) {
  Config c = parse_config(kGood, "c.yaml");
  for (const char* text : {"a b", "no", "true", "3", "1e5", "null", "~", "", "a: b # c", "\"'\\",
                           "-x", "[a]", "tab\tand\nline", "Việt", " edge ", "@", "&a", "*a", "!"}) {
    std::get<ParallelTextConfig>(c.data).root = text;
    std::get<ParallelTextConfig>(c.data).test_source = std::optional<std::string>(text);
    c.train.lr = 0.1 + 0.2;
    c.memory.budget = std::optional<Size>(Size{123456789});
    std::string dump = dump_config(c);
    Config back = parse_config(dump, "dump.yaml");
    EXPECT_TRUE(diff(c, back).empty()) << text;
    EXPECT_EQ(dump_config(back), dump);
  }
  EXPECT_NE(dump_config(c).find("# sentences (samples) in a micro-batch"), std::string::npos);
}

TEST(Config, diff_tells_what_alters_results) {
  Config a = parse_config(kGood, "c.yaml"), b = a;
  EXPECT_TRUE(diff(a, b).empty());
  b.memory.inplace = false;
  b.train.log_every = 3;
  b.memory.encode = std::vector<std::string>{"binarize"};
  EXPECT_EQ(config_hash(a), config_hash(b));
  for (const Difference& d : diff(a, b)) EXPECT_FALSE(d.alters_results) << d.key;
  EXPECT_EQ(diff(a, b).size(), 3u);
  b.memory.encode = std::vector<std::string>{"binarize", "dpr_fp8"};  // lossy
  EXPECT_NE(config_hash(a), config_hash(b));
  // Which values are rounded depends on the whole plan, so now everything alters results.
  for (const Difference& d : diff(a, b)) EXPECT_EQ(d.alters_results, d.key != "train.log_every");
  Config c = b;
  c.memory.encode = std::vector<std::string>{"dpr_fp8", "binarize"};  // the order is no matter
  EXPECT_EQ(config_hash(b), config_hash(c));
  ASSERT_EQ(diff(b, c).size(), 1u);
  EXPECT_FALSE(diff(b, c)[0].alters_results);
  for (const std::string& set :
       {std::string("memory.recompute=echo"), std::string("memory.schedule=program"),
        std::string("memory.encode=[dpr_fp8]"), std::string("memory.dpr_layers={rnn: fp16}")}) {
    Config d = parse_config(dump_config(b), "b.yaml", {parse_set(set)});
    EXPECT_NE(config_hash(b), config_hash(d)) << set;
    ASSERT_EQ(diff(b, d).size(), 1u) << set;
    EXPECT_TRUE(diff(b, d)[0].alters_results) << set;
  }
  b = a;
  b.train.lr = 0.5;
  ASSERT_EQ(diff(a, b).size(), 1u);
  EXPECT_EQ(diff(a, b)[0].key, "train.lr");
  EXPECT_EQ(diff(a, b)[0].a, "0.001");
  EXPECT_EQ(diff(a, b)[0].b, "0.5");
  EXPECT_TRUE(diff(a, b)[0].alters_results);
  EXPECT_NE(config_hash(a), config_hash(b));
}

}  // namespace
}  // namespace pal
