// Ten training steps of the image networks beside torchvision's, an eighth as wide, and the loss
// with the running statistics afterwards: tests/train/golden/zoo_steps.json, by make_zoo_steps.py.
// Weights and images are made by the same formula on both sides.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/scalars.h"
#include "memory/run/program_set.h"
#include "models/zoo.h"
#include "ops/losses/cross_entropy.h"
#include "ops/tensors/transfers.h"
#include "train/loop/step_program.h"

namespace pal {
namespace {

// Of a loss, relative.
constexpr double kTolerance = 1e-4;
// Of the last: an evaluation through running variances that ten steps have hardly moved is large,
// and magnifies rounding.
constexpr double kEvaluationTolerance = 1e-3;

const nlohmann::json& golden() {
  static const nlohmann::json all = [] {
    std::ifstream in(PAL_SOURCE_DIR "/tests/train/golden/zoo_steps.json");
    return nlohmann::json::parse(in);
  }();
  return all;
}

// number() of make_zoo_steps.py.
float number(uint32_t i, uint32_t stream) {
  uint32_t x = i * 2654435761u + stream * 0x9E3779B9u;
  x ^= x >> 15, x *= 0x85EBCA6Bu;
  x ^= x >> 13, x *= 0xC2B2AE35u;
  x ^= x >> 16;
  return float(x >> 8) / float(1 << 23) - 1;
}

void fill_weights(ProgramSet& programs) {
  uint32_t stream = 0;
  bool in_norm = false;  // the slot before was a norm's scale: this is its shift
  for (const StateTensor& slot : programs.state()) {
    float* data = reinterpret_cast<float*>(slot.data);
    const Shape& shape = slot.spec.shape;
    // Query, key and value side by side are three weights and three biases there: of the three,
    // each has its weight's stream, and its bias's behind it.
    if (slot.role == Role::weight && slot.name.find("/qkv/") != std::string::npos) {
      const bool bias = shape.rank() == 1;
      const int64_t rows = bias ? 1 : shape[0], columns = shape.back() / 3;
      const float factor = bias ? 0.1f : std::sqrt(float(6.0 / double(rows)));
      for (int64_t i = 0; i < rows * columns * 3; ++i) {
        const int64_t row = i / (3 * columns), part = i / columns % 3;
        data[i] =
            factor * number(uint32_t(row * columns + i % columns), stream + 2 * uint32_t(part));
      }
      stream += bias ? 5 : 1, in_norm = false;
      continue;
    }
    const bool scale = slot.name.ends_with("/weight") && shape.rank() == 1;
    const float centre = scale || (in_norm && shape.rank() == 1) ? 1.0f : 0.0f;
    float factor = scale ? 0.25f : 0.1f;
    if (shape.rank() > 1) {
      const int64_t fan_in = shape.rank() == 2 ? shape[0] : shape.numel() / shape[0];
      factor = std::sqrt(float(6.0 / double(fan_in)));
    }
    for (int64_t i = 0; i < shape.numel(); ++i) {
      if (slot.role == Role::weight) {
        data[i] = centre + factor * number(uint32_t(i), stream);
      } else {
        data[i] = slot.init.a;
      }
    }
    if (slot.role != Role::weight) continue;
    ++stream, in_norm = scale;
  }
}

class ZooGolden : public testing::TestWithParam<nlohmann::json> {};

TEST_P(ZooGolden, TenStepsAsInTorchvision) {
  const nlohmann::json& which = GetParam();
  const int64_t batch = golden()["batch"], edge = which["edge"];
  const ImageNetwork& network = image_network(which["network"]);
  const ImageModel model = zoo_model(
      network, {.classes = golden()["classes"], .width = golden()["width"], .dropout = 0.0f});
  const Shape images = network.input(batch, edge);
  auto forward = [&](Builder& b, Val scalars, bool training) {
    Recorded out;
    Val x = b.input("images", {images}), labels = b.input("labels", {{batch}, DType::i32});
    Val logits = model.logits(b, x, scalars, training, out.moved);
    out.loss = cross_entropy(logits, labels, scalars, {.ignore = -1}).loss;
    return out;
  };
  TrainConfig config;
  config.optimizer = OptimizerSpec::Kind::momentum;
  config.momentum = double(golden()["momentum"]);
  ProgramSet programs({}, cpu_device(1));
  Executable& train =
      programs.add("train", record_step([&](Builder& b, Val s) { return forward(b, s, true); },
                                        config, MicroBatch::only));
  Builder b;
  Val scalars = step_scalars(b.input(kScalarsInput, scalars_spec(), Space::host));
  b.output("loss", forward(b, scalars, false).loss);
  Executable& evaluate = programs.add("evaluate", b.take());
  fill_weights(programs);

  auto run = [&](Executable& program, int step) {
    float* pixels = reinterpret_cast<float*>(program.input("images"));
    for (int64_t i = 0; i < images.numel(); ++i) {
      pixels[i] = number(uint32_t(i), uint32_t(1000 + step));
    }
    for (int64_t i = 0; i < batch; ++i) {
      const int32_t label = int32_t((i * 7 + step * 3) % model.classes);
      std::memcpy(program.input("labels") + i * 4, &label, sizeof label);
    }
    const StepScalars now{.learning_rate = which["lr"], .step = step, .tokens = float(batch)};
    std::memcpy(program.input(kScalarsInput), &now, sizeof now);
    program.run();
    return double(*program.output("loss"));
  };
  const std::vector<double> losses = which["losses"];
  for (size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(run(train, int(i)), losses[i], kTolerance * losses[i]) << "step " << i;
  }
  const double after = which["evaluated"];
  EXPECT_NEAR(run(evaluate, 0), after, kEvaluationTolerance * after);
}

INSTANTIATE_TEST_SUITE_P(All, ZooGolden,
                         testing::ValuesIn(golden()["cases"].begin(), golden()["cases"].end()),
                         [](const auto& test) { return std::string(test.param["network"]); });

}  // namespace
}  // namespace pal
