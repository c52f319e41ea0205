// What libFuzzer does for hours, in seconds: each target's corpus, which is what libFuzzer has
// found, and a few thousand mutations of its seeds, the same on every machine.
#include "tests/fuzz/fuzz.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

namespace pal {
namespace {

namespace fs = std::filesystem;

struct Lcg {
  uint64_t state;
  size_t below(size_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(state >> 33) % n;
  }
};

std::string mutate(const FuzzTarget& target, Lcg& random) {
  std::string bytes = target.seeds[random.below(target.seeds.size())];
  for (size_t n = 1 + random.below(3); n > 0; --n) {
    const size_t at = random.below(bytes.size() + 1), left = bytes.size() - at;
    const std::string& other = target.seeds[random.below(target.seeds.size())];
    const size_t from = random.below(other.size());
    switch (random.below(7)) {
      case 0: bytes.insert(at, 1, static_cast<char>(random.below(256))); break;
      case 1: bytes.erase(at, 1 + random.below(8)); break;
      case 2:
      case 3: bytes.insert(at, target.scraps[random.below(target.scraps.size())]); break;
      case 4: bytes.insert(at, other.substr(from, random.below(40))); break;
      case 5:
        if (left > 0) bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
        break;
      default: bytes.resize(at + random.below(left + 1));
    }
  }
  return bytes;
}

std::string visible(const std::string& bytes) {
  std::string text;
  for (const unsigned char c : bytes) {
    char hex[8];
    std::snprintf(hex, sizeof hex, "\\x%02x", unsigned{c});
    text += c < ' ' || c > '~' ? std::string(hex) : std::string(1, static_cast<char>(c));
  }
  return text;
}

void try_bytes(const FuzzTarget& target, const std::string& bytes, int& accepted) {
  try {
    accepted += target.body(bytes);
  } catch (const std::exception& defect) {
    FAIL() << defect.what() << " with " << visible(bytes);
  }
}

void mutations(const FuzzTarget& target, int count, int at_least) {
  Lcg random{7};
  int accepted = 0;
  for (const std::string& seed : target.seeds) EXPECT_NO_THROW(target.body(seed)) << visible(seed);
  for (int i = 0; i < count && !testing::Test::HasFatalFailure(); ++i) {
    try_bytes(target, mutate(target, random), accepted);
  }
  // Neither half may be a formality.
  EXPECT_GE(accepted, at_least);
  EXPECT_GE(count - accepted, at_least);
}

const fs::path kCorpus = PAL_SOURCE_DIR "/tests/fuzz/corpus";

void corpus(const std::string& name, const FuzzTarget& target) {
  ASSERT_TRUE(fs::is_directory(kCorpus / name))
      << "scripts/fuzz " << name << " --minimise makes it";
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kCorpus / name)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  EXPECT_GE(files.size(), 2u);
  int accepted = 0;
  for (const fs::path& file : files) {
    SCOPED_TRACE(file.filename().string());
    std::ifstream in(file, std::ios::binary);
    try_bytes(target, {std::istreambuf_iterator<char>(in), {}}, accepted);
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, int(files.size()));
}

// Of those whose readers tell in the log what they pass over.
template <class Body> void quietly(const Body& body) {
  testing::internal::CaptureStderr();
  body();
  testing::internal::GetCapturedStderr();
}

struct Row {
  const char* name;
  FuzzTarget (*target)();
  int count, at_least;  // mutations; accepted of them, and refused
  bool logs = false;
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

const Row kRows[] = {{"config", fuzz_config, 6000, 100},
                     {"vocabulary", fuzz_vocabulary, 6000, 1000},
                     {"sentencepiece", fuzz_sentencepiece, 1000, 20},
                     {"text", fuzz_text, 6000, 1000},
                     {"safetensors", fuzz_safetensors, 6000, 50},
                     {"image", fuzz_image, 6000, 100},
                     {"cifar", fuzz_cifar, 1500, 20},
                     {"idx", fuzz_idx, 3000, 50},
                     {"sound", fuzz_sound, 3000, 100},
                     {"mfcc", fuzz_mfcc, 3000, 100},
                     {"manifest", fuzz_manifest, 3000, 100},
                     {"profile", fuzz_profile, 6000, 50},
                     {"place", fuzz_place, 6000, 100},
                     {"link", fuzz_link, 3000, 50},
                     {"ladder", fuzz_ladder, 3000, 100},
                     {"metrics", fuzz_metrics, 3000, 100},
                     {"times", fuzz_times, 3000, 50},
                     {"algorithms", fuzz_algorithms, 1000, 50, true},
                     {"position", fuzz_position, 3000, 50},
                     {"budget", fuzz_budget, 3000, 100, true},
                     {"front", fuzz_front, 1500, 20}};

class Fuzz : public testing::TestWithParam<Row> {
 protected:
  void with_target(const std::function<void(const FuzzTarget&)>& use) {
    const FuzzTarget target = GetParam().target();
    GetParam().logs ? quietly([&] { use(target); }) : use(target);
  }
};

TEST_P(Fuzz, MutationsOfSeeds) {
  with_target([&](const FuzzTarget& t) { mutations(t, GetParam().count, GetParam().at_least); });
}
TEST_P(Fuzz, Corpus) {
  with_target([&](const FuzzTarget& t) { corpus(GetParam().name, t); });
}

INSTANTIATE_TEST_SUITE_P(Readers, Fuzz, testing::ValuesIn(kRows),
                         [](const auto& row) { return std::string(row.param.name); });

// A corpus that nobody runs would seem to be one.
TEST(FuzzCorpora, AreThoseOfTheTargetsAndSmall) {
  std::set<std::string> expected, found;
  for (const Row& row : kRows) expected.insert(row.name);
  uintmax_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kCorpus)) {
    if (entry.is_directory()) {
      found.insert(entry.path().filename().string());
      continue;
    }
    EXPECT_LE(entry.file_size(), 16u << 10) << entry.path();
    bytes += entry.file_size();
  }
  EXPECT_EQ(found, expected);
  EXPECT_LT(bytes, 5u << 20);
}

}  // namespace
}  // namespace pal
