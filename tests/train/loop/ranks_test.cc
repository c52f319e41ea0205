// Runs of several ranks, as threads of this process: the same bits for any number of ranks, resumed
// on any other, with every option that leaves results alone; what ranks refuse.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "memory/compile.h"
#include "ops/exchange/exchange.h"
#include "ops/kernels/tiles.h"
#include "tests/support/files.h"
#include "tests/support/thread_group.h"
#include "train/config/published_sizes.h"
#include "train/images/image_models.h"
#include "train/images/image_task.h"
#include "train/loop/checkpoint.h"
#include "train/loop/micro_batch.h"
#include "train/loop/ranks_of_run.h"
#include "train/loop/step_program.h"
#include "train/loop/trainer.h"
#include "train/run_files/safetensors.h"
#include "train/tasks/make_task.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

using Sets = std::vector<std::string>;

constexpr const char* kTranslator =
    "model: {type: nmt, hidden: 24, embedding: 20, attention_size: 8, encoder_layers: 1,\n"
    "  decoder_layers: 1, dropout: 0.2}\n"
    "data: {synthetic: true, source_vocab_size: 60, target_vocab_size: 50, max_length: 12}\n"
    "train: {batch_size: 8, steps: 6, lr: 0.02, valid_every: 4, log_every: 1, accumulate: 4,\n"
    "  reduction: ordered}\n"
    "device: {threads: 1}\n";

constexpr const char* kImages =
    "model: {type: resnet, family: cifar, depth: 8, width: 4}\n"
    "data: {synthetic: true, classes: 4, image_size: 8, crop: random_resized}\n"
    "train: {batch_size: 4, steps: 4, lr: 0.02, valid_every: 2, log_every: 1, accumulate: 4,\n"
    "  reduction: ordered, optimizer: momentum}\n"
    "device: {threads: 1}\n";

class Ranks : public testing::Test {
 protected:
  TrainArgs args(const std::string& out, const Sets& sets, std::shared_ptr<Group> group) const {
    std::vector<Override> overrides;
    for (const std::string& set : sets) overrides.push_back(parse_set(set));
    TrainArgs a;
    a.group = group;
    a.config = with_ranks(parse_config(config_, "test.yaml", overrides), group ? group->size() : 1);
    a.name = "test";
    a.out = dir_ / out;
    a.resume = fs::exists(a.out / "last.safetensors");
    return a;
  }
  // Starts a run or goes on with it. Returns the bytes that all ranks have sent from the first to
  // the last of its updates, in all but the last.
  int64_t run(const std::string& out, int ranks, const Sets& sets = {}) {
    fs::create_directories(dir_ / out);
    std::atomic<int64_t> sent{0};
    test::as_ranks(ranks, [&](std::shared_ptr<Group> group) {
      const TrainArgs a = args(out, sets, group);
      Trainer trainer(a, make_task(a));
      if (!a.resume && (!group || group->rank() == 0)) trainer.task().save_files(a.out);
      const std::atomic<bool> stop{false};
      int64_t first = -1, last = 0;
      trainer.run(stop, [&] {
        last = group ? group->sent_bytes() : 0;
        if (first < 0) first = last;
        return true;
      });
      if (first >= 0) sent += last - first;
    });
    return sent;
  }
  std::string state(const std::string& out) const {
    return read_file(dir_ / out / "last.safetensors");
  }
  // What a metrics file says of steps, without times and places.
  std::vector<std::string> steps(const std::string& out) const {
    std::vector<std::string> found;
    std::ifstream in(dir_ / out / "metrics.jsonl");
    for (std::string line; std::getline(in, line);) {
      const auto row = nlohmann::json::parse(line);
      if (row["event"] != "step" && row["event"] != "valid") continue;
      std::string text;
      for (const char* key : {"step", "epoch", "loss", "lr", "grad_norm", "bleu", "top1"}) {
        if (row.contains(key)) text += std::string(key) + "=" + row[key].dump() + " ";
      }
      found.push_back(text);
    }
    return found;
  }
  // Of one rank and of each of these, with the same options; of the last also where weights are
  // divided.
  void same_for(const std::vector<int>& counts, const Sets& sets) {
    std::string words;
    for (const std::string& set : sets) words += set + " ";
    SCOPED_TRACE(words);
    const std::string alone = "alone" + std::to_string(++runs_);
    run(alone, 1, sets);
    for (const int ranks : counts) {
      const std::string out = alone + "-" + std::to_string(ranks);
      run(out, ranks, sets);
      EXPECT_TRUE(state(alone) == state(out)) << ranks << " ranks";
      EXPECT_EQ(steps(alone), steps(out)) << ranks << " ranks";
    }
    Sets divided = sets;
    divided.emplace_back("train.shard=weights");
    run(alone + "-weights", counts.back(), divided);
    EXPECT_TRUE(state(alone) == state(alone + "-weights")) << counts.back() << " ranks";
    EXPECT_EQ(steps(alone), steps(alone + "-weights")) << counts.back() << " ranks";
  }

