// The Transformer: its weights against the published counts, fused against unfused, padding and
// neighbours, and the same bits under every memory option.
#include "models/transformer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "core/error.h"
#include "core/scalars.h"
#include "memory/run/program_set.h"
#include "ops/tensors/transfers.h"
#include "tests/support/state_bytes.h"
#include "train/loop/initialise.h"
#include "train/loop/step_program.h"

namespace pal {
namespace {

namespace in = translation_input;
using Options = TransformerOptions;

int64_t weights_of(const Options& o) {
  Builder b;
  Val scalars = step_scalars(b.input(in::kScalars, scalars_spec(), Space::host));
  transformer_model(o).loss(b, {2, 2, 1}, scalars, true);
  int64_t count = 0;
  for (const StateSlot& slot : b.program().state) {
    count += b.program().value(slot.start).spec.numel();
  }
  return count;
}

Options shared_37k() {
  return {.source_vocab = 37000, .target_vocab = 37000, .tie = Options::Tie::all};
}

// Vaswani et al. 2017, table 3: 65 and 213 million with a shared vocabulary of about 37,000 pieces.
// The exact counts follow from the equations (no bias where they have none).
TEST(Transformer, HasAsManyWeightsAsPublished) {
  auto expected = [](const Options& o) {
    const int64_t D = o.hidden, attention = 4 * D * D, norm = 2 * D;
    const int64_t ffn = 2 * D * o.ffn + o.ffn + D;
    return o.encoder_layers * (attention + ffn + 2 * norm) +
           o.decoder_layers * (2 * attention + ffn + 3 * norm) + o.source_vocab * D;
  };
  Options base = shared_37k();
  EXPECT_EQ(weights_of(base), expected(base));
  EXPECT_NEAR(double(weights_of(base)), 65e6, 0.035 * 65e6);
  Options big = shared_37k();
  big.hidden = 1024, big.ffn = 4096, big.heads = 16;
  EXPECT_EQ(weights_of(big), expected(big));
  EXPECT_NEAR(double(weights_of(big)), 213e6, 0.01 * 213e6);
  base.norm = Options::Norm::pre;  // one more at the end of either stack
  EXPECT_EQ(weights_of(base), expected(base) + 4 * base.hidden);
  base.tie = Options::Tie::none;
  EXPECT_EQ(weights_of(base), expected(base) + 4 * base.hidden + 2 * 37000 * base.hidden);
}

TEST(Transformer, RefusesWhatDoesNotFit) {
  auto fault = [](Options o) {
    try {
      transformer_model(o);
    } catch (const UsageError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  Options o = shared_37k();
  o.heads = 7;
  EXPECT_NE(fault(o).find("model.heads: 7"), std::string::npos);
  o.heads = 1;
  EXPECT_NE(fault(o).find("more heads"), std::string::npos);
  o = shared_37k();
  o.target_vocab = 100;
  EXPECT_NE(fault(o).find("data.shared_vocabulary"), std::string::npos);
}

Options small() {
  Options o{.source_vocab = 13,
            .target_vocab = 11,
            .encoder_layers = 2,
            .decoder_layers = 2,
            .hidden = 24,
            .ffn = 40,
            .heads = 3};
  o.dropout = 0.2f, o.attention_dropout = 0.1f, o.activation_dropout = 0.15f;
  o.label_smoothing = 0.1f;
  return o;
}

struct Batch {
  TranslationShape shape;
  std::vector<int32_t> source, lengths, target_in, target_out;
};

// Sentences of 1 to S and of 1 to T words; those from `sentences` on are empty rows.
Batch make_batch(const Options& o, TranslationShape shape, int64_t sentences, int64_t S,
                 int64_t T) {
  const int64_t B = shape.batch;
  Batch b{shape, std::vector<int32_t>(size_t(shape.source * B)), std::vector<int32_t>(size_t(B)),
          std::vector<int32_t>(size_t(shape.target * B)),
          std::vector<int32_t>(size_t(shape.target * B))};
  for (int64_t i = 0; i < sentences; ++i) {
    const int64_t n = 1 + (i * 3 + S - 1) % S, m = 1 + (i * 5 + T - 1) % T;
    b.lengths[size_t(i)] = int32_t(n);
    for (int64_t s = 0; s < n; ++s) {
      b.source[size_t(s * B + i)] = int32_t(4 + (s * 7 + i * 3) % (o.source_vocab - 4));
    }
    int32_t before = 2;  // <s>
    for (int64_t t = 0; t < m; ++t) {
      b.target_in[size_t(t * B + i)] = before;
      before = t + 1 == m ? 3 : int32_t(4 + (t * 5 + i) % (o.target_vocab - 4));
      b.target_out[size_t(t * B + i)] = before;
    }
  }
  return b;
}

void put(Executable& program, const Batch& b) {
  auto copy = [&](const char* name, const std::vector<int32_t>& x) {
    std::memcpy(program.input(name), x.data(), x.size() * sizeof(int32_t));
  };
  copy(in::kSource, b.source), copy(in::kSourceLengths, b.lengths);
  copy(in::kTargetIn, b.target_in), copy(in::kTargetOut, b.target_out);
}

// `steps` updates: the losses, then all weights and optimizer state, as one string of bytes.
std::string train(const Options& o, const CompileOptions& options, int steps,
                  std::vector<float>* losses = nullptr, int threads = 1,
                  std::map<std::string, int>* ops = nullptr) {
  const TranslationModel model = transformer_model(o);
  const Batch batch = make_batch(o, {7, 6, 5}, 4, 7, 6);
  TrainConfig config;
  config.clip_norm = std::optional<double>(1.0);
  ProgramSet programs(options, cpu_device(threads));
  auto forward = [&](Builder& b, Val scalars) {
    return Recorded{model.loss(b, batch.shape, scalars, true).loss};
  };
  Executable& step = programs.add("step", record_step(forward, config, MicroBatch::only));
  initialise(programs, 5);
  if (ops) {
    for (const Node& node : step.program().nodes) ++(*ops)[node.op->name];
  }
  std::string out;
  for (int i = 0; i < steps; ++i) {
    put(step, batch);
    const StepScalars scalars{.learning_rate = 0.01f, .step = i, .seed_low = 9, .tokens = 14};
    std::memcpy(step.input(kScalarsInput), &scalars, sizeof scalars);
    step.run();
    const float loss = *step.output("loss");
    if (losses) losses->push_back(loss);
    out.append(reinterpret_cast<const char*>(&loss), sizeof loss);
  }
  out += test::state_bytes(programs);
  return out;
}

TEST(Transformer, FusedTrainsAsUnfused) {
  for (const Options::Norm norm : {Options::Norm::post, Options::Norm::pre}) {
    Options o = small();
    o.norm = norm;
    std::vector<float> fused, unfused;
    train(o, {}, 8, &fused);
    o.fused = false;
    train(o, {}, 8, &unfused);
    for (size_t i = 0; i < fused.size(); ++i) {
      EXPECT_NEAR(fused[i], unfused[i], 2e-5f * unfused[i]) << "step " << i;
    }
    EXPECT_LT(fused.back(), fused.front() - 0.3f);  // it learns
  }
}

// The layers between, two in each half, and their gradients where no dropout comes between.
TEST(Transformer, ProductsTakeRelusAndTheirGradientsWithThem) {
  for (const bool dropout : {false, true}) {
    Options o = small();
    if (!dropout) o.activation_dropout = 0;
    std::map<std::string, int> apart, together;
    const std::string plain = train(o, {.fuse_epilogues = false}, 4, nullptr, 1, &apart);
    EXPECT_EQ(apart["relu"], 4);
    for (const Recompute method : {Recompute::none, Recompute::mirror, Recompute::echo}) {
      together.clear();
      EXPECT_TRUE(train(o, {.recompute = method}, 4, nullptr, 1, &together) == plain);
      EXPECT_EQ(together["matmul_relu_grad"], dropout ? 0 : 4) << to_string(method);
      if (method != Recompute::none) continue;  // a relu run again is the product's second reader
      EXPECT_EQ(together["matmul_relu"], 4);
      EXPECT_EQ(together["relu"], 0);
    }
  }
}

class TransformerBits : public testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(TransformerBits, AreTheSameUnderEveryMemoryOption) {
  Options o = small();
  const auto [fused, pre] = GetParam();
  o.fused = fused, o.norm = pre ? Options::Norm::pre : Options::Norm::post;
  const std::string plain = train(o,
                                  {.inplace = false,
                                   .windows = false,
                                   .fuse_epilogues = false,
                                   .schedule = Schedule::program,
                                   .fuse_updates = false,
                                   .layouts = true},
                                  4);
  for (const Recompute method :
       {Recompute::none, Recompute::mirror, Recompute::sqrt, Recompute::echo}) {
    for (const bool inplace : {true, false}) {
      for (const Schedule schedule : {Schedule::program, Schedule::lifetime}) {
        const CompileOptions options{.inplace = inplace,
                                     .recompute = method,
                                     .fuse_recompute = inplace,
                                     .schedule = schedule};
        EXPECT_TRUE(train(o, options, 4) == plain)
            << to_string(method) << " inplace " << inplace << " " << to_string(schedule);
      }
    }
  }
  EXPECT_TRUE(train(o, {}, 4, nullptr, 2) == plain) << "two threads";
  o.dropout = 0.1f;
  EXPECT_FALSE(train(o, {}, 4) == plain);
}

INSTANTIATE_TEST_SUITE_P(All, TransformerBits, testing::Combine(testing::Bool(), testing::Bool()),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param) ? "Fused" : "Unfused") +
                                  (std::get<1>(test.param) ? "Pre" : "Post");
                         });

// The nll of the same four sentences in batches of other sizes and lengths.
TEST(Transformer, PaddingAndNeighboursChangeNothing) {
  for (const bool fused : {true, false}) {
    Options o = small();
    o.fused = fused;
    const TranslationModel model = transformer_model(o);
    std::vector<double> nll;
    ProgramSet programs({}, cpu_device(1));
    for (const TranslationShape shape : {TranslationShape{7, 6, 4}, TranslationShape{7, 6, 9},
                                         TranslationShape{23, 6, 4}, TranslationShape{7, 19, 4}}) {
      Builder b;
      Val scalars = step_scalars(b.input(in::kScalars, scalars_spec(), Space::host));
      b.output("nll", model.loss(b, shape, scalars, false).nll);
      Executable& program = programs.add(std::to_string(nll.size()), b.take());
      if (nll.empty()) initialise(programs, 5);
      const StepScalars now;
      std::memcpy(program.input(in::kScalars), &now, sizeof now);
      put(program, make_batch(o, shape, 4, 7, 6));
      program.run();
      nll.push_back(double(*program.output("nll")));
    }
    for (const double x : nll) EXPECT_NEAR(x, nll[0], 1e-6 * nll[0]);
    EXPECT_GT(nll[0], 10);
  }
}

}  // namespace
}  // namespace pal
