// Runs of several ranks: the same bits for any number of ranks, resumed on any other, with every
// option that leaves results alone; NaNs, and what ranks refuse.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "core/error.h"
#include "core/order.h"
#include "memory/schedule/queue_exchanges.h"
#include "ops/kernels/tiles.h"
#include "tests/train/loop/rank_runs.h"
#include "train/images/image_models.h"
#include "train/images/image_task.h"
#include "train/loop/checkpoint.h"
#include "train/loop/choose_bucket.h"
#include "train/loop/exchange_device.h"
#include "train/loop/run_options.h"
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

// Whose times are rank 0's, at once, and again when the run goes on.
TEST_F(Ranks, PlanAnewByTheTimesOfTheFirst) {
  config_ = kImages;
  const Sets sets{"train.batch_size=32", "train.steps=8"};
  run("plain", 1, sets);
  Sets within = sets;
  within.push_back("memory.budget=" + std::to_string(planned("plain") / 4 * 3));
  within.emplace_back("memory.profile_steps=2");
  std::vector<double> predicted(2), roofline(2), later(2);
  const auto train = [&](std::vector<double>& before, std::vector<double>& after) {
    test::as_ranks(2, [&](const std::shared_ptr<Group>& group) {
      const TrainArgs a = args("run", within, group);
      Trainer trainer(a, make_task(a));
      const auto rank = size_t(group->rank());
      before[rank] = trainer.largest().compiled().time->step_ms;
      if (!a.resume && rank == 0) trainer.task().save_files(a.out);
      trainer.run(std::atomic<bool>(false));
      after[rank] = trainer.largest().compiled().time->step_ms;
    });
  };
  fs::create_directories(dir_ / "run");
  train(roofline, predicted);
  EXPECT_NE(predicted[0], roofline[0]);
  EXPECT_EQ(predicted[1], predicted[0]);
  EXPECT_TRUE(state("plain") == state("run"));
  within[1] = "train.steps=9";
  train(later, later);
  EXPECT_EQ(later, predicted);
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

TEST_F(Ranks, HaveAQueueForExchangesWhereThatIsFaster) {
  test::as_ranks(2, [&](const std::shared_ptr<Group>& group) {
    for (const std::string shard : {"none", "optimizer", "weights"}) {
      const auto queues = [&](const std::string& link) {
        const TrainArgs a = args(
            "queue", {"train.bucket=2KiB", "train.shard=" + shard, "train.link=" + link}, group);
        Trainer trainer(a, make_task(a));
        return queue_count(trainer.largest().program());
      };
      EXPECT_EQ(queues("1gbe"), kExchangeQueue + 1) << shard;
      EXPECT_EQ(queues("none"), 1) << shard;
    }
  });
}

// Of two machines the second takes its exchanges for far slower than they are.
TEST_F(Ranks, TakeTheBucketOfTheFirst) {
  std::vector<std::string> own(2), all(2);
  test::as_ranks(2, [&](const std::shared_ptr<Group>& group) {
    const TrainArgs a = args("bucket", {"model.hidden=400"}, group);
    const auto task = make_task(a);
    Device device = cpu_device(1);
    device.group = group;
    CompileOptions options;
    options.exchange_device = exchange_device(a.config, device, nullptr);
    const auto rank = size_t(group->rank());
    if (rank == 1) {
      Links links = *options.exchange_device->links;
      links.inside.latency = 1;
      options.exchange_device->links = std::make_shared<const Links>(links);
    }
    KernelCache kernels(device);
    const auto lengths = task->bucket_lengths(0);
    own[rank] = *with_bucket(a.config, *task, lengths, kernels, options).train.bucket;
    all[rank] = *with_bucket(a.config, *task, lengths, kernels, options, group.get()).train.bucket;
  });
  EXPECT_NE(own[0], own[1]);
  EXPECT_EQ(all[0], own[0]);
  EXPECT_EQ(all[1], own[0]);
}

// Where a plan is chosen from a budget, no size fits as the step is recorded: the fastest counts.
TEST_F(Ranks, TakeTheFastestBucketUnderABudget) {
  test::as_ranks(2, [&](const std::shared_ptr<Group>& group) {
    const auto size = [&](const Sets& sets) {
      Sets all{"model.hidden=400"};
      all.insert(all.end(), sets.begin(), sets.end());
      const TrainArgs a = args("bucket", all, group);
      const auto task = make_task(a);
      Device device = cpu_device(1);
      device.group = group;
      CompileOptions options = compile_options(a.config.memory);
      options.exchange_device = exchange_device(a.config, device, nullptr);
      KernelCache kernels(device);
      return *with_bucket(a.config, *task, task->bucket_lengths(0), kernels, options).train.bucket;
    };
    const std::string free = size({});
    EXPECT_EQ(size({"memory.budget=1MB"}), free);
    EXPECT_NE(size({"memory.budget=1MB", "memory.auto=false"}), free) << "that of the fewest bytes";
  });
}

TEST_F(Ranks, TakeALinkThatIsNamedOrMeasured) {
  test::as_ranks(2, [&](const std::shared_ptr<Group>& group) {
    const auto said = [&](const std::string& link) {
      const TrainArgs a = args("link", {"train.link=" + link}, group);
      return Trainer(a, make_task(a)).device_line();
    };
    EXPECT_NE(said("auto").find("; ranks joined by threads, 2 ranks, "), std::string::npos);
    EXPECT_NE(said("1gbe").find("; ranks joined by Gigabit Ethernet"), std::string::npos);
    EXPECT_NE(said("nvlink4,100gbe").find("NVLink 4, between nodes 100 Gbit Ethernet"),
              std::string::npos);
    EXPECT_EQ(said("none").find("joined"), std::string::npos);
    try {
      said("2cans");
      ADD_FAILURE() << "a link that nobody knows";
    } catch (const UsageError& error) {
      const std::string what = error.what();
      EXPECT_EQ(what.find("train.link: "), 0U) << what;
      EXPECT_NE(what.find("1gbe"), std::string::npos) << "names those there are: " << what;
    }
  });
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
  fails("the steps that they recorded", of_another("model.dropout=0.3"));
  run("six", 1, three);
  run("three", 1, {three[0], "train.steps=3"});
  fails("the data", [&](int rank, const auto& group) {
    const TrainArgs a = args(rank == 2 ? "three" : "six", three, group);
    return std::make_unique<Trainer>(a, make_task(a));
  });
  run("slower", 1, {three[0], "train.lr=0.01"});
  fails("the weights in ", [&](int rank, const auto& group) {
    const TrainArgs a = args(rank == 2 ? "six" : "slower", three, group);
    return std::make_unique<Trainer>(a, make_task(a));
  });
}

// A rank that has another folder does not go by what lies there.
TEST_F(Ranks, GoByTheFilesOfTheFirst) {
  const auto said = [&](const std::string& out, const Sets& sets) -> std::string {
    fs::create_directories(dir_ / out);
    fs::create_directories(dir_ / (out + "-elsewhere"));
    try {
      test::as_ranks(2, [&](const std::shared_ptr<Group>& group) {
        const TrainArgs a = args(group->rank() == 0 ? out : out + "-elsewhere", sets, group);
        Trainer trainer(a, make_task(a));
        trainer.run(std::atomic<bool>(false));
        trainer.evaluate_best("test");
      });
    } catch (const UsageError& error) {
      return error.what();
    }
    return "they went on";
  };
  EXPECT_NE(said("best", {}).find("best-elsewhere/best.safetensors: no such file"),
            std::string::npos);
  EXPECT_NE(said("mean", {"train.average_last=2", "train.save_every=2"})
                .find("mean-elsewhere/average.safetensors: no such file"),
            std::string::npos);
}

// Images of which a validation stops the run.
class StoppedImages : public ImageTask {
 public:
  // `stop`: null where this rank is not told.
  StoppedImages(const Config& config, std::atomic<bool>* stop) : ImageTask(config), stop_(stop) {}
  Validation validate(ProgramSet& programs, const std::string& part, const Dealt& dealt) override {
    if (stop_) *stop_ = true;
    return ImageTask::validate(programs, part, dealt);
  }

 private:
  std::atomic<bool>* const stop_;
};

TEST_F(Ranks, ThatStopInAValidationDoItLater) {
  config_ = kImages;
  for (const int ranks : {1, 2}) {
    for (const std::string shard : {"none", "weights"}) {
      const Sets sets{"train.accumulate=2", "train.shard=" + shard, "train.steps=2"};
      const std::string name = std::to_string(ranks) + shard;
      SCOPED_TRACE(name);
      run("whole" + name, ranks, sets);
      fs::create_directories(dir_ / name);
      test::as_ranks(ranks, [&](const std::shared_ptr<Group>& group) {
        const TrainArgs a = args(name, sets, group);
        std::atomic<bool> stop{false};
        const bool told = !group || group->rank() == 1;
        Trainer trainer(a, std::make_unique<StoppedImages>(a.config, told ? &stop : nullptr));
        if (!group || group->rank() == 0) trainer.task().save_files(a.out);
        EXPECT_EQ(trainer.run(stop), "interrupted");
        EXPECT_EQ(trainer.state().step, 2);
        EXPECT_FALSE(trainer.state().has_best);
      });
      EXPECT_EQ(steps(name).size(), 2U) << "steps alone";
      run(name, ranks, sets);
      EXPECT_TRUE(state("whole" + name) == state(name));
      EXPECT_EQ(steps("whole" + name), steps(name));
    }
  }
}

}  // namespace
}  // namespace pal::test