  std::string config_ = kTranslator;
  const TemporaryFolder folder_;
  const fs::path dir_ = folder_.path();
  int runs_ = 0;
};

TEST_F(Ranks, SameBitsForAnyNumber) {
  same_for({2, 4}, {});
  same_for({3, 6}, {"train.accumulate=6"});
  same_for({2}, {"train.accumulate=2", "train.precision=bf16"});
}

TEST_F(Ranks, SameBitsWithClippedNormsAndAverages) {
  same_for({2, 4}, {"train.clip_norm=0.5", "train.ema=0.9"});
  same_for({4}, {"train.clip_value=0.01", "train.optimizer=nesterov", "train.weight_decay=0.01"});
  same_for({2}, {"train.weight_decay=0.1", "train.decay_vectors=false"});
}

TEST_F(Ranks, SameBitsUnderOptionsOfMemory) {
  same_for({2}, {"memory.recompute=echo"});
  same_for({2}, {"memory.recompute=sqrt", "train.clip_norm=0.5"});
  same_for({2}, {"memory.swap=planned"});
  same_for({2}, {"memory.encode=[binarize]", "memory.schedule=program"});
  // And the same as without it.
  run("plain", 4);
  run("echo", 4, {"memory.recompute=echo"});
  EXPECT_TRUE(state("plain") == state("echo"));
}

// Whatever ranks divide among themselves.
TEST_F(Ranks, SameBitsHoweverStateIsDivided) {
  for (const char* clip : {"train.clip_norm=0.5", "train.clip_norm=null"}) {
    const Sets base{clip, "train.ema=0.9"};
    const std::string alone = "alone" + std::to_string(++runs_);
    run(alone, 1, base);
    for (const char* shard : {"optimizer", "gradients", "weights"}) {
      for (const int ranks : {2, 4}) {
        const std::string out = alone + shard + std::to_string(ranks);
        run(out, ranks, {clip, "train.ema=0.9", std::string("train.shard=") + shard});
        EXPECT_TRUE(state(alone) == state(out)) << out << " " << clip;
        EXPECT_TRUE(read_file(dir_ / alone / "best.safetensors") ==
                    read_file(dir_ / out / "best.safetensors"))
            << out << " " << clip;
        EXPECT_EQ(steps(alone), steps(out)) << out;
      }
    }
  }
}

TEST_F(Ranks, SmallBucketsChangeNothing) {
  run("large", 2);
  run("small", 2, {"train.bucket=1KiB"});
  run("sharded", 2, {"train.bucket=1KiB", "train.shard=optimizer"});
  run("gathered", 2, {"train.bucket=1KiB", "train.shard=weights"});
  EXPECT_TRUE(state("large") == state("small"));
  EXPECT_TRUE(state("large") == state("sharded"));
  EXPECT_TRUE(state("large") == state("gathered"));
}

TEST_F(Ranks, SameBitsOfImages) {
  config_ = kImages;
  same_for({2, 4}, {});
}

// Of words that are hidden, and of a budget that no recorded step keeps to.
TEST_F(Ranks, SameBitsOfLanguageModels) {
  config_ =
      "model: {type: bert, layers: 1, hidden: 12, heads: 3, ffn: 24}\n"
      "data: {synthetic: true, vocab_size: 40, length: 8}\n"
      "train: {batch_size: 4, steps: 4, lr: 0.01, valid_every: 100, log_every: 1, accumulate: 4,\n"
      "  reduction: ordered}\n"
      "device: {threads: 1}\n";
  same_for({2, 4}, {});
}

