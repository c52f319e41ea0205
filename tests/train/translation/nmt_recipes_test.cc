// The configurations in configs/, each loaded, written and read back, and, for the translator's,
// run at a small size; and the loss in chunks of rows: less memory, the same loss.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "core/scalars.h"
#include "memory/compile.h"
#include "models/nmt.h"
#include "train/loop/initialise.h"
#include "train/loop/run_options.h"
#include "train/loop/step_program.h"
#include "train/tasks/make_task.h"
#include "train/translation/translation_task.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> recipes() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(PAL_SOURCE_DIR "/configs")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}
std::vector<fs::path> nmt_recipes() {
  std::vector<fs::path> files = recipes();
  std::erase_if(files,
                [](const fs::path& file) { return !file.filename().string().starts_with("nmt_"); });
  return files;
}

std::vector<Override> overrides(const std::vector<std::string>& sets) {
  std::vector<Override> out;
  for (const std::string& set : sets) out.push_back(parse_set(set));
  return out;
}

// The losses of `steps` updates from the same start.
struct Outcome {
  std::vector<float> losses, nll;
  int64_t bytes = 0;
  std::string weights;
  std::vector<std::string> passes;
};

Outcome train(const Config& config, int steps) {
  const std::unique_ptr<Task> task = make_task(config);
  ProgramSet programs(compile_options(config.memory), choose_device(config.device));
  const int n = int(micro_batches(config.train));
  const Update update(config.train, 1);
  // All programs before the first weight is drawn: they share one state.
  std::map<std::string, Executable*> ready;
  auto program = [&](int bucket, MicroBatch kind) -> Executable& {
    Executable*& found = ready[std::to_string(bucket) + to_string(kind)];
    auto forward = [&](Builder& b, Val scalars) { return task->record(b, bucket, scalars, true); };
    if (!found) {
      found = &programs.add(std::to_string(bucket) + to_string(kind),
                            record_step(forward, config.train, kind));
    }
    return *found;
  };
  for (int bucket = task->bucket_count(); bucket-- > 0;) {
    for (int i = n; i-- > 0;) program(bucket, update.kind(i));  // the last has all state
  }
  initialise(programs, uint64_t(*config.train.seed));
  Outcome run;
  for (int step = 0; step < steps; ++step) {
    const std::vector<BatchInfo> batches = task->next(n);
    double words = 0;
    for (const BatchInfo& batch : batches) words += batch.normalizer;
    float loss = 0, nll = 0;
    for (int i = 0; i < n; ++i) {
      Executable& e = program(batches[size_t(i)].bucket, update.kind(i));
      task->fill(e, i);
      const StepScalars scalars{.learning_rate = float(*config.train.lr),
                                .step = step,
                                .micro_batch = i,
                                .seed_low = 7,
                                .tokens = float(words)};
      std::memcpy(e.input(kScalarsInput), &scalars, sizeof scalars);
      e.run();
      loss += *e.output("loss"), nll += *e.output("nll");
    }
    run.losses.push_back(loss), run.nll.push_back(nll);
  }
  for (const StateTensor& slot : programs.state()) {
    if (slot.role != Role::weight) continue;
    run.weights.append(reinterpret_cast<const char*>(slot.data), size_t(slot.spec.bytes()));
  }
  const Compiled& largest = program(task->bucket_count() - 1, update.last()).compiled();
  run.bytes = largest.plan.device().bytes;
  for (const PassReport& pass : largest.passes) run.passes.push_back(pass.name);
  return run;
}

class RecipeFile : public testing::TestWithParam<fs::path> {};

TEST_P(RecipeFile, IsReadBackAsItIsWritten) {
  const Config config = load_config(GetParam());
  const Config again = parse_config(dump_config(config), "dumped.yaml");
  EXPECT_TRUE(diff(config, again).empty());
}

class NmtRecipe : public testing::TestWithParam<fs::path> {};

TEST_P(NmtRecipe, RunsAtASmallSize) {
  const Config full = load_config(GetParam());
  std::vector<std::string> sets{"data.synthetic=true",       "data.source_vocab_size=40",
                                "data.target_vocab_size=40", "data.max_length=12",
                                "data.bucket_width=null",    "model.hidden=16",
                                "model.embedding=16",        "model.attention_size=16",
                                "train.log_every=1",         "device.threads=1"};
  sets.push_back(*full.train.batch_words ? "train.batch_words=48" : "train.batch_size=4");
  const Config config = load_config(GetParam(), overrides(sets));
  const Outcome run = train(config, 2);
  for (float loss : run.losses) EXPECT_NEAR(loss, std::log(44.0), 1) << "nats a word, by chance";
}

std::string recipe_name(const testing::TestParamInfo<fs::path>& test) {
  return test.param.stem().string();
}
INSTANTIATE_TEST_SUITE_P(Configs, RecipeFile, testing::ValuesIn(recipes()), recipe_name);
INSTANTIATE_TEST_SUITE_P(Configs, NmtRecipe, testing::ValuesIn(nmt_recipes()), recipe_name);

// A vocabulary that is large beside the rest.
Config chunky(int chunks, std::vector<std::string> sets = {}) {
  sets.push_back("model.loss_chunks=" + std::to_string(chunks));
  return parse_config(
      "model: {type: nmt, hidden: 16, embedding: 16, attention_size: 8, encoder_layers: 1,\n"
      "  decoder_layers: 1, dropout: 0.2}\n"
      "data: {synthetic: true, source_vocab_size: 40, target_vocab_size: 996, max_length: 10}\n"
      "train: {batch_size: 16, steps: 5, lr: 0.01, label_smoothing: 0.1}\n"
      "device: {threads: 1}\n",
      "chunky.yaml", overrides(sets));
}

