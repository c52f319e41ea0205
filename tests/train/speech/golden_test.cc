// Ten training steps of Deep Speech 2 beside PyTorch's, from the same weights and over the same
// batches: golden values from tests/train/golden/make_speech_steps.py. Each is run fused and
// unfused. The running statistics count as weights.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "core/scalars.h"
#include "models/deepspeech2.h"
#include "tests/train/loop/golden_steps.h"
#include "train/loop/initialise.h"
#include "train/loop/run_options.h"
#include "train/loop/step_program.h"
#include "train/run_files/safetensors.h"

namespace pal {
namespace {

constexpr const char* kGoldenSpeech =
    "model: {type: deepspeech2}\n"
    "train: {optimizer: adam, lr: 0.01, eps: 1.0e-4, steps: 10}\n"
    "device: {threads: 1}\n";

class SpeechGolden : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  SpeechGolden()
      : tensors_(SafetensorsFile::open(kGolden + "speech_steps.safetensors")),
        numbers_(golden_numbers("speech_steps")) {}
  void expect_steps_of_pytorch(bool bf16);
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

void SpeechGolden::expect_steps_of_pytorch(bool bf16) {
  const auto [number, fused] = GetParam();
  const nlohmann::json& which = numbers_["cases"].at(size_t(number));
  std::vector<Override> overrides;
  for (const std::string set : which["set"]) overrides.push_back(parse_set(set));
  if (bf16) overrides.push_back(parse_set("train.precision=bf16"));
  const Config config = parse_config(kGoldenSpeech, "golden.yaml", overrides);
  const DeepSpeech2Options& model = *config.options<DeepSpeech2Options>();
  DeepSpeech2Options o;
  o.bins = 9, o.labels = 6, o.channels = 3, o.layers = 2, o.hidden = 5;
  o.conv_kernels = {"5x5", "3x3"}, o.conv_strides = {"2x2", "1x2"};
  o.cell = model.cell, o.directions = model.directions;
  o.fully_connected = model.fully_connected;
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

  Losses losses("speech_steps", bf16);
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
    losses.expect(step, double(*program.output("loss")), which["losses"][size_t(step)]);
  }

  if (bf16) return;
  int slots = 0;
  for (const StateTensor& slot : programs.state()) {
    if (!compared(slot)) continue;
    const TensorView& final = tensor("final/" + which["name"].get<std::string>() + "/" + slot.name);
    ASSERT_EQ(final.bytes, size_t(slot.spec.bytes())) << slot.name;
    expect_weights(slot, static_cast<const float*>(final.data), initial(slot));
    ++slots;
  }
  EXPECT_GT(slots, 30);
}

TEST_P(SpeechGolden, TenStepsAsInPyTorch) { expect_steps_of_pytorch(false); }
TEST_P(SpeechGolden, TenStepsInBf16AsNearToF32AsPyTorchs) { expect_steps_of_pytorch(true); }

std::string name_of(const testing::TestParamInfo<std::tuple<int, bool>>& test) {
  const char* const names[] = {"Gru", "Lstm", "Concat"};
  return std::string(names[std::get<0>(test.param)]) +
         (std::get<1>(test.param) ? "Fused" : "Unfused");
}

INSTANTIATE_TEST_SUITE_P(Cases, SpeechGolden,
                         testing::Combine(testing::Values(0, 1, 2), testing::Bool()), name_of);

}  // namespace
}  // namespace pal