TEST_F(Ranks, SameBitsWithinABudget) {
  config_ = kImages;
  const Sets sets{"train.batch_size=32", "train.steps=2"};
  run("plain", 1, sets);
  std::ifstream in(dir_ / "plain/metrics.jsonl");
  int64_t most = 0;
  for (std::string line; std::getline(in, line);) {
    const auto row = nlohmann::json::parse(line);
    if (row["event"] == "plan") most = std::max(most, row["total_bytes"].get<int64_t>());
  }
  ASSERT_GT(most, 0);
  Sets within = sets;
  within.push_back("memory.budget=" + std::to_string(most / 4 * 3));
  for (const char* shard : {"optimizer", "weights"}) {
    within.push_back(std::string("train.shard=") + shard);
    run(std::string("within") + shard, 2, within);
    EXPECT_TRUE(state("plain") == state(std::string("within") + shard)) << shard;
    within.pop_back();
  }
}

TEST_F(Ranks, SameBitsOfAveragesOfCheckpoints) {
  same_for({2}, {"train.average_last=2", "train.save_every=2", "train.keep_last=2"});
  run("from-one", 1, {"train.init_from=" + (dir_ / "alone1").string()});
  for (const char* shard : {"optimizer", "weights"}) {
    const std::string out = std::string("from") + shard;
    run(out, 2,
        {"train.init_from=" + (dir_ / "alone1").string(), std::string("train.shard=") + shard});
    EXPECT_TRUE(state("from-one") == state(out)) << shard;
  }
  EXPECT_TRUE(read_file(dir_ / "alone1/average.safetensors") ==
              read_file(dir_ / "alone1-2/average.safetensors"));
}

TEST_F(Ranks, GoesOnWithAnyNumber) {
  run("whole", 1);
  run("parts", 4, {"train.steps=2", "train.shard=optimizer"});
  run("parts", 2, {"train.steps=3", "train.shard=gradients"});
  run("parts", 4, {"train.steps=4", "train.shard=weights"});
  run("parts", 1, {"train.steps=5"});
  run("parts", 2, {"train.shard=weights"});
  EXPECT_TRUE(state("whole") == state("parts"));
}

// To the byte: gradients out and sums (or weights) back, the loss, and of pieces a sum of squares
// for every tile.
TEST_F(Ranks, SendWhatTheTableSays) {
  constexpr int64_t kSteps = 3;
  run("one", 1, {"train.steps=4"});
  const SafetensorsFile file = SafetensorsFile::open((dir_ / "one/last.safetensors").string());
  // What the backward pass reads: factors of products, neither summands nor tables of embeddings.
  int64_t weights = 0, tiles = 0, again = 0;
  for (const TensorView& tensor : file.tensors()) {
    if (!names_weight(tensor.name)) continue;
    weights += int64_t(tensor.bytes);
    tiles += (int64_t(tensor.bytes) / 4 + kTile - 1) / kTile;
    const bool factor = tensor.shape.size() == 2 && !tensor.name.ends_with("/embedding");
    if (factor || tensor.name.ends_with("attention/v")) again += int64_t(tensor.bytes);
  }
  ASSERT_GT(again, weights / 2);
  for (const int64_t ranks : {2, 4}) {
    const int64_t losses = 4 * ranks * (ranks - 1), all = 2 * (ranks - 1) * weights;
    const auto run_with = [&](const char* reduction, const char* shard) {
      return run(std::string(reduction) + shard + std::to_string(ranks), int(ranks),
                 {"train.steps=4", std::string("train.reduction=") + reduction,
                  std::string("train.shard=") + shard});
    };
    for (const char* reduction : {"ordered", "library"}) {
      EXPECT_EQ(run_with(reduction, "none"), kSteps * (all + losses)) << reduction << ranks;
      EXPECT_EQ(run_with(reduction, "optimizer"), kSteps * (all + losses + 4 * (ranks - 1) * tiles))
          << reduction << ranks;
    }
    // Of k micro-batches a rank weights are gathered k times, most of them once more for the
    // backward pass; pieces of gradients need no way back.
    const int64_t k = 4 / ranks, small = losses + 4 * (ranks - 1) * tiles;
    const int64_t gathered = k * (ranks - 1) * (weights + again), out = (ranks - 1) * weights;
    // A library's sums of gradients travel once a micro-batch, and the weights once.
    EXPECT_EQ(run_with("ordered", "gradients"), kSteps * (2 * out + small)) << ranks;
    EXPECT_EQ(run_with("library", "gradients"), kSteps * ((k + 1) * out + small)) << ranks;
    EXPECT_EQ(run_with("ordered", "weights"), kSteps * (gathered + out + small)) << ranks;
    EXPECT_EQ(run_with("library", "weights"), kSteps * (gathered + k * out + small)) << ranks;
  }
}

