// What ranks plan by: the times of the first, the link that joins them, buckets; and the order of
// their exchanges.
#include "core/error.h"
#include "core/order.h"
#include "memory/schedule/queue_exchanges.h"
#include "ops/exchange/exchange.h"
#include "tests/train/loop/rank_runs.h"
#include "train/loop/choose_bucket.h"
#include "train/loop/exchange_device.h"
#include "train/loop/run_options.h"

namespace pal::test {
namespace {

// Whose times are rank 0's, at once, and again when the run goes on.
TEST_F(Ranks, PlanAnewByTheTimesOfTheFirst) {
  config_ = kImages;
  const Sets sets{"train.batch_size=32", "train.steps=8"};
  run("plain", 1, sets);
  Sets within = sets;
  within.push_back("memory.budget=" + std::to_string(planned("plain") / 4 * 3));
  within.emplace_back("memory.profile_steps=2");
  std::vector<double> predicted(2), roofline(2), later(2);
  std::string out = "run";
  bool alike = true;
  const auto train = [&](std::vector<double>& before, std::vector<double>& after) {
    fs::create_directories(dir_ / out);
    test::as_ranks(2, [&](const std::shared_ptr<Group>& group) {
      Sets own = within;
      if (!alike && group->rank() == 1) own.emplace_back("device.threads=2");
      const TrainArgs a = args(out, own, group);
      Trainer trainer(a, make_task(a));
      const auto rank = size_t(group->rank());
      before[rank] = trainer.largest().compiled().time->step_ms;
      if (!a.resume && rank == 0) trainer.task().save_files(a.out);
      trainer.run(std::atomic<bool>(false));
      after[rank] = trainer.largest().compiled().time->step_ms;
    });
  };
  train(roofline, predicted);
  EXPECT_NE(predicted[0], roofline[0]);
  EXPECT_EQ(predicted[1], predicted[0]);
  EXPECT_TRUE(state("plain") == state("run"));
  within[1] = "train.steps=9";
  train(later, later);
  EXPECT_EQ(later, predicted);
  // Of other threads on each rank: the same times.
  within[1] = "train.steps=8", out = "mixed", alike = false;
  train(roofline, later);
  EXPECT_NE(later[1], roofline[1]);
  EXPECT_TRUE(state("plain") == state("mixed"));
}

// Ranks meet other lengths of sentences, so one has timed its steps enough before another has.
TEST_F(Ranks, PlanAnewAtOneMoment) {
  const Sets sets{"train.steps=12", "train.valid_every=100", "data.target_vocab_size=1500",
                  "train.accumulate=2"};
  run("plain", 2, sets);
  Sets within = sets;
  within.push_back("memory.budget=" + std::to_string(planned("plain") / 20 * 19));
  within.emplace_back("memory.profile_steps=2");
  run("run", 2, within);
  EXPECT_TRUE(state("plain") == state("run"));
}

TEST_F(Ranks, HaveAQueueForExchangesWhereThatIsFaster) {
  test::as_ranks(2, [&](const std::shared_ptr<Group>& group) {
    for (const std::string shard : {"none", "optimizer", "weights"}) {
      const auto queues = [&](const std::string& link) {
        Sets sets{"train.bucket=2KiB", "train.shard=" + shard, "train.link=" + link};
        // Of so few bytes what a queue takes may be more than a tenth, which has to be asked for.
        if (shard == "weights") sets.push_back("memory.budget=64MB");
        const TrainArgs a = args("queue", sets, group);
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

// A bucket's second sums wait for its first: those of the next bucket begin in between.
TEST_F(Ranks, TakeTurnsWithTheLevelsOfBuckets) {
  for (const char* shard : {"none", "optimizer"}) {
    test::as_ranks(
        4,
        [&](const std::shared_ptr<Group>& group) {
          const TrainArgs a = args(
              "turns",
              {"train.bucket=2KiB", "train.clip_norm=null", std::string("train.shard=") + shard},
              group);
          Trainer trainer(a, make_task(a));
          std::string levels;
          for (const Node& node : trainer.largest().program().nodes) {
            if (node.op != &all_to_all_op) continue;
            levels += node.attrs.as<AllToAllAttrs>().level == Level::inside ? 'i' : 'b';
          }
          ASSERT_GT(levels.size(), 20U);
          // i ib ib ib .. b
          for (size_t k = 0; k < levels.size(); ++k) {
            const bool last = k + 1 == levels.size();
            EXPECT_EQ(levels[k], last || (k > 0 && k % 2 == 0) ? 'b' : 'i') << shard << levels;
          }
        },
        2);
  }
}

}  // namespace
}  // namespace pal::test
