// Averages stand in for the weights, which come back bit for bit.
#include "train/loop/ema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/elementwise/add.h"

namespace pal {
namespace {

constexpr int64_t kCount = 5;

class Ema : public testing::Test {
 protected:
  Ema() {
    Builder b;
    const Val w = b.state("w", {{kCount}}, Role::weight);
    const Val average = b.state(kEmaPrefix + std::string("w"), {{kCount}}, Role::optimizer_state);
    b.output("sum", add(w, average));
    programs_.add("only", b.take());
    for (int64_t i = 0; i < kCount; ++i) {
      at("w")[i] = 1.0f / float(i + 3), at("ema/w")[i] = 0.5f * float(i);
    }
    weights_ = values("w");
  }
  float* at(const std::string& name) {
    for (const StateTensor& slot : programs_.state()) {
      if (slot.name == name) return reinterpret_cast<float*>(slot.data);
    }
    return nullptr;
  }
  std::vector<float> values(const std::string& name) { return {at(name), at(name) + kCount}; }

  ProgramSet programs_{CompileOptions{}, cpu_device(1)};
  std::vector<float> weights_;
};

TEST_F(Ema, AveragesStandInUntilTheEndOfTheirLife) {
  const std::vector<float> slots = values("ema/w");
  {
    const EmaWeights averages(programs_, 0.75, 2);
    for (int64_t i = 0; i < kCount; ++i) {
      EXPECT_FLOAT_EQ(at("w")[i], slots[size_t(i)] / float(1 - 0.75 * 0.75));
    }
  }
  EXPECT_EQ(values("w"), weights_);
  EXPECT_EQ(values("ema/w"), slots);
}

// What is written after restore() stays.
TEST_F(Ema, WeightsAreRestoredOnce) {
  {
    EmaWeights averages(programs_, 0.75, 2);
    averages.restore();
    EXPECT_EQ(values("w"), weights_);
    std::fill_n(at("w"), kCount, 7.0f);
  }
  EXPECT_EQ(values("w"), std::vector<float>(kCount, 7.0f));
}

TEST_F(Ema, BeforeAnyUpdateTheWeightsStay) {
  const EmaWeights averages(programs_, 0.75, 0);
  EXPECT_EQ(values("w"), weights_);
}

}  // namespace
}  // namespace pal
