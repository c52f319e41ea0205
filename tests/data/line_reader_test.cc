// Lines from a pipe, in whatever pieces they come.
#include "data/line_reader.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "data/text.h"

namespace pal {
namespace {

// What a reader makes of a text that arrives in pieces of these sizes, again and again: one for
// each time that it reads, which takes up to 64 KiB.
std::vector<LineReader::Line> read_in_pieces(const std::string& text,
                                             const std::vector<size_t>& sizes) {
  std::array<int, 2> ends{};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()), 0);
  std::thread writer([&] {
    size_t at = 0;
    for (size_t i = 0; at < text.size(); ++i) {
      const size_t bytes = std::min(sizes[i % sizes.size()], text.size() - at);
      const ssize_t written = write(ends[1], text.data() + at, bytes);
      if (written <= 0) break;
      at += size_t(written);
    }
    close(ends[1]);
  });
  std::vector<LineReader::Line> lines;
  {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(fdopen(ends[0], "rb"), &std::fclose);
    LineReader reader(in.get(), "pipe");
    while (auto line = reader.next()) lines.push_back(*line);
    EXPECT_FALSE(reader.next());
  }
  writer.join();
  return lines;
}

TEST(LineReader, ReadsWhatAWholeTextHasHoweverItComes) {
  const std::vector<std::string> pieces{"a",        "",     "\n", "\r\n", "\r", "\xEF\xBB\xBF",
                                        "\xC3\xA9", "word "};
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (size_t n = random() % 20; n > 0; --n) text += pieces[random() % pieces.size()];
    const std::vector<size_t> sizes{1 + random() % 3, 1 + random() % 7, 1 + random() % 2};
    std::vector<std::string> lines;
    for (const LineReader::Line& line : read_in_pieces(text, sizes)) {
      EXPECT_EQ(line.defect, "");
      lines.push_back(line.text);
    }
    EXPECT_EQ(lines, split_lines(text, "text")) << testing::PrintToString(text);
  }
}

TEST(LineReader, GoesOnPastLinesThatAreNoText) {
  const std::string most(kMostLineBytes, 'x');
  const std::string text = "\xEF\xBB\xBF" + most + "\r\nb\x80\n" + most + most + "y\nc\n" +
                           std::string("d\0", 2) + "\n" + most + "z";
  const std::vector<LineReader::Line> lines = read_in_pieces(text, {1 << 16, 50'001});
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[0].defect, "");
  EXPECT_EQ(lines[0].text.size(), kMostLineBytes);
  const std::string at = std::to_string(3 + kMostLineBytes + 2 + 1);
  EXPECT_EQ(lines[1].defect.find("pipe: line 2: invalid UTF-8, byte 0x80 at byte offset " + at), 0u)
      << lines[1].defect;
  EXPECT_EQ(lines[2].defect, "pipe: line 3: " + too_long_line());
  EXPECT_EQ(lines[3].text, "c");
  const std::string nul =
      std::to_string(3 + kMostLineBytes + 2 + 3 + 2 * kMostLineBytes + 2 + 2 + 1);
  EXPECT_EQ(lines[4].defect.find("pipe: line 5: a NUL byte at byte offset " + nul), 0u)
      << lines[4].defect;
  EXPECT_EQ(lines[5].defect, "pipe: line 6: " + too_long_line());
  for (const size_t bad : {1u, 2u, 4u, 5u}) EXPECT_EQ(lines[bad].text, "");
}

// With the byte order mark before it and "\r\n" behind, wherever a piece ends there.
TEST(LineReader, TheLongestLineMayEndInAnyPiece) {
  const std::string most(kMostLineBytes, 'x');
  for (const size_t more : {0u, 1u}) {
    const std::string text = "\xEF\xBB\xBF" + most + std::string(more, 'x') + "\r\nb\n";
    for (size_t ends : {2u, 3u, 4u, 5u, 6u}) {
      std::vector<size_t> sizes(kMostLineBytes >> 16, 1 << 16);
      sizes.push_back(ends);
      const std::vector<LineReader::Line> lines = read_in_pieces(text, sizes);
      ASSERT_EQ(lines.size(), 2u);
      EXPECT_EQ(lines[0].text.size(), more ? 0 : kMostLineBytes) << ends;
      EXPECT_EQ(lines[0].defect.empty(), !more) << ends;
      EXPECT_EQ(lines[1].text, "b");
    }
  }
}

}  // namespace
}  // namespace pal
