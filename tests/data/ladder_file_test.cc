// buckets.txt: what is saved comes back, and a file that is no ladder is refused with its line.
#include "data/ladder_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/files.h"

namespace pal {
namespace {

TEST(LadderFile, ComesBackAsItWasSaved) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / kLadderFile;
  const BucketLadder sentences{64, {{7, 8}, {12, 14}, {12, 40}}};
  save_ladder(file, sentences);
  EXPECT_EQ(read_file(file), "7 8\n12 14\n12 40\n");
  EXPECT_EQ(load_ladder(file, 64).buckets, sentences.buckets);
  EXPECT_EQ(load_ladder(file, 64).batch, 64);

  const BucketLadder words{0, {{7, 8, 40}, {12, 14, 24}}};
  save_ladder(file, words);
  EXPECT_EQ(load_ladder(file, BatchSize::of_words(400)).buckets, words.buckets);
}

TEST(LadderFile, CountsRowsThatItLacks) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / kLadderFile;
  save_ladder(file, {0, {{7, 10}}});
  const BatchSize batch = BatchSize::of_words(400);
  EXPECT_EQ(load_ladder(file, batch).buckets.at(0).rows, batch.rows(7, 10));
}

TEST(LadderFile, RefusesWhatIsNoLadder) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / kLadderFile;
  const auto refusal = [&](const std::string& text, BatchSize batch) {
    std::ofstream(file) << text;
    return usage_error_of([&] { load_ladder(file, batch); });
  };
  for (const std::string second :
       {"6 8", "7 7", "7", "9 9 x", "9 9 16", "9 10001", "10001 9", "nine 9"}) {
    const std::string said = refusal("7 8\n" + second + "\n", 64);
    EXPECT_EQ(said, "[buckets] " + file +
                        ": line 2: expected two lengths, neither shorter than before; restore the "
                        "file from the run that wrote it")
        << second;
  }
  EXPECT_EQ(refusal("7 8\n10000 10000\n", 64), "");
  const BatchSize words = BatchSize::of_words(400);
  EXPECT_EQ(refusal("7 8 40\n9 9 1\n9 9 100000000\n", words), "");
  for (const std::string second : {"9 9 0", "9 9 -3", "9 9 100000001", "9 9 16 2"}) {
    EXPECT_NE(refusal("7 8 40\n" + second + "\n", words)
                  .find("line 2: expected two lengths, neither shorter than before, and the rows"),
              std::string::npos)
        << second;
  }
}

}  // namespace
}  // namespace pal
