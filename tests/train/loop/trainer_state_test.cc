// Where a run stands, as text: read back, and refused where it is none.
#include "train/loop/trainer_state.h"

#include <gtest/gtest.h>

#include "tests/support/files.h"

namespace pal {
namespace {

TEST(TrainerState, IsReadBack) {
  TrainerState state{.step = 7, .epoch = 1.5, .position = "epoch 1"};
  state.best = -2.5, state.has_best = true, state.plateau = {.stale = 2, .waited = 1, .decays = 1};
  state.rounded = {{"train/1x1/only", "3 5"}}, state.valid_due = true;
  EXPECT_EQ(TrainerState::from_json(state.to_json(), "x").to_json(), state.to_json());
}

TEST(TrainerState, NumbersThatNoRunHasAreRefused) {
  const std::string good = TrainerState{.step = 7}.to_json();
  const size_t at = good.find("\"step\":7");
  ASSERT_NE(at, std::string::npos) << good;
  for (const char* step : {"-1", "1e300", "7.5", "9223372036854775807", "\"7\"", "null"}) {
    std::string text = good;
    text.replace(at + 7, 1, step);
    const std::string said =
        usage_error_of([&] { TrainerState::from_json(text, "last.safetensors"); });
    EXPECT_NE(said.find("last.safetensors: the trainer's state"), std::string::npos) << step;
  }
  EXPECT_NE(usage_error_of([&] { TrainerState::from_json("{", "x"); }), "");
}

}  // namespace
}  // namespace pal
