// How ranks begin and end: what differs is named, the first's files count, and a validation that
// was stopped is done later.
#include "core/error.h"
#include "tests/train/loop/rank_runs.h"
#include "train/images/image_task.h"

namespace pal::test {
namespace {

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
