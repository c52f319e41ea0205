// The configuration: every error in a table, overrides, and what declarations promise. What does
// not combine: rules_test.cc. Broken files by the thousand: tests/fuzz.
#include "train/config/config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/error.h"
#include "tests/support/files.h"
#include "tests/train/config/good_config.h"
#include "train/config/yaml.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

TEST(Config, reads_every_type) {
  Config c = parse_config(kGood, "c.yaml");
  EXPECT_EQ(c.options<NmtOptions>()->hidden, 64);
  EXPECT_EQ(*c.parallel_text().source_lang, "no");
  EXPECT_EQ(*c.train.max_epochs, 2);
  EXPECT_EQ(*c.train.lr, 1e-3);
  EXPECT_EQ(*c.train.steps, std::nullopt);
  EXPECT_EQ(c.memory.budget.get()->bytes, 1'500'000'000);
  EXPECT_TRUE(c.memory.encode->empty());
  EXPECT_EQ(*c.device.threads, 2);
  EXPECT_TRUE(c.options<NmtOptions>()->fused);
}

TEST(Config, an_option_is_enrolled_in_its_own_copy) {
  Config a = parse_config(kGood, "c.yaml");
  Config b = a;
  b.train.batch_size = 7;
  EXPECT_EQ(*a.train.batch_size, 128);
  b.train.find("batch_size")->set(int64_t{9});
  EXPECT_EQ(*b.train.batch_size, 9);
  EXPECT_EQ(*a.train.batch_size, 128);
  a = b;
  EXPECT_EQ(std::get<int64_t>(a.train.find("batch_size")->value()), 9);
  a.train.batch_size = 5;
  EXPECT_EQ(std::get<int64_t>(a.train.find("batch_size")->value()), 5);
  EXPECT_EQ(*b.train.batch_size, 9);
}

TEST(Config, a_models_option_is_a_member_of_its_own_struct) {
  Config a = parse_config(
      "model: {type: nmt, dropout: 0.1, tie_embeddings: target}\ntrain: {max_epochs: 1}\n",
      "c.yaml");
  EXPECT_EQ(a.options<NmtOptions>()->dropout, 0.1f);
  EXPECT_EQ(a.options<NmtOptions>()->tie, NmtOptions::Tie::target);
  EXPECT_NE(dump_config(a).find("  dropout: 0.1 "), std::string::npos);
  Config b = a;
  auto& nmt = std::get<ModelOf<NmtOptions>>(b.model);
  nmt.model.hidden = 64;
  EXPECT_EQ(yaml_text(nmt.find("hidden")->value()), "64");
  EXPECT_EQ(a.options<NmtOptions>()->hidden, 512);
  EXPECT_EQ(nmt.find("dropout")->origin, "c.yaml:1");  // a copy knows it too
}

// "nmt, transformer, ..."
std::string all_types() {
  std::string list;
  for (const ModelType& type : model_types()) list += (list.empty() ? "" : ", ") + type.name;
  return list;
}

TEST(Config, every_error_names_its_place_and_its_remedy) {
  const std::string head = "model:\n  type: nmt\n";
  const std::string tail = "train:\n  max_epochs: 1\n";
  const std::string types = all_types();
  struct Case {
    std::string text, error;
  };
  const Case cases[] = {
      {"", "c.yaml: model.type: missing; set it to one of " + types},
      {"model:\n  hidden: 3\n", "c.yaml: model.type: missing; set it to one of " + types},
      {"model:\n  type: ntm\n",
       "c.yaml:2: model.type: the string \"ntm\" is not one of " + types + "; did you mean nmt?"},
      {head + "train:\n  batchsize: 3\n",
       "c.yaml:4: train.batchsize: unknown key; did you mean train.batch_size?"},
      {head + "train:\n  hidden: 3\n",
       "c.yaml:4: train.hidden: unknown key; did you mean model.hidden?"},
      {head + "train:\n  qqqqqqqqqqqqqqq: 3\n", "c.yaml:4: train.qqqqqqqqqqqqqqq: unknown key"},
      {head + "trian:\n  lr: 3\n", "c.yaml:3: trian: unknown section; did you mean train?"},
      {head + "lr: 3\n", "c.yaml:3: lr: unknown section; did you mean train.lr?"},
      {head + "train: 3\n",
       "c.yaml:3: train: expected options, one `key: value` a line, got the integer 3"},
      {"- a\n",
       "c.yaml:1: expected the sections model, data, train, memory and device, got a list"},
      {head + "train:\n  batch_size: abc\n",
       "c.yaml:4: train.batch_size: expected integer (at least 1 and at most 1000000), got the "
       "string \"abc\""},
      {head + "train:\n  batch_size: \"3\"\n",
       "c.yaml:4: train.batch_size: expected integer (at least 1 and at most 1000000), got the "
       "string \"3\""},
      {head + "train:\n  batch_size: 2.5\n",
       "c.yaml:4: train.batch_size: expected integer (at least 1 and at most 1000000), got the "
       "number 2.5"},
      {head + "train:\n  batch_size: 0\n",
       "c.yaml:4: train.batch_size: 0 is out of range; it must be at least 1 and at most 1000000"},
      {head + "train:\n  batch_size: 99999999999999999999\n",
       "c.yaml:4: train.batch_size: 99999999999999999999 does not fit an integer"},
      {head + "train:\n  batch_size:\n",
       "c.yaml:4: train.batch_size: expected integer (at least 1 and at most 1000000), got null"},
      {head + "train:\n  lr: .nan\n", "c.yaml:4: train.lr: .nan is not a finite number"},
      {head + "train:\n  lr: 1e999\n", "c.yaml:4: train.lr: 1e999 is not a finite number"},
      {head + "train:\n  lr: fast\n",
       "c.yaml:4: train.lr: expected number (at least 0 and at most 1000), got the string "
       "\"fast\""},
      {head + "train:\n  lr: [1]\n",
       "c.yaml:4: train.lr: expected number (at least 0 and at most 1000), got a list"},
      {head + "  dropout: 1\n",
       "c.yaml:3: model.dropout: 1 is out of range; it must be at least 0 and below 1"},
      {head + "  init_scale: 0\n",
       "c.yaml:3: model.init_scale: 0 is out of range; it must be above 0 and at most 10"},
      {head + "  fused: yes\n",
       "c.yaml:3: model.fused: expected true or false, got the string \"yes\""},
      {head + "  attention: bahdanau\n",
       "c.yaml:3: model.attention: bahdanau is not one of mlp, scaled_luong"},
      {head + "  attention: scaled_loung\n",
       "c.yaml:3: model.attention: scaled_loung is not one of mlp, scaled_luong; did you mean "
       "scaled_luong?"},
      {head + "data:\n  root: 2023\n",
       "c.yaml:4: data.root: expected string, got the integer 2023; write it in quotes"},
      {head + "data:\n  root: {a: b}\n", "c.yaml:4: data.root: expected string, got a map"},
      {head + tail + "memory:\n  budget: 11 gigs\n",
       "c.yaml:6: memory.budget: \"11 gigs\" is not a size: the unit must be B, KB, MB, GB, TB, "
       "KiB, MiB, GiB or TiB; write it as 11GiB, 1.5 GB or a number of bytes"},
      {head + tail + "memory:\n  swap: plan\n",
       "c.yaml:6: memory.swap: plan is not one of none, naive, vdnn, planned; did you mean "
       "planned?"},
      {head + tail + "memory:\n  encode: [ssdc, ssdc]\n",
       "c.yaml:6: memory.encode: ssdc is listed twice; keep one"},
      {head + tail + "memory:\n  encode: ssdc\n",
       "c.yaml:6: memory.encode: expected list of strings (any of binarize, ssdc, dropout_bits, "
       "dpr_fp16, dpr_fp10, dpr_fp8), got the string \"ssdc\"; write it as [ssdc]"},
      {head + tail + "memory:\n  vdnn: fc\n", "c.yaml:6: memory.vdnn: fc is not one of conv, all"},
      {head + tail + "memory:\n  manager: dtrr\n",
       "c.yaml:6: memory.manager: dtrr is not one of static, delta, dtr; did you mean dtr?"},
      {head + tail + "memory:\n  manager: delta\n  swap: naive\n",
       "c.yaml:7: memory.swap: naive does not combine with memory.manager: delta, which decides "
       "itself what is copied out; keep one"},
      {head + tail + "memory:\n  auto: true\n",
       "c.yaml:6: memory.auto: there is no budget to choose by; set memory.budget (11GiB), or "
       "leave "
       "it out"},
      {head + tail + "memory:\n  auto: true\n  budget: 1GB\n  swap: vdnn\n",
       "c.yaml:6: memory.auto: true does not combine with memory.swap: vdnn, which it would choose "
       "itself; leave one of them out"},
      {head + tail + "memory:\n  auto: maybe\n",
       "c.yaml:6: memory.auto: expected true, false or null, got the string \"maybe\""},
      {head + tail + "memory:\n  allow: [lossless]\n",
       "c.yaml:6: memory.allow: lossless is not one of reordered, lossy"},
      {head,
       "train.max_epochs: neither it nor train.steps is set, so training would not end; set one of "
       "them"},
      {head + tail + "  clip_value: 1\n  clip_norm: 5\n",
       "c.yaml:6: train.clip_norm: does not combine with train.clip_value; set one of them to "
       "null"},
      {head + tail + "  batch_words: 4000\n  batch_size: 64\n",
       "c.yaml:5: train.batch_words: does not combine with train.batch_size; leave one of them "
       "out"},
      {head + tail + "  batch_words: 99\n",
       "c.yaml:5: train.batch_words: 99 hold no sentence of data.max_length 100; raise it, or "
       "lower "
       "that"},
      {head + tail + "data:\n  sentencepiece_file: a.model\n",
       "c.yaml:6: data.sentencepiece_file: is of no use with data.tokenizer simple; set that to "
       "sentencepiece"},
      {head + tail + "data:\n  tokenizer: sentencepiece\n  target_vocab: v.txt\n",
       "c.yaml:7: data.target_vocab: with data.tokenizer sentencepiece the pieces are the "
       "vocabulary; leave it null, and set data.sentencepiece_size"},
      {head + tail + "data:\n  tokenizer: sentencepiece\n  source_vocab_size: 9\n",
       "c.yaml:7: data.source_vocab_size: with data.tokenizer sentencepiece the pieces are the "
       "vocabulary; leave it null, and set data.sentencepiece_size"},
      {head + "  hidden: 33\n" + tail,
       "c.yaml:3: model.hidden: 33 is odd, but model.bidirectional gives each way half of it; make "
       "it even"},
      {head + "  hidden: 32\n  tie_embeddings: target\n" + tail,
       "c.yaml:4: model.tie_embeddings: target needs model.hidden equal to model.embedding; change "
       "one of them"},
      {head + "  whole_layers: true\n  layer_norm: true\n" + tail,
       "c.yaml:3: model.whole_layers: not with model.layer_norm, whose cells are no plain LSTM's"},
      {head + "  whole_layers: true\n  fused: false\n" + tail,
       "c.yaml:3: model.whole_layers: not with model.fused: false, which asks for the steps' "
       "parts"},
      {head + "  tie_embeddings: all\n" + tail,
       "c.yaml:3: model.tie_embeddings: all needs data.shared_vocabulary: true; set it, or use "
       "target"},
      {head + tail + "data:\n  shared_vocabulary: true\n  target_vocab: v.txt\n",
       "c.yaml:7: data.target_vocab: with data.shared_vocabulary it is data.source_vocab; leave it "
       "null"},
      {head + tail + "data:\n  shared_vocabulary: true\n  target_vocab_size: 9\n",
       "c.yaml:7: data.target_vocab_size: with data.shared_vocabulary it is "
       "data.source_vocab_size; leave it null"},
      // YAML itself
      {head + "train:\n  lr: 1\n  lr: 2\n",
       "c.yaml:5: lr: given twice, first on line 4; keep one of them"},
      {head + "train:\n\tlr: 1\n", "c.yaml:4: a tab in the indentation; use spaces"},
      {head + "train: [1, 2\n", "c.yaml:4: malformed YAML: end of sequence flow not found"},
      {head + "train: {lr: 1\n", "c.yaml:4: malformed YAML: end of map flow not found"},
      {head + "data:\n  root: a\xff\n", "c.yaml:4: not UTF-8; save the file as UTF-8"},
      {head + "data:\n  root: \"a\\_b\"\n",
       "c.yaml:4: a value that is not UTF-8; write the characters that \\_ and \\N stand for"},
      {head + "data:\n  root: a\x01\n", "c.yaml:4: a control character; this is not a text file"},
      {head + "data: &d\n  root: a\n",
       "c.yaml:3: anchors (&name) are not supported; write the value out"},
      {"model:\n  type: transformer\n  heads: 5\n" + tail,
       "c.yaml:3: model.heads: 5 do not divide model.hidden 512 into at most 256 columns each; "
       "change one of them"},
      {"model:\n  type: bert\n  heads: 5\n" + tail,
       "c.yaml:3: model.heads: 5 do not divide model.hidden, 768"},
      {"model:\n  type: transformer\n  tie_embeddings: all\n" + tail,
       "c.yaml:3: model.tie_embeddings: all needs data.shared_vocabulary: true; set it, or use "
       "target"},
      {"model:\n  type: transformer\n  bidirectional: true\n" + tail,
       "c.yaml:3: model.bidirectional: unknown key"},
      {head + "data:\n  root: !!str a\n",
       "c.yaml:4: tags (!type) are not supported; write the plain value"},
      {head + "? [a]\n: 1\n", "c.yaml:3: a key must be a plain word, not a list"},
      {head + "a\n  b: 1\n", "c.yaml:4: malformed YAML: illegal map value"},
      {head + "\"a\\nb\": 1\n", "c.yaml:3: a key must be a plain word, got the string \"a b\""},
      {head + "data:\n  root: \"a\\u0001\"\n",
       "c.yaml:4: a control character in a value; leave it out"},
      {head + "data:\r\n  root: 'Việt'\n  source_lang: 'e''n\n  target_lang: fr\n",
       "c.yaml:5: malformed YAML: a quote is opened and never closed"},
      {head + "data:\n  root: \"a\\\"\n",
       "c.yaml:4: malformed YAML: a quote is opened and never closed"},
      {head + tail + "---\na: 1\n", "c.yaml:6: a second YAML document; keep one per file"},
      {head + "data:\n  root: " + std::string(40, '[') + std::string(40, ']') + "\n",
       "c.yaml:4: nested too deeply"},
      {std::string(1 << 21, ' '), "c.yaml:1: larger than 1 MiB: not a configuration"},
  };
  for (const Case& c : cases) EXPECT_EQ(error_of(c.text), c.error) << c.text.substr(0, 200);
}

TEST(Config, overrides_win_in_order_and_are_checked_like_the_file) {
  Config c = parse_config(kGood, "c.yaml",
                          {parse_set("train.lr=0.5"), parse_set("train.lr=0.25"),
                           parse_set("data.root=a b"), parse_set("memory.encode=[]"),
                           parse_set("memory.budget=null"), parse_set("data.train_source='1=2'")});
  EXPECT_EQ(*c.train.lr, 0.25);
  EXPECT_EQ(*c.parallel_text().root, "a b");
  EXPECT_EQ(*c.parallel_text().train_source, "1=2");
  EXPECT_EQ(*c.memory.budget, std::nullopt);
  EXPECT_EQ(error_of(kGood, {parse_set("train.lrr=1")}),
            "--set: train.lrr: unknown key; did you mean train.lr?");
  EXPECT_EQ(error_of(kGood, {parse_set("train.lr=abc")}),
            "--set: train.lr: expected number (at least 0 and at most 1000), got the string "
            "\"abc\"");
  EXPECT_EQ(error_of(kGood, {parse_set("train.lr={a: 1}")}),
            "--set: train.lr: expected one value or a [list], got a map");
  EXPECT_EQ(error_of(kGood, {parse_set("model.type=mlp")}),
            "--set: model.type: the string \"mlp\" is not one of " + all_types());
  EXPECT_EQ(
      error_of(kGood, {parse_set("memory.encode=ssdc")}),
      "--set: memory.encode: expected list of strings (any of binarize, ssdc, "
      "dropout_bits, dpr_fp16, dpr_fp10, dpr_fp8), got the string \"ssdc\"; write it as [ssdc]");
  EXPECT_EQ(error_of(kGood, {parse_set("memory.encode=[fp16]")}),
            "--set: memory.encode: fp16 is not one of binarize, ssdc, dropout_bits, dpr_fp16, "
            "dpr_fp10, dpr_fp8; did you mean dpr_fp16?");
  std::string broken = error_of(kGood, {parse_set("train.lr=[1")});
  EXPECT_EQ(broken.rfind("--set: train.lr: the value is not YAML", 0), 0u) << broken;
  EXPECT_THROW(parse_set("train.lr"), UsageError);
  EXPECT_THROW(parse_set("lr=1"), UsageError);
  EXPECT_THROW(parse_set("=1.5"), UsageError);
  EXPECT_THROW(parse_set("train.lr\n=1"), UsageError);
}

TEST(Config, declarations_are_sound) {
  Config c;
  c.train.max_epochs = std::optional<int64_t>(1);
  EXPECT_NO_THROW(check_config(c));  // every default is available and combines
  std::vector<std::string> keys;
  for (const auto& [name, section] : c.sections())
    for (const AnyOption* o : section->options()) {
      keys.push_back(name + "." + o->name);
      EXPECT_EQ(o->help.find('\n'), std::string::npos) << keys.back();
      EXPECT_FALSE(o->help.empty()) << keys.back();
    }
  EXPECT_EQ(keys.size(), std::set<std::string>(keys.begin(), keys.end()).size());
  for (const Available& line : available_values())  // the table names real options
    EXPECT_TRUE(std::count(keys.begin(), keys.end(), line.key)) << line.key;
}

TEST(Config, nearest_is_near) {
  EXPECT_EQ(nearest("batchsize", {"batch_size", "lr"}), "batch_size");
  EXPECT_EQ(nearest("xyz", {"batch_size", "lr"}), "");
  EXPECT_EQ(nearest("zz", {"lr"}), "");
}

}  // namespace
}  // namespace pal
