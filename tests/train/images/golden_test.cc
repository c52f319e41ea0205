// Ten training steps of residual networks beside PyTorch's, from the same weights and over the same
// images: golden values from tests/train/golden/make_resnet_steps.py, which says what each case is.
#include <gtest/gtest.h>

#include <cstring>

#include "core/scalars.h"
#include "tests/train/loop/golden_steps.h"
#include "train/images/image_models.h"
#include "train/loop/initialise.h"
#include "train/loop/run_options.h"
#include "train/loop/step_program.h"
#include "train/run_files/safetensors.h"

namespace pal {
namespace {

void expect_steps_of_pytorch(const std::string& name, bool bf16) {
  const SafetensorsFile tensors = SafetensorsFile::open(kGolden + "resnet_steps.safetensors");
  auto tensor = [&](const std::string& key) -> const TensorView& {
    const TensorView* found = tensors.find(key);
    if (!found) throw std::runtime_error("the golden values lack " + key);
    return *found;
  };
  const nlohmann::json numbers = golden_numbers("resnet_steps");
  nlohmann::json which;
  for (const auto& each : numbers["cases"]) {
    if (each["name"] == name) which = each;
  }
  std::vector<Override> overrides;
  for (const std::string set : which["set"]) overrides.push_back(parse_set(set));
  if (bf16) overrides.push_back(parse_set("train.precision=bf16"));
  // The bottlenecks stand close to where a maximum changes places: when the last bits of the first
  // weights change, so do the losses from the fourth step on, by a thousandth at the tenth. Of the
  // orders that a GPU may add in, the products' keeps to PyTorch's way.
  if (name.starts_with("bottleneck")) overrides.push_back(parse_set("device.cudnn=false"));
  const Config config = load_config(kGolden + "resnet_steps.yaml", overrides);
  const ImageModel model = image_model(config, **config.images().classes);
  const int64_t size = which["size"], batch = *config.train.batch_size;
  auto forward = [&](Builder& b, Val scalars) {
    ImageLoss loss = image_loss(b, model, batch, size, size, scalars, true,
                                {.label_smoothing = float(*config.train.label_smoothing)});
    return Recorded{loss.loss, {}, loss.moved};
  };
  ProgramSet programs(compile_options(config.memory), choose_device(config.device));
  Executable& program = programs.add("step", record_step(forward, config.train, MicroBatch::only));
  initialise(programs, 1);  // the optimizer's state
  const std::string initial = "initial/" + name + "/";
  for (const StateTensor& slot : programs.state()) {
    if (slot.role == Role::optimizer_state) continue;
    const TensorView& first = tensor(initial + slot.name);
    ASSERT_EQ(first.bytes, size_t(slot.spec.bytes())) << slot.name;
    std::memcpy(slot.data, first.data, first.bytes);
  }

  const TensorView &images = tensor("batch/images" + std::to_string(size)),
                   &labels = tensor("batch/labels");
  const int64_t pixels = batch * size * size * model.channels;
  Losses losses("resnet_steps", bf16);
  for (int64_t step = 0; step < 10; ++step) {
    const auto* bytes = static_cast<const uint8_t*>(images.data) + step * pixels;
    auto* x = reinterpret_cast<float*>(program.input(image_input::kImages));
    for (int64_t i = 0; i < pixels; ++i) x[i] = float(bytes[i]) / 128 - 1;
    std::memcpy(program.input(image_input::kLabels),
                static_cast<const int32_t*>(labels.data) + step * batch, size_t(batch) * 4);
    const StepScalars scalars{
        .learning_rate = float(*config.train.lr), .step = int32_t(step), .tokens = float(batch)};
    std::memcpy(program.input(kScalarsInput), &scalars, sizeof scalars);
    program.run();
    losses.expect(step, double(*program.output("loss")), which["losses"][size_t(step)]);
  }

  if (bf16) return;
  int weights = 0, statistics = 0;
  const std::string end = "final/" + name + "/";
  for (const StateTensor& slot : programs.state()) {
    if (slot.role == Role::optimizer_state || !tensors.find(end + slot.name)) continue;
    expect_weights(slot, static_cast<const float*>(tensor(end + slot.name).data),
                   static_cast<const float*>(tensor(initial + slot.name).data));
    ++(slot.role == Role::statistic ? statistics : weights);
  }
  EXPECT_GT(weights, 15);
  EXPECT_GT(statistics, 12);
}

class GoldenResNet : public testing::TestWithParam<const char*> {};

TEST_P(GoldenResNet, TenStepsAsInPyTorch) { expect_steps_of_pytorch(GetParam(), false); }
TEST_P(GoldenResNet, TenStepsInBf16AsNearToF32AsPyTorchs) {
  expect_steps_of_pytorch(GetParam(), true);
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenResNet,
                         testing::Values("cifar", "cifar_identity", "cifar_v2", "bottleneck",
                                         "bottleneck_v2"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace pal
