// Ten training steps of Deep Speech 2 beside PyTorch's, from the same weights and over the same
// batches: golden values from tests/train/golden/make_speech_steps.py. Each is run fused and
// unfused. The running statistics count as weights.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/scalars.h"
#include "models/deepspeech2.h"
#include "train/initialise.h"
#include "train/safetensors.h"
#include "train/step_program.h"
#include "train/trainer.h"

namespace pal {
namespace {

const std::string kStem = PAL_SOURCE_DIR "/tests/train/golden/speech_steps";

// Loss of a step, relative.
constexpr double kLossTolerance = 1e-4;
// After ten steps: the distance to PyTorch's weights, relative to how far the weights have gone.
constexpr double kWeightTolerance = 1e-3;

constexpr const char* kConfig =
    "model: {type: deepspeech2}\n"
    "train: {optimizer: adam, lr: 0.01, eps: 1.0e-4, steps: 10}\n"
    "device: {threads: 1}\n";

class SpeechGolden : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  SpeechGolden() : tensors_(SafetensorsFile::open(kStem + ".safetensors")) {
    std::ifstream in(kStem + ".json");
    numbers_ = nlohmann::json::parse(in);
  }
  const TensorView& tensor(const std::string& name) {
    const TensorView* found = tensors_.find(name);
    if (!found) throw std::runtime_error("the golden values lack " + name);
    return *found;
  }
  const float* initial(const StateTensor& slot) {
    std::string name = "initial/" + slot.name + ":";
    for (int i = 0; i < slot.spec.shape.rank(); ++i) {
      name += (i ? "x" : "") + std::to_string(slot.spec.shape[i]);
    }
    return static_cast<const float*>(tensor(name).data);
  }
  // Batch `step` of the ten that are stacked in the file.
  const void* batch(const std::string& name, int64_t step, size_t* bytes = nullptr) {
    const TensorView& all = tensor("batch/" + name);
    const size_t each = all.bytes / size_t(all.shape[0]);
    if (bytes) *bytes = each;
    return static_cast<const char*>(all.data) + size_t(step) * each;
  }

  SafetensorsFile tensors_;
  nlohmann::json numbers_;
};

TEST_P(SpeechGolden, TenStepsAsInPyTorch) {
  const auto [number, fused] = GetParam();
  const nlohmann::json& which = numbers_["cases"].at(size_t(number));
  std::vector<Override> overrides;
  for (const std::string set : which["set"]) overrides.push_back(parse_set(set));
  const Config config = parse_config(kConfig, "golden.yaml", overrides);
  const DeepSpeechConfig& model = config.deepspeech();
  DeepSpeech2Options o;
  o.bins = 9, o.labels = 6, o.channels = 3, o.layers = 2, o.hidden = 5;
  o.convs = {{5, 5, 2, 2}, {3, 3, 1, 2}};
  o.cell = *model.cell == "gru" ? DeepSpeech2Options::Cell::gru : DeepSpeech2Options::Cell::lstm;
  o.sum_directions = *model.directions == "sum", o.fully_connected = *model.fully_connected;
  o.fused = fused;

  const std::vector<int64_t>& features = tensor("batch/features").shape;  // (10, B, F, bins)
  const SpeechShape shape{features[2], tensor("batch/labels").shape[1], features[1]};
  auto forward = [&](Builder& b, Val scalars) {
    SpeechLoss loss = deepspeech2_loss(b, o, shape, scalars, true);
    return Recorded{loss.loss, {}, loss.moved};
  };
  ProgramSet programs(compile_options(config.memory), choose_device(config.device));
  Executable& program = programs.add("step", record_step(forward, config.train, MicroBatch::only));
  initialise(programs, 1);  // the optimizer's state
  auto compared = [](const StateTensor& slot) {
    return slot.role == Role::weight || slot.role == Role::statistic;
  };
  for (const StateTensor& slot : programs.state()) {
    if (compared(slot)) std::memcpy(slot.data, initial(slot), size_t(slot.spec.bytes()));
  }

  for (int64_t step = 0; step < features[0]; ++step) {
    for (const char* name : {"features", "labels", "label_lengths"}) {
      size_t bytes = 0;
      const void* data = batch(name, step, &bytes);
      std::memcpy(program.input(name), data, bytes);
    }
    const auto* frames = static_cast<const int32_t*>(batch("frames", step));
    auto* steps = reinterpret_cast<int32_t*>(program.input(speech_input::kSteps));
    for (int64_t b = 0; b < shape.batch; ++b) steps[b] = int32_t(output_steps(o, frames[b]));
    const StepScalars scalars{.learning_rate = float(*config.train.lr),
                              .step = int32_t(step),
                              .tokens = float(shape.batch)};
    std::memcpy(program.input(kScalarsInput), &scalars, sizeof scalars);
    program.run();
    const double want = which["losses"][size_t(step)], got = double(*program.output("loss"));
    EXPECT_NEAR(got, want, kLossTolerance * want) << "step " << step;
  }

  int slots = 0;
  for (const StateTensor& slot : programs.state()) {
    if (!compared(slot)) continue;
    const TensorView& final = tensor("final/" + which["name"].get<std::string>() + "/" + slot.name);
    ASSERT_EQ(final.bytes, size_t(slot.spec.bytes())) << slot.name;
    const float *want = static_cast<const float*>(final.data), *before = initial(slot),
                *got = reinterpret_cast<const float*>(slot.data);
    double off = 0, way = 0;
    for (int64_t i = 0; i < slot.spec.numel(); ++i) {
      off += std::pow(double(got[i]) - double(want[i]), 2);
      way += std::pow(double(want[i]) - double(before[i]), 2);
    }
    EXPECT_GT(way, 0) << slot.name;
    EXPECT_LE(std::sqrt(off), kWeightTolerance * std::sqrt(way)) << slot.name;
    ++slots;
  }
  EXPECT_GT(slots, 30);
}

std::string name_of(const testing::TestParamInfo<std::tuple<int, bool>>& test) {
  const char* const names[] = {"Gru", "Lstm", "Concat"};
  return std::string(names[std::get<0>(test.param)]) +
         (std::get<1>(test.param) ? "Fused" : "Unfused");
}

INSTANTIATE_TEST_SUITE_P(Cases, SpeechGolden,
                         testing::Combine(testing::Values(0, 1, 2), testing::Bool()), name_of);

}  // namespace
}  // namespace pal
