// Ten training steps of residual networks beside PyTorch's, from the same weights and over the same
// images: golden values from tests/train/golden/make_resnet_steps.py, which says what each case is.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/scalars.h"
#include "train/image_models.h"
#include "train/initialise.h"
#include "train/safetensors.h"
#include "train/step_program.h"
#include "train/trainer.h"

namespace pal {
namespace {

const std::string kFolder = PAL_SOURCE_DIR "/tests/train/golden/";

// As golden_test.cc has them: loss of a step, relative; and after ten steps the distance to
// PyTorch's weights, relative to how far the weights have gone.
constexpr double kLossTolerance = 1e-4, kWeightTolerance = 1e-3;

class GoldenResNet : public testing::TestWithParam<const char*> {};

TEST_P(GoldenResNet, TenStepsAsInPyTorch) {
  const SafetensorsFile tensors = SafetensorsFile::open(kFolder + "resnet_steps.safetensors");
  auto tensor = [&](const std::string& name) -> const TensorView& {
    const TensorView* found = tensors.find(name);
    if (!found) throw std::runtime_error("the golden values lack " + name);
    return *found;
  };
  std::ifstream file(kFolder + "resnet_steps.json");
  const nlohmann::json numbers = nlohmann::json::parse(file);
  nlohmann::json which;
  for (const auto& each : numbers["cases"]) {
    if (each["name"] == GetParam()) which = each;
  }
  std::vector<Override> overrides;
  for (const std::string set : which["set"]) overrides.push_back(parse_set(set));
  const Config config = load_config(kFolder + "resnet_steps.yaml", overrides);
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
  const std::string initial = std::string("initial/") + GetParam() + "/";
  for (const StateTensor& slot : programs.state()) {
    if (slot.role == Role::optimizer_state) continue;
    const TensorView& first = tensor(initial + slot.name);
    ASSERT_EQ(first.bytes, size_t(slot.spec.bytes())) << slot.name;
    std::memcpy(slot.data, first.data, first.bytes);
  }

  const TensorView &images = tensor("batch/images" + std::to_string(size)),
                   &labels = tensor("batch/labels");
  const int64_t pixels = batch * size * size * model.channels;
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
    const double want = which["losses"][size_t(step)], got = double(*program.output("loss"));
    EXPECT_NEAR(got, want, kLossTolerance * want) << "step " << step;
  }

  int weights = 0, statistics = 0;
  const std::string end = std::string("final/") + GetParam() + "/";
  for (const StateTensor& slot : programs.state()) {
    if (slot.role == Role::optimizer_state || !tensors.find(end + slot.name)) continue;
    const auto *want = static_cast<const float*>(tensor(end + slot.name).data),
               *before = static_cast<const float*>(tensor(initial + slot.name).data),
               *got = reinterpret_cast<const float*>(slot.data);
    double off = 0, way = 0;
    for (int64_t i = 0; i < slot.spec.numel(); ++i) {
      off += std::pow(double(got[i]) - double(want[i]), 2);
      way += std::pow(double(want[i]) - double(before[i]), 2);
    }
    EXPECT_GT(way, 0) << slot.name;
    EXPECT_LE(std::sqrt(off), kWeightTolerance * std::sqrt(way)) << slot.name;
    ++(slot.role == Role::statistic ? statistics : weights);
  }
  EXPECT_GT(weights, 15);
  EXPECT_GT(statistics, 12);
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenResNet,
                         testing::Values("cifar", "cifar_identity", "cifar_v2", "bottleneck",
                                         "bottleneck_v2"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace pal