TEST(LossChunks, KeepOnePartOfTheLogits) {
  // Logits of the largest bucket: 10 steps of 16 sentences, 1,000 words, in f32.
  const int64_t logits = 10 * 16 * 1000 * 4;
  for (const char* fused : {"model.fused=true", "model.fused=false"}) {
    for (const char* recompute : {"memory.recompute=none", "memory.recompute=echo"}) {
      const int64_t whole = train(chunky(1, {fused, recompute}), 1).bytes;
      const Outcome eight = train(chunky(8, {fused, recompute}), 1);
      EXPECT_EQ(eight.passes[0], "delay") << fused << " " << recompute;
      EXPECT_LT(eight.bytes, whole - logits / 2) << fused << " " << recompute;
    }
    const int64_t kept = train(chunky(8, {fused, "memory.schedule=program"}), 1).bytes;
    EXPECT_GT(kept, train(chunky(8, {fused}), 1).bytes + logits / 2)
        << "in program order all are stashed";
  }
}

TEST(LossChunks, WholeLossHasNothingToDelay) {
  const Outcome run = train(chunky(1, {"memory.recompute=echo"}), 1);
  EXPECT_EQ(std::count(run.passes.begin(), run.passes.end(), "delay"), 0);
}

TEST(LossChunks, GiveTheSameLossUpToTheOrderOfItsSums) {
  for (const char* set :
       {"model.fused=true", "model.fused=false", "model.tie_embeddings=target",
        "train.accumulate=3", "model.layer_norm=true", "train.ema=0.9", "train.clip_norm=0.1"}) {
    const Outcome whole = train(chunky(1, {set}), 5);
    for (int chunks : {3, 8}) {
      const Outcome parts = train(chunky(chunks, {set}), 5);
      for (size_t i = 0; i < whole.losses.size(); ++i) {
        EXPECT_NEAR(parts.losses[i], whole.losses[i], 1e-5 * whole.losses[i])
            << set << " chunks " << chunks << " step " << i;
        EXPECT_NEAR(parts.nll[i], whole.nll[i], 1e-5 * whole.nll[i]);
      }
      EXPECT_NE(parts.weights, whole.weights) << "another order of sums: the chunks are there";
    }
  }
}

TEST(LossChunks, TheSameBitsUnderEveryPlan) {
  const Outcome plain = train(chunky(4, {"memory.schedule=program", "memory.inplace=false"}), 5);
  for (const std::vector<std::string>& sets : {std::vector<std::string>{},
                                               {"memory.recompute=echo"},
                                               {"memory.recompute=mirror"},
                                               {"device.threads=3"}}) {
    const Outcome run = train(chunky(4, sets), 5);
    EXPECT_EQ(run.losses, plain.losses);
    EXPECT_EQ(run.weights, plain.weights);
  }
}

TEST(LossChunks, MoreThanRowsAreOneEach) {
  const Outcome run = train(chunky(60000, {"train.batch_size=2"}), 1);
  EXPECT_NEAR(run.losses[0], train(chunky(1, {"train.batch_size=2"}), 1).losses[0], 1e-4);
}

TEST(NmtOptions, EmbeddingsTiedToEachOtherAreOneTable) {
  const Config config = chunky(1, {"data.shared_vocabulary=true", "data.source_vocab_size=996",
                                   "model.tie_embeddings=embeddings", "model.embedding=10"});
  const std::unique_ptr<Task> task = make_task(config);
  Builder b;
  Val scalars = b.input("scalars", scalars_spec());
  task->record(b, 0, scalars, true);
  EXPECT_TRUE(b.program().find_state("embedding"));
  EXPECT_TRUE(b.program().find_state("output/w")) << "the output layer is not tied";
  EXPECT_FALSE(b.program().find_state("source/embedding"));
  EXPECT_FALSE(b.program().find_state("target/embedding"));
}

TEST(NmtOptions, EachDropoutDropsItsOwn) {
  auto count = [](const std::vector<std::string>& sets) {
    std::vector<std::string> all{"model.dropout=0", "model.encoder_layers=2",
                                 "model.decoder_layers=2", "model.fused=true"};
    all.insert(all.end(), sets.begin(), sets.end());
    const Config config = chunky(1, all);
    const std::unique_ptr<Task> task = make_task(config);
    Builder b;
    task->record_lengths(b, {4, 3}, b.input("scalars", scalars_spec()), true);
    std::map<std::string, int> found;  // by scope
    for (const Node& node : b.program().nodes) {
      if (std::string(node.op->name) == "dropout") {
        ++found[b.program().scopes[size_t(node.scope)]];
      }
    }
    return found;
  };
  using Found = std::map<std::string, int>;
  EXPECT_EQ(count({}), Found{});
  EXPECT_EQ(count({"model.embedding_dropout=0.1"}),
            (Found{{"encoder/embed", 1}, {"decoder/embed", 1}}));
  EXPECT_EQ(count({"model.hidden_dropout=0.1"}), (Found{{"decoder/attention", 2 * 3}}));
  const Found between{{"encoder", 1}, {"decoder/rnn1", 3}, {"output", 1}};
  EXPECT_EQ(count({"model.dropout=0.1", "model.embedding_dropout=0"}), between);
  Found all = between;
  all["encoder/embed"] = all["decoder/embed"] = 1;
  EXPECT_EQ(count({"model.dropout=0.1"}), all);
}

}  // namespace
}  // namespace pal
