// Steps in bf16 (train.precision): which values have 16 bits, which keep 32, and that memory passes
// change no bit there either.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "core/scalars.h"
#include "core/verify.h"
#include "memory/run/program_set.h"
#include "models/bert.h"
#include "models/deepspeech2.h"
#include "models/gnmt.h"
#include "models/resnet.h"
#include "models/rhn.h"
#include "models/zoo.h"
#include "tests/support/state_bytes.h"
#include "train/loop/initialise.h"
#include "train/loop/run_options.h"
#include "train/loop/step_program.h"
#include "train/translation/translation_model.h"

namespace pal {
namespace {

constexpr int64_t kLength = 6, kBatch = 3, kVocab = 17;

using Forward = std::function<Recorded(Builder&, Val scalars)>;
struct Case {
  const char* name;
  std::function<Forward(bool fused)> forward;
};

Forward translator(const std::string& model) {
  const Config config = parse_config("model: {" + model + "}\ntrain: {steps: 1}", "precision.yaml");
  const TranslationModel translation = translation_model(config, kVocab, kVocab);
  return [translation](Builder& b, Val s) {
    return Recorded{translation.loss(b, {kLength, kLength, kBatch}, s, true).loss};
  };
}
std::string fused_text(bool fused) { return fused ? ", fused: true" : ", fused: false"; }

Forward images(const ImageModel& model, int64_t edge) {
  return [=](Builder& b, Val s) {
    ImageLoss loss = image_loss(b, model, kBatch, edge, edge, s, true, {});
    return Recorded{loss.loss, {}, loss.moved};
  };
}
Forward residual(ResNetOptions::Version version) {
  ResNetOptions o;
  o.version = version, o.depth = 18, o.classes = 5, o.width = 4;
  return images(resnet_model(o), 32);
}

std::vector<Case> cases() {
  return {
      {"nmt",
       [](bool fused) {
         return translator("type: nmt, hidden: 12, embedding: 12, attention_size: 12" +
                           fused_text(fused));
       }},
      {"transformer",
       [](bool fused) {
         return translator(
             "type: transformer, hidden: 12, ffn: 20, heads: 3, encoder_layers: 2, "
             "decoder_layers: 2" +
             fused_text(fused));
       }},
      {"bert",
       [](bool) -> Forward {
         const BertOptions o{.vocab = kVocab,
                             .positions = 9,
                             .segments = 2,
                             .first_position = 2,
                             .layers = 2,
                             .hidden = 12,
                             .ffn = 20,
                             .heads = 3};
         return [o](Builder& b, Val s) {
           return Recorded{bert_loss(b, o, kLength, kBatch, s, true).loss};
         };
       }},
      {"gnmt",
       [](bool fused) -> Forward {
         const GnmtOptions o{
             .source_vocab = kVocab, .target_vocab = kVocab, .hidden = 12, .fused = fused};
         return [o](Builder& b, Val s) {
           return Recorded{gnmt_model(o).loss(b, {kLength, kLength, kBatch}, s, true).loss};
         };
       }},
      {"rhn",
       [](bool) -> Forward {
         const RhnOptions o{.vocab = kVocab, .hidden = 12, .depth = 3};
         return [o](Builder& b, Val s) {
           return Recorded{rhn_loss(b, o, kLength, kBatch, s, true).loss};
         };
       }},
      {"deepspeech2",
       [](bool fused) -> Forward {
         DeepSpeech2Options o;
         o.bins = 9, o.labels = 6, o.channels = 3, o.layers = 2, o.hidden = 5;
         o.conv_kernels = {"5x5", "3x3"}, o.conv_strides = {"2x2", "1x2"};
         o.fused = fused;
         return [o](Builder& b, Val s) {
           SpeechLoss loss = deepspeech2_loss(b, o, {24, 2, kBatch}, s, true);
           return Recorded{loss.loss, {}, loss.moved};
         };
       }},
      {"resnet", [](bool) { return residual(ResNetOptions::Version::v1_5); }},
      {"resnet_v2", [](bool) { return residual(ResNetOptions::Version::v2); }},
  };
}

TrainConfig bf16() {
  TrainConfig config;
  config.precision = "bf16";
  return config;
}

class Precision : public testing::TestWithParam<std::tuple<size_t, bool>> {
 protected:
  Forward forward() const {
    const auto [number, fused] = GetParam();
    return cases()[number].forward(fused);
  }
};

int64_t bytes_of_feature_maps(const Program& program) {
  int64_t bytes = 0;
  for (const Value& v : program.values) {
    if (v.role == Role::feature_map) bytes += v.spec.bytes();
  }
  return bytes;
}

void expect_mixed(const Forward& forward) {
  const Program program = record_step(forward, bf16(), MicroBatch::only);
  verify(program);
  for (const StateSlot& slot : program.state) {
    EXPECT_EQ(program.value(slot.start).spec.dtype, DType::f32) << slot.name;
  }
  int copies = 0;
  for (const Value& v : program.values) {
    EXPECT_TRUE(v.role != Role::weight_gradient || v.spec.dtype == DType::f32);
    copies += v.role == Role::weight && v.spec.dtype == DType::bf16;
    // f32 beside the vectors: statistics (operators' second outputs), and the logits of CTC.
    if (v.role == Role::feature_map && v.spec.shape.rank() > 1 && v.spec.dtype == DType::f32) {
      const Node& node = program.node(v.producer);
      const bool first = program.value(node.out[0]).spec == v.spec;
      EXPECT_TRUE(!first || std::string(node.op->name) == "cast")
          << node.op->name << " at " << program.scopes[size_t(v.scope)];
    }
  }
  EXPECT_GT(copies, 4);
  const Program f32 = record_step(forward, {}, MicroBatch::only);
  EXPECT_LT(double(bytes_of_feature_maps(program)), 0.6 * double(bytes_of_feature_maps(f32)));
}

TEST_P(Precision, MapsHave16BitsAndSums32) { expect_mixed(forward()); }

TEST(PrecisionOfImages, MapsHave16BitsAndSums32) {
  for (const ImageNetwork& network : image_networks()) {
    SCOPED_TRACE(network.name);
    ImageModel model = zoo_model(network, {.classes = 5, .width = 0.125});
    model.frames = network.frames;
    expect_mixed(images(model, network.edge));
  }
}

// Numbers that fit their input: lengths that leave no padding at the first, labels within bounds.
void fill(Executable& program) {
  for (const NamedValue& in : program.program().inputs) {
    const TensorSpec& spec = program.program().value(in.value).spec;
    if (in.name == kScalarsInput) continue;
    for (int64_t i = 0; i < spec.numel(); ++i) {
      const int32_t id = spec.shape.rank() == 1 ? 2 : int32_t(1 + (i * 7 + i / 5) % 4);
      const float x = float((i * 37 + i / 7) % 64) / 32 - 1;
      const bool ids = spec.dtype == DType::i32;
      std::memcpy(program.input(in.name) + i * 4, ids ? static_cast<const void*>(&id) : &x, 4);
    }
  }
}

std::string train(const Forward& forward, const CompileOptions& options, int threads) {
  ProgramSet programs(options, cpu_device(threads));
  Executable& step = programs.add("step", record_step(forward, bf16(), MicroBatch::only));
  initialise(programs, 5);
  fill(step);
  std::string bytes;
  for (int i = 0; i < 3; ++i) {
    const StepScalars scalars{
        .learning_rate = 0.01f, .step = i, .seed_low = 9, .tokens = kLength * kBatch};
    std::memcpy(step.input(kScalarsInput), &scalars, sizeof scalars);
    step.run();
    EXPECT_TRUE(std::isfinite(*step.output("loss")));
    bytes.append(reinterpret_cast<const char*>(step.output("loss")), 4);
  }
  bytes += test::state_bytes(programs);
  return bytes;
}

TEST_P(Precision, PassesChangeNoBit) {
  auto with = [](Recompute recompute, Schedule schedule, bool inplace) {
    CompileOptions options;
    options.recompute = recompute, options.schedule = schedule, options.inplace = inplace;
    return options;
  };
  const std::string plain = train(forward(), with(Recompute::none, Schedule::program, false), 1);
  for (auto recompute : {Recompute::none, Recompute::mirror, Recompute::sqrt, Recompute::echo}) {
    EXPECT_TRUE(plain == train(forward(), with(recompute, Schedule::lifetime, true), 2))
        << int(recompute);
  }
}

std::string name_of(const testing::TestParamInfo<std::tuple<size_t, bool>>& test) {
  return std::string(cases()[std::get<0>(test.param)].name) +
         (std::get<1>(test.param) ? "_fused" : "");
}
INSTANTIATE_TEST_SUITE_P(Models, Precision,
                         testing::Combine(testing::Range(size_t(0), cases().size()),
                                          testing::Bool()),
                         name_of);

}  // namespace
}  // namespace pal
