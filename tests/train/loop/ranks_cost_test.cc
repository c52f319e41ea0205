// What runs of several ranks send and hold, by what their ranks divide: to the byte.
#include <algorithm>
#include <map>

#include "core/error.h"
#include "memory/compile.h"
#include "ops/exchange/exchange.h"
#include "ops/kernels/tiles.h"
#include "tests/train/loop/rank_runs.h"
#include "train/config/published_sizes.h"
#include "train/loop/micro_batch.h"
#include "train/loop/step_program.h"
#include "train/run_files/safetensors.h"

namespace pal::test {
namespace {

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

// What a rank says of its rows goes to every other, forward and backward: two floats a channel and
// one. Running statistics are the same on every rank, and stay.
TEST_F(Ranks, SyncedNormsSendTheirSums) {
  config_ = kImages;
  constexpr int64_t kSteps = 3, kMicroBatches = 4;
  run("one", 1, {"train.steps=4"});
  const SafetensorsFile file = SafetensorsFile::open((dir_ / "one/last.safetensors").string());
  int64_t weights = 0, channels = 0, norms = 0;
  for (const TensorView& tensor : file.tensors()) {
    if (tensor.name.ends_with("/running_mean")) channels += int64_t(tensor.bytes) / 4, ++norms;
    if (names_weight(tensor.name) && tensor.name.find("running_") == std::string::npos) {
      weights += int64_t(tensor.bytes);
    }
  }
  ASSERT_GE(norms, 7);
  for (const int64_t ranks : {2, 4}) {
    const int64_t others = ranks - 1, fixed = 4 * ranks * others + 2 * others * weights;
    const std::string name = std::to_string(ranks);
    const int64_t statistics = kMicroBatches * others * 4 * 2 * channels;
    EXPECT_EQ(run("local" + name, int(ranks), {"train.steps=4"}), kSteps * (fixed + statistics));
    const int64_t sums = kMicroBatches * others * 4 * 2 * (2 * channels + norms);
    EXPECT_EQ(run("sync" + name, int(ranks), {"train.steps=4", "train.batch_norm=sync"}),
              kSteps * (fixed + sums));
  }
}

class PlannedRanks : public Ranks {
 protected:
  // On every rank: the highest byte that a step writes is the plan's, but where a library has room
  // at the top, which it need not write to the end. Returns on how many ranks a value is at the
  // top.
  int expect_touched(const Sets& sets) {
    std::atomic<int> exactly{0};
    fs::create_directories(dir_ / "peaks");
    test::as_ranks(4, [&](std::shared_ptr<Group> group) {
      const TrainArgs a = args("peaks", sets, group);
      Trainer trainer(a, make_task(a));
      Executable& step = trainer.largest();
      step.memory().fill_canary();
      step.run();
      const int64_t touched = step.memory().recorded_peak();
      const Compiled& c = step.compiled();
      int64_t values = 0;
      for (const StorageId id : c.storages.list.ids()) {
        const Storage& storage = c.storages.list[id];
        if (storage.space != Space::device || storage.workspace_of != kNone) continue;
        values = std::max(values, c.plan.offset[id] + storage.bytes);
      }
      const int64_t planned = c.plan.device().bytes;
      SCOPED_TRACE(sets[0] + ", " + sets[1]);
      EXPECT_LE(touched, planned) << "rank " << group->rank();
      EXPECT_GE(touched, values) << "rank " << group->rank();
      if (align_up(values) == planned) {
        EXPECT_EQ(touched, planned);
        ++exactly;
      }
    });
    return exactly;
  }
};

TEST_F(PlannedRanks, TouchWhatIsPlanned) {
  int exactly = 0;
  for (const char* link : {"none", "1gbe"}) {
    for (const char* shard : {"none", "optimizer", "gradients", "weights"}) {
      for (const char* recompute : {"none", "echo"}) {
        exactly += expect_touched({std::string("train.shard=") + shard,
                                   std::string("memory.recompute=") + recompute,
                                   std::string("train.link=") + link});
      }
    }
  }
  EXPECT_GE(exactly, 16) << "of 64";
}
TEST_F(PlannedRanks, TouchWhatIsPlannedWithSyncedNorms) {
  config_ = kImages;
  for (const char* shard : {"none", "weights"}) {
    for (const char* recompute : {"none", "echo"}) {
      expect_touched({std::string("train.shard=") + shard,
                      std::string("memory.recompute=") + recompute, "train.batch_norm=sync"});
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

}  // namespace
}  // namespace pal::test
