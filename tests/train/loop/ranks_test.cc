// Runs of several ranks: the same bits for any number of ranks, resumed on any other, with every
// option that leaves results alone; NaNs.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "core/error.h"
#include "ops/kernels/tiles.h"
#include "tests/train/loop/rank_runs.h"
#include "train/images/image_models.h"
#include "train/images/image_task.h"
#include "train/loop/checkpoint.h"
#include "train/loop/step_program.h"
#include "train/loop/sums_over_ranks.h"
#include "train/run_files/safetensors.h"

namespace pal::test {
namespace {

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

// Summed inside of each of several machines first, then between them.
TEST_F(Ranks, SameBitsByLevels) {
  Sets sets{"train.accumulate=8", "train.steps=2", "train.bucket=2KiB", "train.clip_norm=0.5"};
  const auto expect_same = [&](int ranks, int here, const std::string& shard) {
    const std::string out = shard + std::to_string(ranks) + "x" + std::to_string(here);
    Sets all = sets;
    all.push_back("train.shard=" + shard);
    run(out, ranks, all, here);
    EXPECT_TRUE(state("alone") == state(out)) << out;
    EXPECT_EQ(steps("alone"), steps(out)) << out;
  };
  run("alone", 1, sets);
  for (const char* shard : {"none", "optimizer", "gradients", "weights"}) expect_same(4, 2, shard);
  expect_same(8, 4, "none");
  expect_same(8, 2, "weights");
  sets.back() = "train.clip_norm=null";  // weights are updated bucket by bucket
  dir_ = folder_.path() / "free";
  run("alone", 1, sets);
  expect_same(4, 2, "none");
  expect_same(4, 2, "optimizer");
  test::as_ranks(
      4,
      [&](const std::shared_ptr<Group>& group) {
        const TrainArgs a = args("levels", sets, group);
        Trainer trainer(a, make_task(a));
        const std::string exchanges = exchanges_of(trainer.largest().program());
        for (const char* level : {"per_node=2 level=1", "per_node=2 level=2"}) {
          EXPECT_NE(exchanges.find(level), std::string::npos) << level;
        }
      },
      2);
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

// A rank's sum of parts is one number beside the others', as that of a micro-batch is.
TEST_F(Ranks, SameBitsInPartsOfTheBatch) {
  config_ =
      "model: {type: zoo, network: nin, width: 0.125}\n"
      "data: {synthetic: true, classes: 4, image_size: 64}\n"
      "train: {batch_size: 4, steps: 2, lr: 0.02, valid_every: 100, log_every: 1, accumulate: 4,\n"
      "  reduction: ordered, optimizer: momentum, link: 1gbe, batch_parts: 2}\n"
      "device: {threads: 1}\n";
  const Config of_two = with_ranks(parse_config(config_, "test.yaml", {}), 2);
  EXPECT_GT(batch_parts_of(*make_task(of_two), of_two, {64, 64})->nodes, 0);
  same_for({2}, {});
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
  const int64_t most = planned("plain");
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
  for (const std::string norms : {"local", "sync"}) {
    std::vector<int64_t> steps(4, -1);
    std::vector<std::string> said(4);
    fs::create_directories(dir_ / norms);
    test::as_ranks(4, [&](std::shared_ptr<Group> group) {
      const TrainArgs a = args(norms, {"train.accumulate=8", "train.batch_norm=" + norms}, group);
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
    EXPECT_EQ(steps, std::vector<int64_t>(4, 1)) << norms;  // the second update was none
    for (const std::string& each : said) {
      EXPECT_NE(each.find("at step 2"), std::string::npos) << norms << ": " << each;
    }
  }
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

}  // namespace
}  // namespace pal::test
