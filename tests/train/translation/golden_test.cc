// Ten training steps beside PyTorch's, from the same weights and over the same batches: golden
// values from tests/train/golden/make_nmt_steps.py, make_nmt_norm.py (layer norm) and
// make_transformer_steps.py, which also say what every case is. Each is run fused and unfused, with
// the loss in one piece and in chunks; recurrent ones also with whole layers in the encoder.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "core/scalars.h"
#include "tests/train/loop/golden_steps.h"
#include "train/loop/initialise.h"
#include "train/loop/run_options.h"
#include "train/loop/step_program.h"
#include "train/run_files/safetensors.h"
#include "train/translation/translation_model.h"

namespace pal {
namespace {

// What one of the scripts has made.
struct Golden {
  explicit Golden(const std::string& stem)
      : tensors(SafetensorsFile::open(kGolden + stem + ".safetensors")),
        numbers(golden_numbers(stem)) {}

  const TensorView& tensor(const std::string& name) {
    const TensorView* found = tensors.find(name);
    if (!found) throw std::runtime_error("the golden values lack " + name);
    return *found;
  }

  SafetensorsFile tensors;
  nlohmann::json numbers;
};

Golden& golden(const std::string& stem) {
  static std::map<std::string, Golden> all;
  return all.try_emplace(stem, stem).first->second;
}

// "initial/NAME:12x48": the weights that several cases share are there once.
const float* initial(Golden& from, const StateTensor& slot) {
  std::string name = "initial/" + slot.name + ":";
  for (int i = 0; i < slot.spec.shape.rank(); ++i) {
    name += (i ? "x" : "") + std::to_string(slot.spec.shape[i]);
  }
  return static_cast<const float*>(from.tensor(name).data);
}

// Batch `step` of the ten that are stacked in the file.
void put(Golden& golden, Executable& program, const char* input, int64_t step) {
  const TensorView& all = golden.tensor(std::string("batch/") + input);
  const size_t bytes = all.bytes / size_t(all.shape[0]);
  std::memcpy(program.input(input), static_cast<const char*>(all.data) + size_t(step) * bytes,
              bytes);
}

struct Way {
  bool fused = true;
  int chunks = 1;
  bool bf16 = false, whole_layers = false;