// On every rank, whatever is divided: the highest byte that a step writes is the plan's.
TEST_F(Ranks, TouchWhatIsPlanned) {
  fs::create_directories(dir_ / "peaks");
  for (const char* shard : {"none", "optimizer", "gradients", "weights"}) {
    for (const char* recompute : {"none", "echo"}) {
      test::as_ranks(4, [&](std::shared_ptr<Group> group) {
        const TrainArgs a = args(
            "peaks",
            {std::string("train.shard=") + shard, std::string("memory.recompute=") + recompute},
            group);
        Trainer trainer(a, make_task(a));
        Executable& step = trainer.largest();
        step.memory().fill_canary();
        step.run();
        const int64_t touched = step.memory().recorded_peak();
        const Compiled& c = step.compiled();
        // A library need not write its workspace to the end.
        int64_t values = 0;
        for (const StorageId id : c.storages.list.ids()) {
          const Storage& storage = c.storages.list[id];
          if (storage.space != Space::device || storage.workspace_of != kNone) continue;
          values = std::max(values, c.plan.offset[id] + storage.bytes);
        }
        const int64_t planned = c.plan.device().bytes;
        SCOPED_TRACE(std::string(shard) + ", " + recompute);
        EXPECT_LE(touched, planned) << "rank " << group->rank();
        EXPECT_GE(touched, values) << "rank " << group->rank();
        if (std::string(recompute) == "none") {
          EXPECT_EQ(touched, planned);
        }
      });
    }
  }
}

// Rounded on their way: half the bytes of gradients and sums, near the same losses.
TEST_F(Ranks, TravelInHalfTheBytes) {
  const Sets sets{"train.steps=4"};
  const int64_t whole = run("f32", 2, sets);
  const int64_t half = run("bf16", 2, {"train.steps=4", "train.exchange=bf16"});
  const int64_t losses = 3 * 4 * 2;
  EXPECT_EQ(half - losses, (whole - losses) / 2);
  const auto loss_of = [](const std::string& row) {
    return std::stod(row.substr(row.find("loss=") + 5));
  };
  const auto exact = steps("f32"), rounded = steps("bf16");
  ASSERT_EQ(exact.size(), rounded.size());
  EXPECT_NE(exact, rounded);
  for (size_t i = 0; i < exact.size(); ++i) {
    EXPECT_NEAR(loss_of(exact[i]), loss_of(rounded[i]), 1e-2);
  }
}

// A library's sums depend on the number of ranks, in their last bits alone.
TEST_F(Ranks, LibrarySumsAreNear) {
  run("one", 1, {"train.reduction=library"});
  run("four", 4, {"train.reduction=library"});
  const auto loss_of = [](const std::string& row) {
    return std::stod(row.substr(row.find("loss=") + 5));
  };
  const auto one = steps("one"), four = steps("four");
  ASSERT_EQ(one.size(), four.size());
  for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(loss_of(one[i]), loss_of(four[i]), 1e-5);
}

// Images of which one rank's third batch holds a NaN.
class SpoiltImages : public ImageTask {
 public:
  SpoiltImages(const Config& config, bool spoilt) : ImageTask(config), spoilt_(spoilt) {}

 private:
  void fill_batch(Executable& program, const ImageBatch& batch) const override {
    ImageTask::fill_batch(program, batch);
    if (!spoilt_ || ++filled_ != 3) return;
    *reinterpret_cast<float*>(program.input(image_input::kImages)) = std::nanf("");
  }
  const bool spoilt_;
  mutable int filled_ = 0;
};

// No rank updates anything, though the NaN is in the first micro-batch of another one.
TEST_F(Ranks, ANanAnywhereStopsAll) {
  config_ = kImages;
  std::vector<int64_t> steps(4, -1);
  std::vector<std::string> said(4);
  fs::create_directories(dir_ / "nan");
  test::as_ranks(4, [&](std::shared_ptr<Group> group) {
    const TrainArgs a = args("nan", {"train.accumulate=8"}, group);
    const size_t rank = size_t(group->rank());
    Trainer trainer(a, std::make_unique<SpoiltImages>(a.config, rank == 2));
    const std::atomic<bool> stop{false};
    try {
      trainer.run(stop);
    } catch (const Error& error) {
      said[rank] = error.what();
    }
    steps[rank] = trainer.state().step;
  });
  EXPECT_EQ(steps, std::vector<int64_t>(4, 1));  // the second update was none
  for (const std::string& each : said) EXPECT_NE(each.find("at step 2"), std::string::npos) << each;
}

