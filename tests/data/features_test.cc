// Spectrograms against a plain Fourier sum, MFCC files, SpecAugment.
#include "data/features.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numbers>

#include "core/error.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

std::vector<float> noise(size_t n) {
  std::vector<float> out;
  uint32_t state = 1;
  for (size_t i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    out.push_back(float(int32_t(state)) * 0x1p-32f);
  }
  return out;
}

TEST(Spectrogram, HasTheShapeOfDeepSpeech) {
  Spectrogram s({16000, 0.02, 0.01});
  EXPECT_EQ(s.bins(), 161);
  EXPECT_EQ(s.frames(16000), 99);
  EXPECT_EQ(s.frames(320), 1);
  EXPECT_EQ(s.frames(480), 2);
  EXPECT_EQ(s.frames(1), 1);  // zeros fill the window
  EXPECT_EQ(Spectrogram({8000, 0.02, 0.01}).bins(), 81);
}

TEST(Spectrogram, IsTheLogMagnitudeOfAFourierSum) {
  Spectrogram s({1000, 0.02, 0.01});  // windows of 20, hops of 10
  const std::vector<float> x = noise(57);
  const Features got = s.compute(x);
  ASSERT_EQ(got.frames, 4);
  ASSERT_EQ(got.bins, 11);
  std::vector<double> want;
  double sum = 0, squares = 0;
  for (int frame = 0; frame < 4; ++frame) {
    for (int bin = 0; bin < 11; ++bin) {
      double re = 0, im = 0;
      for (int i = 0; i < 20; ++i) {
        const double turn = 2 * std::numbers::pi / 20 * bin * i;
        const double w = 0.54 - 0.46 * std::cos(2 * std::numbers::pi * i / 19);
        re += w * x[size_t(10 * frame + i)] * std::cos(turn);
        im -= w * x[size_t(10 * frame + i)] * std::sin(turn);
      }
      want.push_back(0.5 * std::log(re * re + im * im + 1e-5));
      sum += want.back(), squares += want.back() * want.back();
    }
  }
  const double mean = sum / 44, deviation = std::sqrt(squares / 44 - mean * mean);
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got.values[i], (want[i] - mean) / deviation, 1e-4) << i;
  }
}

// What is shorter than a window has zeros behind it, whatever lies there.
TEST(Spectrogram, ZerosFillTheWindow) {
  Spectrogram s({1000, 0.02, 0.01});
  const std::vector<float> x = noise(20);
  for (size_t n = 0; n <= x.size(); ++n) {
    std::vector<float> filled(x.begin(), x.begin() + std::ptrdiff_t(n));
    filled.resize(20);
    const Features got = s.compute(std::span(x).first(n));
    EXPECT_EQ(got.frames, 1);
    EXPECT_EQ(got.values, s.compute(filled).values) << n;
  }
}

TEST(Spectrogram, IsTheSameLoudOrQuietAndOfSilenceZero) {
  Spectrogram s({8000, 0.02, 0.01});
  std::vector<float> x = noise(4000);
  const Features loud = s.compute(x);
  for (float& v : x) v *= 0.25f;
  const Features quiet = s.compute(x);
  size_t above = 0;
  for (size_t i = 0; i < loud.values.size(); ++i) {
    if (loud.values[i] < -2) continue;  // near the floor below which nothing is heard
    EXPECT_NEAR(loud.values[i], quiet.values[i], 0.01) << i;
    ++above;
  }
  EXPECT_GT(above, loud.values.size() * 9 / 10);
  for (const float v : s.compute(std::vector<float>(1000)).values) EXPECT_EQ(v, 0);
}

class MfccTest : public testing::Test {
 protected:
  MfccTest()
      : path_((fs::path(testing::TempDir()) / ("pal_mfcc_" + std::to_string(getpid()))).string()) {}
  ~MfccTest() override { fs::remove(path_); }

  void write(int32_t says, const std::vector<float>& values, bool big = true) const {
    std::ofstream out(path_, std::ios::binary);
    auto put = [&](uint32_t u) {
      if (big) u = __builtin_bswap32(u);
      out.write(reinterpret_cast<const char*>(&u), 4);
    };
    put(static_cast<uint32_t>(says));
    for (const float v : values) put(std::bit_cast<uint32_t>(v));
  }
  std::string error(int64_t coefficients) const {
    try {
      (void)read_mfcc(path_, coefficients);
    } catch (const UsageError& e) {
      EXPECT_TRUE(std::string(e.what()).starts_with(path_)) << e.what();
      return e.what();
    }
    return "";
  }
  std::string path_;
};

TEST_F(MfccTest, IsReadInEitherByteOrderAndNormalisedByCoefficient) {
  const std::vector<float> values{1, 10, 2, 20, 3, 30, 6, 20};  // four frames of two
  for (const bool big : {true, false}) {
    write(8, values, big);
    EXPECT_EQ(inspect_mfcc(path_, 2), 4);
    const Features f = read_mfcc(path_, 2);
    EXPECT_EQ(f.frames, 4);
    EXPECT_EQ(f.bins, 2);
    const double deviation = std::sqrt((4 + 1 + 0 + 9) / 4.0);
    EXPECT_NEAR(f.values[0], (1 - 3) / deviation, 1e-5);
    EXPECT_NEAR(f.values[6], (6 - 3) / deviation, 1e-5);
    EXPECT_NEAR(f.values[1], -10 / std::sqrt(50.0), 1e-5);
    EXPECT_NEAR(f.values[3], 0, 1e-6);
  }
}

