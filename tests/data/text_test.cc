// Reading parallel text: what is tolerated, and what is refused with which words.
#include "data/text.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>

#include "core/error.h"
#include "data/utf8.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

class Text : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "text_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }

  CorpusFile file(const std::string& name, const std::string& bytes, const std::string& key = "") {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << bytes;
    return {folder_ + "/" + name, key};
  }
  template <typename Action> static std::string refusal(Action action) {
    try {
      action();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  }
  static void expect_all(const std::string& message, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) {
      EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
    }
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }

  std::string folder_;
};

TEST_F(Text, ReadsLines) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(read_lines(file("a", "một\nhai\n")), (Lines{"một", "hai"}));
  EXPECT_EQ(read_lines(file("a", "một\nhai")), (Lines{"một", "hai"}));
  EXPECT_EQ(read_lines(file("a", "\xEF\xBB\xBFmột\r\n\r\nhai\r\n")), (Lines{"một", "", "hai"}));
  EXPECT_EQ(read_lines(file("a", "\n")), (Lines{""}));
  EXPECT_EQ(read_lines(file("a", "a\rb\n")), (Lines{"a\rb"}));
}

TEST_F(Text, MissingFileNamesPathKeyAndRemedy) {
  const CorpusFile missing = {folder_ + "/no.en", "data.train_source", "download it from the moon"};
  expect_all(refusal([&] { read_lines(missing); }),
             {missing.path, "no such file", "data.train_source", "download it from the moon"});
  expect_all(refusal([&] { read_lines({folder_, "data.train_source"}); }), {"is a folder"});
  expect_all(refusal([&] { read_lines({"", "data.train_source"}); }), {"no path", "data.train_so"});
}

TEST_F(Text, EmptyFile) {
  expect_all(refusal([&] { read_lines(file("e", "", "data.valid_target")); }),
             {"/e", "is empty", "data.valid_target"});
  expect_all(refusal([&] { read_lines(file("e", "\xEF\xBB\xBF")); }), {"is empty"});
}

TEST_F(Text, InvalidUtf8NamesLineAndOffset) {
  expect_all(refusal([&] { read_lines(file("b", "tốt\nab\xFFz\n", "data.train_target")); }),
             {"/b", "line 2", "invalid UTF-8", "0xFF", "byte offset 8", "data.train_target"});
  // The byte order mark counts for the offset in the file.
  expect_all(refusal([&] { read_lines(file("b", "\xEF\xBB\xBF\xC3")); }), {"line 1", "offset 3"});
}

TEST_F(Text, NulBytesAreRefused) {
  const CorpusFile nul = file("n", std::string("ab\nc\0d\n", 7), "data.test_source");
  expect_all(refusal([&] { read_lines(nul); }),
             {"/n", "line 2", "NUL byte", "byte offset 4", "UTF-16", "data.test_source"});
  // UTF-16 without and with its mark.
  expect_all(refusal([&] { read_lines(file("n", std::string("a\0\n\0", 4))); }), {"NUL"});
  expect_all(refusal([&] {
               read_lines(file("n", std::string("\xFF\xFE"
                                                "a\0",
                                                4)));
             }),
             {"line 1", "0xFF", "iconv"});
}