// One rank says which node made it, also in a micro-batch that is not the last.
TEST_F(Ranks, OneRankNamesTheNode) {
  config_ = kImages;
  fs::create_directories(dir_ / "nan");
  const TrainArgs a = args("nan", {"train.accumulate=8"}, nullptr);
  Trainer trainer(a, std::make_unique<SpoiltImages>(a.config, true));
  try {
    trainer.run(std::atomic<bool>(false));
    FAIL() << "a NaN went by";
  } catch (const Error& error) {
    const std::string said = error.what();
    EXPECT_NE(said.find("[conv2d] made a NaN"), std::string::npos) << said;
    EXPECT_NE(said.find("at step 1"), std::string::npos) << said;
  }
}

TEST(Updates, AreDividedAlongATree) {
  TrainConfig config;
  config.accumulate = 6, config.reduction = "ordered";
  EXPECT_EQ(possible_ranks(6, true), (std::vector<int64_t>{1, 3, 6}));
  EXPECT_EQ(possible_ranks(6, false), (std::vector<int64_t>{1, 2, 3, 6}));
  EXPECT_NO_THROW(check_ranks(config, 3));
  try {
    check_ranks(config, 2);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("start 1, 3, 6 ranks"), std::string::npos)
        << error.what();
  }
}

// transformer_base's step of four micro-batches.
Program base_step(int64_t ranks, const char* shard, const char* ema = "null") {
  Config config =
      load_config(find_config("transformer_base"),
                  {parse_set("train.accumulate=4"), parse_set(std::string("train.shard=") + shard),
                   parse_set(std::string("train.ema=") + ema)});
  use_published_sizes(config);
  config = with_ranks(config, ranks);
  const std::unique_ptr<Task> task = make_task(config);
  return record_plan_step(*task, config, task->bucket_lengths(0));
}
std::map<Role, int64_t> state_bytes(int64_t ranks, const char* shard, const char* ema = "null") {
  const Program step = base_step(ranks, shard, ema);
  std::map<Role, int64_t> bytes;
  for (const StateSlot& slot : step.state) {
    if (slot.name.starts_with(kAccumulator)) continue;
    bytes[slot.role] += step.value(slot.start).spec.bytes();
  }
  return bytes;
}

// On four ranks: a quarter of Adam's moments, and 1 % at most for pieces that are cut at tiles.
TEST(RankedSteps, DivideTheOptimizersState) {
  auto whole = state_bytes(4, "none"), pieces = state_bytes(4, "optimizer");
  const int64_t moments = whole[Role::optimizer_state];
  EXPECT_EQ(moments, state_bytes(1, "optimizer")[Role::optimizer_state]);
  EXPECT_EQ(moments, 504'397'824);
  EXPECT_GE(pieces[Role::optimizer_state], moments / 4);
  EXPECT_LE(pieces[Role::optimizer_state], moments / 4 * 1.01);
  EXPECT_EQ(pieces[Role::weight], whole[Role::weight]);
  // Averages of weights are as large as one of the two moments.
  const int64_t averaged = state_bytes(4, "optimizer", "0.99")[Role::optimizer_state];
  EXPECT_EQ(averaged * 2, pieces[Role::optimizer_state] * 3);
}

// And of the weights; beside the pieces the step holds the wholes that it reads just then: at most
// two groups and the table that makes the logits. The plan falls by as much.
TEST(RankedSteps, DivideTheWeights) {
  constexpr int64_t kGroup = int64_t(25) << 20;  // train.bucket: auto
  auto whole = state_bytes(4, "none"), pieces = state_bytes(4, "weights");
  const int64_t all = whole[Role::weight] + whole[Role::optimizer_state];
  const int64_t divided = pieces[Role::weight] + pieces[Role::optimizer_state];
  EXPECT_EQ(all, 756'596'736);
  EXPECT_GE(divided, all / 4);
  EXPECT_LE(divided, all / 4 * 1.01);

  const auto planned = [](const char* shard) {
    const Program step = base_step(4, shard);
    KernelCache cache(cpu_device(1));
    return compile(step, cache, StateLayout(step));
  };
  const Compiled before = planned("none"), after = planned("weights");
  const Program& p = after.program;
  const Readers readers(p);
  std::vector<int64_t> held(size_t(p.node_count()), 0);
  int64_t table = 0;
  for (const NodeId n : p.nodes.ids()) {
    if (p.node(n).op != &all_gather_op) continue;
    for (const ValueId v : p.node(n).out) {
      if (v == kNone || p.value(v).role != Role::weight) continue;
      const int64_t bytes = p.value(v).spec.bytes();
      table = std::max(table, bytes);
      for (NodeId m = n; m <= readers[v].back(); ++m) held[size_t(m)] += bytes;
    }
  }
  const int64_t most = *std::max_element(held.begin(), held.end());
  std::printf("wholes held at a time: at most %lld bytes, the table %lld\n",
              static_cast<long long>(most), static_cast<long long>(table));
  EXPECT_GE(most, table);
  EXPECT_LE(most, table + 2 * kGroup);
  const int64_t saved = before.plan.device().bytes - after.plan.device().bytes;
  EXPECT_GE(saved, all - divided - most);
}

