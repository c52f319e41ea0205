// Ten training steps beside PyTorch's, from the same weights and over the same batches: golden
// values from tests/train/golden/make_nmt_steps.py, which also says what every case is.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/scalars.h"
#include "models/nmt.h"
#include "train/initialise.h"
#include "train/nmt_task.h"
#include "train/safetensors.h"
#include "train/step_program.h"
#include "train/trainer.h"

namespace pal {
namespace {

const std::string kFolder = PAL_SOURCE_DIR "/tests/train/golden/";

// Loss of a step, relative.
constexpr double kLossTolerance = 1e-4;
// After ten steps: the distance to PyTorch's weights, relative to how far the weights have gone.
constexpr double kWeightTolerance = 1e-3;

SafetensorsFile& tensors() {
  static SafetensorsFile file = SafetensorsFile::open(kFolder + "nmt_steps.safetensors");
  return file;
}

nlohmann::json golden() {
  std::ifstream in(kFolder + "nmt_steps.json");
  return nlohmann::json::parse(in);
}

const TensorView& tensor(const std::string& name) {
  const TensorView* found = tensors().find(name);
  if (!found) throw std::runtime_error("nmt_steps.safetensors lacks " + name);
  return *found;
}

// "initial/NAME:12x48": the weights that several cases share are there once.
const float* initial(const StateTensor& slot) {
  std::string name = "initial/" + slot.name + ":";
  for (int i = 0; i < slot.spec.shape.rank(); ++i) {
    name += (i ? "x" : "") + std::to_string(slot.spec.shape[i]);
  }
  return static_cast<const float*>(tensor(name).data);
}

// Batch `step` of the ten that are stacked in the file.
void put(Executable& program, const char* input, int64_t step) {
  const TensorView& all = tensor(std::string("batch/") + input);
  const size_t bytes = all.bytes / size_t(all.shape[0]);
  const char* from = static_cast<const char*>(all.data) + size_t(step) * bytes;
  std::memcpy(program.input(input), from, bytes);
}

void expect_steps_of_pytorch(const nlohmann::json& which, bool fused) {
  std::vector<Override> overrides{parse_set(fused ? "model.fused=true" : "model.fused=false")};
  for (const std::string set : which["set"]) overrides.push_back(parse_set(set));
  const Config config = load_config(kFolder + "nmt_steps.yaml", overrides);
  const ParallelTextConfig& data = config.parallel_text();
  const int64_t specials = 4;
  const NmtOptions model = nmt_options(config, **data.source_vocab_size + specials,
                                       **data.target_vocab_size + specials);
  const std::vector<int64_t>& source = tensor("batch/source").shape;     // (10, S, B)
  const std::vector<int64_t>& target = tensor("batch/target_in").shape;  // (10, T, B)
  auto forward = [&](Builder& b, Val scalars) {
    return Recorded{nmt_loss(b, model, {source[1], target[1], source[2]}, scalars, true).loss};
  };
  ProgramSet programs(compile_options(config.memory), choose_device(config.device));
  Executable& program = programs.add("step", record_step(forward, config.train, MicroBatch::only));
  initialise(programs, 1);  // the optimizer's state
  for (const StateTensor& slot : programs.state()) {
    if (slot.role == Role::weight) {
      std::memcpy(slot.data, initial(slot), size_t(slot.spec.bytes()));
    }
  }

  for (int64_t step = 0; step < source[0]; ++step) {
    for (const char* input : {nmt_input::kSource, nmt_input::kSourceLengths, nmt_input::kTargetIn,
                              nmt_input::kTargetOut}) {
      put(program, input, step);
    }
    StepScalars scalars{.learning_rate = float(*config.train.lr), .step = int32_t(step),
                        .tokens = 0};
    const auto* words = reinterpret_cast<const int32_t*>(program.input(nmt_input::kTargetOut));
    for (int64_t i = 0; i < target[1] * target[2]; ++i) scalars.tokens += words[i] != 0;
    std::memcpy(program.input(kScalarsInput), &scalars, sizeof scalars);
    program.run();
    const double want = which["losses"][size_t(step)], got = double(*program.output("loss"));
    EXPECT_NEAR(got, want, kLossTolerance * want) << "step " << step;
  }

  int weights = 0;
  for (const StateTensor& slot : programs.state()) {
    if (slot.role != Role::weight) continue;
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
    ++weights;
  }
  EXPECT_GT(weights, 15);
}

class GoldenNmt : public testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(GoldenNmt, TenStepsAsInPyTorch) {
  expect_steps_of_pytorch(golden()["cases"].at(size_t(std::get<0>(GetParam()))),
                          std::get<1>(GetParam()));
}

std::string case_name(const testing::TestParamInfo<std::tuple<int, bool>>& test) {
  static constexpr const char* kNames[] = {"Mlp", "MlpNoFeeding", "Luong", "LuongNoFeeding",
                                           "TiedSmoothed"};
  return std::string(kNames[std::get<0>(test.param)]) +
         (std::get<1>(test.param) ? "Fused" : "Unfused");
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenNmt,
                         testing::Combine(testing::Range(0, 5), testing::Bool()), case_name);

// The two files belong together: weights and batches are those that the losses were made from.
TEST(GoldenFile, InputsAreThoseOfTheLosses) {
  uint64_t h = 14695981039346656037ull;  // FNV-1a
  for (const TensorView& t : tensors().tensors()) {
    if (t.name.starts_with("final/")) continue;
    const auto* bytes = static_cast<const unsigned char*>(t.data);
    for (size_t i = 0; i < t.bytes; ++i) h = (h ^ bytes[i]) * 1099511628211ull;
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(h));
  EXPECT_EQ(golden()["inputs_fnv1a"], text);
  EXPECT_EQ(golden()["cases"].size(), 5u);
}

}  // namespace
}  // namespace pal
