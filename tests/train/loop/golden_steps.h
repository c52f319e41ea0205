// What the tests of ten steps beside PyTorch's share: how far losses and weights may be from its.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "memory/run/program_set.h"

namespace pal {

inline const std::string kGolden = PAL_SOURCE_DIR "/tests/train/golden/";

inline nlohmann::json golden_numbers(const std::string& stem) {
  std::ifstream in(kGolden + stem + ".json");
  return nlohmann::json::parse(in);
}

// Loss of a step, relative. In f32: rounding. In bf16 (train.precision): four times the farthest
// that PyTorch's own losses under autocast are from those in f32, over the cases of the file
// (golden/make_bf16_losses.py); autocast keeps in f32 what elementwise operators hand to each
// other.
inline double loss_tolerance(const std::string& stem, bool bf16) {
  if (!bf16) return 1e-4;
  const nlohmann::json autocast = golden_numbers("bf16_losses").at(stem);
  const nlohmann::json in_f32 = golden_numbers(stem);
  double most = 0;
  for (const auto& f32 : in_f32.at("cases")) {
    const nlohmann::json& losses = autocast.at(f32.at("name").get<std::string>());
    for (size_t step = 0; step < losses.size(); ++step) {
      const double exact = f32.at("losses").at(step);
      most = std::max(most, std::abs(double(losses[step]) / exact - 1));
    }
  }
  return 4 * most;
}

// Losses of steps beside PyTorch's. The farthest is recorded with the test
// (--gtest_output=xml:FILE).
class Losses {
 public:
  Losses(const std::string& stem, bool bf16) : tolerance_(loss_tolerance(stem, bf16)) {}
  ~Losses() { testing::Test::RecordProperty("farthest_loss", std::to_string(farthest_)); }
  void expect(int64_t step, double got, double want) {
    EXPECT_NEAR(got, want, tolerance_ * want) << "step " << step;
    farthest_ = std::max(farthest_, std::abs(got / want - 1));
  }

 private:
  double tolerance_, farthest_ = 0;
};

// After ten steps in f32: the distance to PyTorch's weights, relative to how far they have gone.
inline void expect_weights(const StateTensor& slot, const float* want, const float* before) {
  constexpr double kTolerance = 1e-3;
  const auto* got = reinterpret_cast<const float*>(slot.data);
  double off = 0, way = 0;
  for (int64_t i = 0; i < slot.spec.numel(); ++i) {
    off += std::pow(double(got[i]) - double(want[i]), 2);
    way += std::pow(double(want[i]) - double(before[i]), 2);
  }
  EXPECT_GT(way, 0) << slot.name;
  EXPECT_LE(std::sqrt(off), kTolerance * std::sqrt(way)) << slot.name;
}

}  // namespace pal