TEST_F(MfccTest, EveryByteOfANumberCounts) {
  const std::vector<float> values = noise(300);
  write(300, values, true);
  const std::vector<float> big = read_mfcc(path_, 1).values;
  write(300, values, false);
  EXPECT_EQ(read_mfcc(path_, 1).values, big);
  double sum = 0, squares = 0;
  for (const float v : values) sum += double(v), squares += double(v) * double(v);
  const double mean = sum / 300, deviation = std::sqrt(squares / 300 - mean * mean);
  for (size_t i = 0; i < 300; ++i)
    EXPECT_NEAR(big[i], (double(values[i]) - mean) / deviation, 1e-6);
}

TEST_F(MfccTest, RefusesWhatDoesNotFit) {
  write(9, {1, 2, 3, 4});
  EXPECT_NE(error(2).find("cut short"), std::string::npos);
  write(4, {1, 2, 3, 4});
  EXPECT_NE(error(3).find("no multiple of 3"), std::string::npos);
  write(4, {1, 2, NAN, 4});
  EXPECT_NE(error(2).find("no number"), std::string::npos);
  write(0, {});
  EXPECT_NE(error(2).find("no frame"), std::string::npos);
  std::ofstream(path_, std::ios::binary) << "ab";
  EXPECT_NE(error(2).find("too short"), std::string::npos);
}

TEST(SpecAugmentTest, MasksAreZeroAndDependOnSeedAndStream) {
  Features whole{50, 40, std::vector<float>(2000, 1)};
  auto masked = [&](const SpecAugment& o, uint64_t seed, uint64_t stream) {
    Features f = whole;
    augment(f, o, seed, stream);
    return f.values;
  };
  EXPECT_EQ(masked({}, 1, 1), whole.values);
  const SpecAugment both{2, 10, 2, 8};
  EXPECT_EQ(masked(both, 1, 1), masked(both, 1, 1));
  EXPECT_NE(masked(both, 1, 1), masked(both, 1, 2));
  EXPECT_NE(masked(both, 1, 1), masked(both, 2, 1));
  int64_t most = 0, sum = 0;
  for (uint64_t stream = 0; stream < 200; ++stream) {
    const std::vector<float> f = masked({1, 10, 0, 0}, 1, stream);
    int64_t rows = 0;
    for (size_t t = 0; t < 50; ++t) {
      const auto zeros =
          std::count(f.begin() + int64_t(t) * 40, f.begin() + int64_t(t + 1) * 40, 0.0f);
      EXPECT_TRUE(zeros == 0 || zeros == 40);
      rows += zeros == 40;
    }
    most = std::max(most, rows), sum += rows;
  }
  EXPECT_EQ(most, 10);
  EXPECT_NEAR(double(sum) / 200, 5, 1);
  // Bins that are masked are so in every frame, and lie side by side.
  most = sum = 0;
  for (uint64_t stream = 0; stream < 200; ++stream) {
    const std::vector<float> f = masked({0, 0, 1, 8}, 1, stream);
    for (size_t i = 0; i < f.size(); ++i) ASSERT_EQ(f[i], f[i % 40]) << i;
    const auto zeros = std::count(f.begin(), f.begin() + 40, 0.0f);
    EXPECT_EQ(zeros + std::count(f.begin(), f.begin() + 40, 1.0f), 40);
    const auto first = std::find(f.begin(), f.begin() + 40, 0.0f);
    EXPECT_EQ(std::count(first, first + zeros, 0.0f), zeros);
    most = std::max<int64_t>(most, zeros), sum += zeros;
  }
  EXPECT_EQ(most, 8);
  EXPECT_NEAR(double(sum) / 200, 4, 1);
  // Wider than the utterance is long.
  EXPECT_NO_THROW(masked({3, 500, 3, 500}, 1, 1));
}

// A run that goes on elsewhere, or with a later version, hears what it would have heard. From
// Philox's numbers, worked out apart.
TEST(SpecAugmentTest, MasksAreTheSameEverywhere) {
  constexpr uint64_t kSeed = uint64_t{5} << 32 | 7, kStream = uint64_t{2} << 32 | 5;
  Features f{50, 40, std::vector<float>(2000, 1)};
  augment(f, {2, 10, 1, 8}, kSeed, kStream);
  for (int64_t frame = 0; frame < 50; ++frame) {
    for (int64_t bin = 0; bin < 40; ++bin) {
      const bool masked =
          (frame >= 26 && frame < 32) || (frame >= 5 && frame < 15) || (bin >= 10 && bin < 15);
      ASSERT_EQ(f.values[size_t(frame * 40 + bin)], masked ? 0 : 1) << frame << " " << bin;
    }
  }
}

}  // namespace
}  // namespace pal