TEST_F(Text, EndlessLinesAreRefusedBeforeTheyAreRead) {
  const std::string most(kMostLineBytes, 'a');
  EXPECT_EQ(read_lines(file("l", "\xEF\xBB\xBF" + most + "\r\nb\n")).size(), 2u);
  expect_all(refusal([&] { read_lines(file("l", "b\n" + most + "a\nb\n", "data.train_source")); }),
             {"/l", "line 2", "longer than 4 MiB", "one sentence a line", "data.train_source"});
  // A line of a billion characters, in a file of holes.
  const CorpusFile huge = file("h", "x\n");
  fs::resize_file(huge.path, 1'000'000'000);
  expect_all(refusal([&] { read_lines(huge); }), {"/h", "line 2", "longer than 4 MiB"});
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(std::fopen(huge.path.c_str(), "rb"),
                                                           &std::fclose);
  EXPECT_LT(read_bytes(in.get()).size(), kMostLineBytes + (1 << 17));
}

TEST_F(Text, SplitsAnyBytes) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(split_lines("", "x"), Lines());
  EXPECT_EQ(split_lines("\xEF\xBB\xBF", "x"), Lines());
  EXPECT_EQ(split_lines("a\r\n\r\nb", "x"), (Lines{"a", "", "b"}));
  expect_all(refusal([&] { split_lines("a\n\x80", "standard input"); }),
             {"standard input: line 2: invalid UTF-8"});
}

TEST_F(Text, UnequalLineCounts) {
  const CorpusFile source = file("s", "a\nb\n", "data.train_source");
  const CorpusFile target = file("t", "a\nb\nc\n", "data.train_target");
  expect_all(refusal([&] { read_parallel_text(source, target); }),
             {"/s", "/t", "2 lines", "3", "data.train_source", "data.train_target"});
  const ParallelText text = read_parallel_text(source, source);
  EXPECT_EQ(text.source, text.target);
  EXPECT_EQ(text.source.size(), 2u);
}

TEST(Utf8, AcceptsAndRefusesAsRfc3629) {
  const struct {
    std::string bytes;
    int32_t code;  // -1: invalid
  } cases[] = {
      {"a", 'a'},
      {"\xC2\x80", 0x80},
      {"\xDF\xBF", 0x7FF},
      {"\xE0\xA0\x80", 0x800},
      {"\xED\x9F\xBF", 0xD7FF},
      {"\xEE\x80\x80", 0xE000},
      {"\xF0\x90\x80\x80", 0x10000},
      {"\xF4\x8F\xBF\xBF", 0x10FFFF},
      {"\x80", -1},
      {"\xC0\x80", -1},
      {"\xC1\xBF", -1},
      {"\xE0\x9F\xBF", -1},
      {"\xED\xA0\x80", -1},
      {"\xF0\x8F\xBF\xBF", -1},
      {"\xF4\x90\x80\x80", -1},
      {"\xF5\x80\x80\x80", -1},
      {"\xC3", -1},
      {"\xE1\x80", -1},
      {"\xF1\x80\x80", -1},
      {"\xC3(", -1},
      {"\xE1\x80(", -1},
  };
  for (const auto& each : cases) {
    size_t pos = 0;
    EXPECT_EQ(decode_utf8(each.bytes, pos), each.code);
    EXPECT_EQ(pos, each.code < 0 ? 1 : each.bytes.size());
    EXPECT_EQ(find_invalid_utf8("é" + each.bytes), each.code < 0 ? 2 : std::string_view::npos);
  }
}

TEST(Utf8, WhiteSpaceIsThatOfPython) {
  const std::set<int32_t> spaces = {0x09,   0x0A,   0x0B,   0x0C,   0x0D,   0x1C,   0x1D,   0x1E,
                                    0x1F,   0x20,   0x85,   0xA0,   0x1680, 0x2000, 0x2001, 0x2002,
                                    0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200A,
                                    0x2028, 0x2029, 0x202F, 0x205F, 0x3000};
  for (int32_t c = -1; c <= 0x10FFFF; ++c) ASSERT_EQ(is_space(c), spaces.contains(c)) << c;
}

TEST(Utf8, SplitsOnUnicodeWhiteSpace) {
  using Words = std::vector<std::string_view>;
  EXPECT_EQ(split_words(" a\tb\u00a0c\u3000d\u2003 "), (Words{"a", "b", "c", "d"}));
  EXPECT_EQ(split_words("a\u200bb"), (Words{"a\u200bb"}));  // no width, no white space
  EXPECT_TRUE(split_words(" \u2028").empty());
}

}  // namespace
}  // namespace pal