  std::vector<Override> overrides() const {
    std::vector<Override> out{parse_set(fused ? "model.fused=true" : "model.fused=false"),
                              parse_set("model.loss_chunks=" + std::to_string(chunks))};
    if (bf16) out.push_back(parse_set("train.precision=bf16"));
    if (whole_layers) out.push_back(parse_set("model.whole_layers=true"));
    return out;
  }
};

void expect_steps_of_pytorch(const std::string& stem, size_t number, const Way& way) {
  Golden& golden = pal::golden(stem);
  const nlohmann::json& which = golden.numbers["cases"].at(number);
  std::vector<Override> overrides = way.overrides();
  for (const std::string set : which["set"]) overrides.push_back(parse_set(set));
  const Config config =
      load_config(kGolden + golden.numbers.value("config", "nmt_steps.yaml"), overrides);
  const ParallelTextConfig& data = config.parallel_text();
  const int64_t specials = 4;
  const auto& target_words =
      *data.shared_vocabulary ? data.source_vocab_size : data.target_vocab_size;
  const TranslationModel model =
      translation_model(config, **data.source_vocab_size + specials, **target_words + specials);
  const std::vector<int64_t>& source = golden.tensor("batch/source").shape;     // (10, S, B)
  const std::vector<int64_t>& target = golden.tensor("batch/target_in").shape;  // (10, T, B)
  auto forward = [&](Builder& b, Val scalars) {
    return Recorded{model.loss(b, {source[1], target[1], source[2]}, scalars, true).loss};
  };
  ProgramSet programs(compile_options(config.memory), choose_device(config.device));
  Executable& program = programs.add("step", record_step(forward, config.train, MicroBatch::only));
  initialise(programs, 1);  // the optimizer's state
  for (const StateTensor& slot : programs.state()) {
    if (slot.role == Role::weight) {
      std::memcpy(slot.data, initial(golden, slot), size_t(slot.spec.bytes()));
    }
  }

  namespace in = translation_input;
  Losses losses(stem, way.bf16);
  for (int64_t step = 0; step < source[0]; ++step) {
    for (const char* input : {in::kSource, in::kSourceLengths, in::kTargetIn, in::kTargetOut}) {
      put(golden, program, input, step);
    }
    StepScalars scalars{
        .learning_rate = float(*config.train.lr), .step = int32_t(step), .tokens = 0};
    const auto* words = reinterpret_cast<const int32_t*>(program.input(in::kTargetOut));
    for (int64_t i = 0; i < target[1] * target[2]; ++i) scalars.tokens += words[i] != 0;
    std::memcpy(program.input(kScalarsInput), &scalars, sizeof scalars);
    program.run();
    losses.expect(step, double(*program.output("loss")), which["losses"][size_t(step)]);
  }

  if (way.bf16) return;
  int weights = 0;
  for (const StateTensor& slot : programs.state()) {
    if (slot.role != Role::weight) continue;
    const TensorView& final =
        golden.tensor("final/" + which["name"].get<std::string>() + "/" + slot.name);
    ASSERT_EQ(final.bytes, size_t(slot.spec.bytes())) << slot.name;
    expect_weights(slot, static_cast<const float*>(final.data), initial(golden, slot));
    ++weights;
  }
  EXPECT_GT(weights, 15);
}

struct Case {
  const char *name, *stem;
  size_t number;
};
constexpr Case kCases[] = {
    {"Mlp", "nmt_steps", 0},
    {"MlpNoFeeding", "nmt_steps", 1},
    {"Luong", "nmt_steps", 2},
    {"LuongNoFeeding", "nmt_steps", 3},
    {"TiedSmoothed", "nmt_steps", 4},
    {"NormCells", "nmt_norm", 0},
    {"NormCellsNoFeeding", "nmt_norm", 1},
    {"NormAll", "nmt_norm", 2},
    {"NormAttention", "nmt_norm", 3},
    {"TransformerPost", "transformer_steps", 0},
    {"TransformerPre", "transformer_steps", 1},
    {"TransformerTiedTarget", "transformer_steps", 2},
    {"TransformerTiedAll", "transformer_steps", 3},
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

using GoldenParam = std::tuple<Case, bool, int>;
class GoldenNmt : public testing::TestWithParam<GoldenParam> {};

TEST_P(GoldenNmt, TenStepsAsInPyTorch) {
  const auto& [which, fused, chunks] = GetParam();
  expect_steps_of_pytorch(which.stem, which.number, {.fused = fused, .chunks = chunks});
}

std::string case_name(const testing::TestParamInfo<GoldenParam>& test) {
  const auto& [which, fused, chunks] = test.param;
  return std::string(which.name) + (fused ? "Fused" : "Unfused") +
         (chunks > 1 ? "InChunks" + std::to_string(chunks) : "");
}

// Five chunks of the 24 rows are of different lengths.
INSTANTIATE_TEST_SUITE_P(Cases, GoldenNmt,
                         testing::Combine(testing::ValuesIn(kCases), testing::Bool(),
                                          testing::Values(1, 5)),
                         case_name);

class GoldenNmtInBf16 : public testing::TestWithParam<GoldenParam> {};

TEST_P(GoldenNmtInBf16, TenStepsAsNearToF32AsPyTorchs) {
  const auto& [which, fused, chunks] = GetParam();
  expect_steps_of_pytorch(which.stem, which.number,
                          {.fused = fused, .chunks = chunks, .bf16 = true});
}

// Without those of nmt_norm.
constexpr Case kBf16Cases[] = {kCases[0], kCases[1],  kCases[2],  kCases[3], kCases[4],
                               kCases[9], kCases[10], kCases[11], kCases[12]};
INSTANTIATE_TEST_SUITE_P(Cases, GoldenNmtInBf16,
                         testing::Combine(testing::ValuesIn(kBf16Cases), testing::Bool(),
                                          testing::Values(1, 5)),
                         case_name);

class GoldenNmtWhole : public testing::TestWithParam<std::tuple<Case, bool>> {};

TEST_P(GoldenNmtWhole, LayersTakeTenStepsAsInPyTorch) {
  const auto& [which, bf16] = GetParam();
  expect_steps_of_pytorch(which.stem, which.number, {.bf16 = bf16, .whole_layers = true});
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenNmtWhole,
                         testing::Combine(testing::ValuesIn(kCases, kCases + 5), testing::Bool()),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param).name) +
                                  (std::get<1>(test.param) ? "InBf16" : "");
                         });

class GoldenFile : public testing::TestWithParam<std::pair<const char*, size_t>> {};

// The two files belong together: weights and batches are those that the losses were made from.
TEST_P(GoldenFile, InputsAreThoseOfTheLosses) {
  const auto& [stem, cases] = GetParam();
  uint64_t h = 14695981039346656037ull;  // FNV-1a
  for (const TensorView& t : golden(stem).tensors.tensors()) {
    if (t.name.starts_with("final/")) continue;
    const auto* bytes = static_cast<const unsigned char*>(t.data);
    for (size_t i = 0; i < t.bytes; ++i) h = (h ^ bytes[i]) * 1099511628211ull;
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(h));
  EXPECT_EQ(golden(stem).numbers["inputs_fnv1a"], text);
  EXPECT_EQ(golden(stem).numbers["cases"].size(), cases);
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenFile,
                         testing::Values(std::pair("nmt_steps", size_t(5)),
                                         std::pair("nmt_norm", size_t(4)),
                                         std::pair("transformer_steps", size_t(4))),
                         [](const auto& test) { return std::string(test.param.first); });

}  // namespace
}  // namespace pal
