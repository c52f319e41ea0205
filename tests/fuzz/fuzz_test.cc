// A few thousand mutations of every fuzz target's seeds, the same on every machine: what libFuzzer
// does for hours, in seconds.
#include "tests/fuzz/fuzz.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace pal {
namespace {

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

void run(const FuzzTarget& target, int count, int at_least) {
  Lcg random{7};
  int accepted = 0;
  for (const std::string& seed : target.seeds) EXPECT_NO_THROW(target.body(seed)) << visible(seed);
  for (int i = 0; i < count; ++i) {
    const std::string bytes = mutate(target, random);
    try {
      accepted += target.body(bytes);
    } catch (const std::exception& defect) {
      FAIL() << defect.what() << " with " << visible(bytes);
    }
  }
  // Neither half may be a formality.
  EXPECT_GE(accepted, at_least);
  EXPECT_GE(count - accepted, at_least);
}

TEST(Fuzz, Config) { run(fuzz_config(), 6000, 100); }
TEST(Fuzz, Vocabulary) { run(fuzz_vocabulary(), 6000, 1000); }
TEST(Fuzz, SentencePiece) { run(fuzz_sentencepiece(), 1000, 20); }
TEST(Fuzz, Text) { run(fuzz_text(), 6000, 1000); }
TEST(Fuzz, Safetensors) { run(fuzz_safetensors(), 6000, 50); }
TEST(Fuzz, Image) { run(fuzz_image(), 6000, 100); }
TEST(Fuzz, Cifar) { run(fuzz_cifar(), 1500, 20); }
TEST(Fuzz, Idx) { run(fuzz_idx(), 3000, 50); }
TEST(Fuzz, Sound) { run(fuzz_sound(), 3000, 100); }
TEST(Fuzz, Mfcc) { run(fuzz_mfcc(), 3000, 100); }
TEST(Fuzz, Manifest) { run(fuzz_manifest(), 3000, 100); }
TEST(Fuzz, Profile) { run(fuzz_profile(), 6000, 50); }
TEST(Fuzz, Place) { run(fuzz_place(), 6000, 100); }

}  // namespace
}  // namespace pal