// The sums that are there when a micro-batch is done: those of the bits of its number.
TEST(Updates, CountInBinary) {
  for (int64_t n = 1; n <= 64; ++n) {
    TrainConfig config;
    config.accumulate = n, config.reduction = "ordered";
    const Update update(config, 1);
    std::vector<int64_t> sums(8, 0);  // by accumulator: micro-batches in it
    const std::vector<MicroBatch> kinds = update.kinds();
    for (int64_t i = 0; i < n; ++i) {
      const MicroBatch kind = update.kind(i);
      EXPECT_NE(std::find(kinds.begin(), kinds.end(), kind), kinds.end()) << i << " of " << n;
      int64_t sum = 1;
      for (size_t level = 0; level < sums.size(); ++level) {
        if (!(kind.adds >> level & 1)) continue;
        EXPECT_EQ(sums[level], int64_t(1) << level) << i << " of " << n;
        sum += std::exchange(sums[level], 0);
      }
      EXPECT_EQ(kind.updates(), i + 1 == n);
      if (kind.updates()) {
        EXPECT_EQ(sum, n);
      } else {
        ASSERT_LT(kind.stores, update.accumulators());
        EXPECT_EQ(sums[size_t(kind.stores)], 0);
        EXPECT_EQ(sum, int64_t(1) << kind.stores);
        sums[size_t(kind.stores)] = sum;
      }
    }
  }
}

TEST(Updates, NullIsOneMicroBatchARank) {
  Config config =
      parse_config(kTranslator, "test.yaml",
                   {parse_set("train.accumulate=null"), parse_set("train.reduction=null")});
  const Config four = with_ranks(config, 4);
  EXPECT_EQ(**four.train.accumulate, 4);
  EXPECT_EQ(**four.train.reduction, "ordered");
  const Config one = with_ranks(config, 1);
  EXPECT_EQ(**one.train.accumulate, 1);
  EXPECT_EQ(**one.train.reduction, "library");
  const Config again = with_ranks(config, 2, &four);  // goes on as it began
  EXPECT_EQ(**again.train.accumulate, 4);
  EXPECT_EQ(**again.train.reduction, "ordered");
}

TEST_F(Ranks, ThatDifferAreNamed) {
  using Made = std::function<std::unique_ptr<Trainer>(int rank, const std::shared_ptr<Group>&)>;
  const auto fails = [&](const std::string& what, const Made& made) {
    SCOPED_TRACE(what);
    std::string said = "ranks that differ went on";
    try {
      test::as_ranks(3, [&](std::shared_ptr<Group> group) { made(group->rank(), group); });
    } catch (const UsageError& error) {
      said = error.what();
    }
    EXPECT_NE(said.find("rank 0 and rank 2 differ in " + what), std::string::npos) << said;
  };
  const Sets three{"train.accumulate=3"};
  fs::create_directories(dir_ / "differ");
  fails("the configuration", [&](int rank, const auto& group) {
    const TrainArgs a =
        args("differ", {three[0], rank == 2 ? "train.lr=0.1" : "train.lr=0.2"}, group);
    return std::make_unique<Trainer>(a, make_task(a));
  });
  // Files that have another content under the same name.
  const auto of_another = [&](const std::string& set) {
    return [&, set](int rank, const auto& group) {
      const TrainArgs a = args("differ", three, group);
      const TrainArgs other = args("differ", {three[0], set}, group);
      return std::make_unique<Trainer>(a, make_task(rank == 2 ? other : a));
    };
  };
  fails("the data", of_another("data.max_length=11"));
  fails("what they exchange", of_another("model.hidden=28"));
  run("six", 1, three);
  run("three", 1, {three[0], "train.steps=3"});
  fails("the data", [&](int rank, const auto& group) {
    const TrainArgs a = args(rank == 2 ? "three" : "six", three, group);
    return std::make_unique<Trainer>(a, make_task(a));
  });
}

}  // namespace
}  // namespace pal
