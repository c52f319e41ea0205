// Probe 6: training and validation are two programs over one state. Validation finds the weights
// that training has just updated, at the same addresses, and changes nothing.
#include "memory/run/program_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "tests/probes/probe.h"
#include "tests/support/eval.h"

namespace pal::test {
namespace {

constexpr int kLayers = 3;
constexpr int64_t kRows = 9, kWidth = 7, kValidRows = 40;

Program train() { return perceptron(kLayers, kRows, kWidth, true); }
// Reads the weights alone, and declares them in another order than training does.
Program validate() {
  Program p = perceptron(kLayers, kValidRows, kWidth, false);
  std::reverse(p.state.begin(), p.state.end());
  return p;
}

std::vector<float> valid_x() { return random_floats(kValidRows * kWidth, 91); }
std::vector<float> valid_c() { return random_floats(kValidRows * kWidth, 92); }

// The validation loss with these weights, without any planner.
float expected_loss(Running& trained) {
  Evaluator eval(validate());
  for (auto& slot : validate().state) eval.set(slot.name, trained.floats(slot.name));
  eval.set("x", valid_x()), eval.set("c", valid_c());
  eval.run();
  return eval.floats("loss")[0];
}

std::vector<std::vector<std::byte>> state_of(Running& running) {
  std::vector<std::vector<std::byte>> out;
  for (auto& slot : running.program().state) out.push_back(running.bytes(slot.name));
  return out;
}

std::byte* address(Planned& planned, const std::string& name) {
  return planned.runner().data(planned.program().find_state(name)->start);
}

TEST(TwoPrograms, ValidationSeesUpdatedWeightsWhereTheyAre) {
  const StateLayout layout(train());
  Arena arena;
  Planned training(train(), layout, arena), validation(validate(), layout, arena);
  ASSERT_NE(training.peak(Space::device), validation.peak(Space::device));
  feed_perceptron(training.running(), 1);
  float before = 0;
  for (int step = 0; step < 3; ++step) {
    training.set("x", random_floats(kRows * kWidth, uint32_t(60 + step)));
    training.set("c", random_floats(kRows * kWidth, uint32_t(70 + step)));
    training.run();
    const auto state = state_of(training.running());
    validation.set("x", valid_x()), validation.set("c", valid_c());
    validation.run();
    EXPECT_EQ(validation.floats("loss")[0], expected_loss(training.running()));
    EXPECT_NE(validation.floats("loss")[0], before) << "the weights have moved";
    EXPECT_EQ(state_of(training.running()), state) << "validation wrote state";
    before = validation.floats("loss")[0];
  }
  for (auto& slot : validation.program().state) {
    EXPECT_EQ(address(training, slot.name), address(validation, slot.name)) << slot.name;
  }
}

// With a layout of its own the second program reads what does not belong there.
TEST(TwoPrograms, WithoutACommonLayoutTheWeightsAreOthers) {
  const StateLayout layout(train()), other(validate());
  Arena arena;
  Planned training(train(), layout, arena), validation(validate(), other, arena);
  feed_perceptron(training.running(), 1);
  training.run();
  const float expected = expected_loss(training.running());
  validation.set("x", valid_x()), validation.set("c", valid_c());
  validation.run();
  EXPECT_NE(address(training, "W0"), address(validation, "W0"));
  EXPECT_NE(validation.floats("loss")[0], expected);
}

TEST(TwoPrograms, AProgramSetBindsStateByName) {
  ProgramSet set({}, cpu_device(1));
  Executable& training = set.add("train", train());
  std::byte* small = set.state()[0].data;
  Executable& validation = set.add("valid", validate());
  Planned reference(train());
  feed_perceptron(reference.running(), 1);
  for (auto& slot : set.state()) {
    const auto bytes = reference.bytes(slot.name);
    std::memcpy(slot.data, bytes.data(), bytes.size());
  }
  auto fill = [](Executable& e, const std::string& name, const std::vector<float>& numbers) {
    std::memcpy(e.input(name), numbers.data(), numbers.size() * sizeof(float));
  };
  // They take turns: inputs lie where the other program had its own.
  fill(training, "x", reference.floats("x")), fill(training, "c", reference.floats("c"));
  training.run();
  fill(validation, "x", valid_x()), fill(validation, "c", valid_c());
  validation.run();
  reference.run();
  EXPECT_EQ(*validation.output("loss"), expected_loss(reference.running()));
  for (auto& slot : set.state()) {
    const auto bytes = reference.bytes(slot.name);
    EXPECT_EQ(std::memcmp(slot.data, bytes.data(), bytes.size()), 0) << slot.name;
  }
  // State stays when the arena has to grow for a later program.
  const auto weights = std::vector<std::byte>(set.state()[0].data, set.state()[0].data + 64);
  set.add("large", perceptron(kLayers, 100 * kRows, kWidth, false));
  EXPECT_NE(set.state()[0].data, small);
  EXPECT_EQ(std::memcmp(set.state()[0].data, weights.data(), weights.size()), 0);
  // Slots that nobody declared, or of another shape, are refused.
  auto refused = [&](int layers, int64_t width) {
    return error_of([&] { set.add("other", perceptron(layers, kRows, width, false)); }) != "";
  };
  EXPECT_TRUE(refused(kLayers + 1, kWidth));
  EXPECT_TRUE(refused(kLayers, kWidth + 1));
}

}  // namespace
}  // namespace pal::test
