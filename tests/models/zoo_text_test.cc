// BERT, XLM-R, GNMT and the recurrent highway network: their weights against the published counts,
// that they learn, and the same bits under every memory option.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "core/error.h"
#include "core/scalars.h"
#include "memory/run/program_set.h"
#include "models/bert.h"
#include "models/gnmt.h"
#include "models/rhn.h"
#include "ops/tensors/state.h"
#include "ops/tensors/transfers.h"
#include "tests/support/state_bytes.h"
#include "train/loop/initialise.h"
#include "train/loop/step_program.h"

namespace pal {
namespace {

using Forward = std::function<Val(Builder&, Val scalars)>;

int64_t weights_of(const Forward& forward) {
  Builder b;
  forward(b, step_scalars(b.input(kScalarsInput, scalars_spec(), Space::host)));
  int64_t count = 0;
  for (const StateSlot& slot : b.program().state) {
    count += b.program().value(slot.start).spec.numel();
  }
  return count;
}

// Without the head that guesses words, with the pooler: as the counts are made that one reads of.
Val encode_and_pool(Builder& b, const BertOptions& o) {
  Val tokens = b.input("tokens", {{4, 1}, DType::i32}),
      lengths = b.input("lengths", {{1}, DType::i32});
  return bert_pool(b, o, bert_encode(b, o, tokens, lengths, {}));
}

TEST(ZooText, BertHasAsManyWeightsAsPublished) {
  EXPECT_EQ(weights_of([](Builder& b, Val) { return encode_and_pool(b, bert_base()); }), 109482240);
  EXPECT_EQ(weights_of([](Builder& b, Val) { return encode_and_pool(b, xlmr_base()); }), 278043648);
}

// 160,671,297 in NVIDIA's logs, over a vocabulary of 32,320; of which PyTorch's second bias of each
// of nine LSTM layers, and the scale of a normalised attention, are none of ours.
TEST(ZooText, GnmtHasAsManyWeightsAsPublished) {
  const GnmtOptions o{.source_vocab = 32320, .target_vocab = 32320};
  const auto loss = gnmt_model(o).loss;
  EXPECT_EQ(weights_of([&](Builder& b, Val s) {
              return loss(b, {2, 2, 1}, s, true).loss;
            }),
            160671297 - 9 * 4 * 1024 - 1);
}

// Zilly et al., table 1: 23 million with tied weights, 32 million without, depth 10, width 830. By
// equations 6 to 9 exactly these.
TEST(ZooText, RhnHasAsManyWeightsAsPublished) {
  RhnOptions o;
  auto count = [&] {
    return weights_of([&](Builder& b, Val s) { return rhn_loss(b, o, 2, 1, s, true).loss; });
  };
  const int64_t H = 830, V = 10000;
  const int64_t tied = V * H + 2 * H * H + 10 * (2 * H * H + 2 * H) + V;
  EXPECT_EQ(count(), tied);
  EXPECT_NEAR(double(tied), 23e6, 0.5e6);
  o.tied = false;
  EXPECT_EQ(count(), tied + V * H);
  EXPECT_NEAR(double(tied + V * H), 32e6, 0.5e6);
}

TEST(ZooText, RefusesWhatDoesNotFit) {
  EXPECT_THROW(gnmt_model({.source_vocab = 5, .target_vocab = 6}), UsageError);
  BertOptions o{.vocab = 9, .positions = 3, .layers = 1, .hidden = 8, .ffn = 8, .heads = 1};
  Builder b;
  Val scalars = step_scalars(b.input(kScalarsInput, scalars_spec(), Space::host));
  EXPECT_THROW(bert_loss(b, o, 4, 1, scalars, true), UsageError);
}

constexpr int64_t kSteps = 6, kBatch = 3, kVocab = 17;

struct Case {
  const char* name;
  std::function<Val(Builder&, Val scalars, bool fused)> loss;
};

std::vector<Case> cases() {
  const BertOptions bert{.vocab = kVocab,
                         .positions = 9,
                         .segments = 2,
                         .first_position = 2,
                         .layers = 2,
                         .hidden = 12,
                         .ffn = 20,
                         .heads = 3,
                         .loss_chunks = 2};
  GnmtOptions gnmt{.source_vocab = kVocab, .target_vocab = kVocab, .hidden = 12};
  RhnOptions rhn{
      .vocab = kVocab, .hidden = 12, .depth = 3, .input_dropout = 0.2f, .output_dropout = 0.2f};
  return {{"bert", [=](Builder& b, Val s,
                       bool) { return bert_loss(b, bert, kSteps, kBatch, s, true).loss; }},
          {"gnmt",
           [=](Builder& b, Val s, bool fused) {
             GnmtOptions o = gnmt;
             o.fused = fused;
             return gnmt_model(o).loss(b, {kSteps, kSteps, kBatch}, s, true).loss;
           }},
          {"rhn", [=](Builder& b, Val s, bool) {
             return rhn_loss(b, rhn, kSteps, kBatch, s, true).loss;
           }}};
}

// Word numbers from 1 on, lengths of 2 and more.
void fill(Executable& program) {
  for (const NamedValue& in : program.program().inputs) {
    const TensorSpec& spec = program.program().value(in.value).spec;
    if (in.name == kScalarsInput || spec.dtype != DType::i32) continue;
    for (int64_t i = 0; i < spec.numel(); ++i) {
      const bool length = spec.shape.rank() == 1;
      const int32_t x = int32_t(length ? 2 + i * 2 : 1 + (i * 7 + i / 5) % (kVocab - 1));
      std::memcpy(program.input(in.name) + i * 4, &x, sizeof x);
    }
  }
}

std::string train(const Case& which, bool fused, const CompileOptions& options, int steps,
                  std::vector<float>* losses = nullptr, int threads = 1) {
  ProgramSet programs(options, cpu_device(threads));
  auto forward = [&](Builder& b, Val scalars) { return Recorded{which.loss(b, scalars, fused)}; };
  Executable& step = programs.add("step", record_step(forward, {}, MicroBatch::only));
  initialise(programs, 5);
  fill(step);
  std::string out;
  for (int i = 0; i < steps; ++i) {
    const StepScalars scalars{
        .learning_rate = 0.01f, .step = i, .seed_low = 9, .tokens = kSteps * kBatch};
    std::memcpy(step.input(kScalarsInput), &scalars, sizeof scalars);
    step.run();
    const float loss = *step.output("loss");
    if (losses) losses->push_back(loss);
    out.append(reinterpret_cast<const char*>(&loss), sizeof loss);
  }
  out += test::state_bytes(programs);
  return out;
}

class ZooTextCases : public testing::TestWithParam<size_t> {};

TEST_P(ZooTextCases, BitsAreTheSameUnderEveryMemoryOption) {
  const Case which = cases()[GetParam()];
  for (const bool fused : {true, false}) {
    const std::string plain = train(which, fused,
                                    {.inplace = false,
                                     .windows = false,
                                     .fuse_epilogues = false,
                                     .schedule = Schedule::program,
                                     .fuse_updates = false},
                                    3);
    for (const Recompute method :
         {Recompute::none, Recompute::mirror, Recompute::sqrt, Recompute::echo}) {
      EXPECT_TRUE(train(which, fused, {.recompute = method}, 3) == plain) << to_string(method);
    }
    EXPECT_TRUE(train(which, fused, {}, 3, nullptr, 2) == plain) << "two threads";
  }
}

TEST_P(ZooTextCases, Learns) {
  std::vector<float> losses;
  train(cases()[GetParam()], true, {}, 100, &losses);
  EXPECT_LT(losses.back(), losses.front() - 0.5f);
}

// The search goes word by word through other programs than training: the same words get the same
// probabilities.
TEST(ZooText, GnmtStepByStepIsAsInTraining) {
  namespace in = translation_input;
  const TranslationModel model =
      gnmt_model({.source_vocab = kVocab, .target_vocab = kVocab, .hidden = 12});
  const TranslationShape shape{kSteps, kSteps, kBatch};
  ProgramSet programs({}, cpu_device(1));
  Builder b, encoder_builder, step_builder;
  Val scalars = step_scalars(b.input(kScalarsInput, scalars_spec(), Space::host));
  b.output("nll", model.loss(b, shape, scalars, false).nll);
  Executable& loss = programs.add("loss", b.take());
  model.encoder(encoder_builder, shape);
  Executable& encoder = programs.add("encoder", encoder_builder.take());
  model.decoder_step(step_builder, shape);
  Executable& step = programs.add_keeping("step", step_builder.take());
  initialise(programs, 5);
  fill(loss);
  auto input_of = [&](const char* name) {  // a copy: the programs share an arena
    const auto* first = reinterpret_cast<const int32_t*>(loss.input(name));
    return std::vector<int32_t>(first, first + kSteps * kBatch);
  };
  const std::vector<int32_t> words = input_of(in::kTargetIn), wanted = input_of(in::kTargetOut);
  const StepScalars now;
  std::memcpy(loss.input(kScalarsInput), &now, sizeof now);
  loss.run();
  const double expected = double(*loss.output("nll"));
  fill(encoder);
  encoder.run();
  // What goes from program to program, which share an arena.
  std::map<std::string, std::vector<std::byte>> between;
  for (const auto& names : {model.memory, model.states}) {
    for (const std::string& name : names) {
      const auto* first = encoder.output<std::byte>(name);
      between[name].assign(first, first + step.kept(name).size());
    }
  }
  for (const auto& [name, bytes] : between) std::ranges::copy(bytes, step.kept(name).begin());
  double nll = 0;
  for (int64_t t = 0; t < kSteps; ++t) {
    fill(step);  // the sources' lengths
    for (int32_t i = 0; i < kBatch; ++i) {
      std::memcpy(step.input(in::kParents) + 4 * i, &i, sizeof i);
    }
    std::memcpy(step.input(in::kToken), words.data() + t * kBatch, size_t(kBatch) * 4);
    step.run();
    for (int64_t i = 0; i < kBatch; ++i) {
      nll -= double(step.output("log_probs")[i * kVocab + wanted[size_t(t * kBatch + i)]]);
    }
  }
  EXPECT_NEAR(nll, expected, 1e-5 * expected);
}

INSTANTIATE_TEST_SUITE_P(All, ZooTextCases, testing::Range<size_t>(0, 3),
                         [](const auto& test) { return std::string(cases()[test.param].name); });

}  // namespace
}  // namespace pal
