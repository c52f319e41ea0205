// Runs that are killed at random moments, again and again, and go on: whoever trains, and however
// its memory is managed, they end with the bits of a run that nobody killed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/train/loop/kinds_of_runs.h"

namespace pal {
namespace {

constexpr int kKilledSteps = 12, kDefaultKills = 25;

std::vector<KindOfRun> kinds_killed() {
  std::vector<KindOfRun> all = trainers();
  const auto in = [&](const char* name, std::vector<std::string> settings) {
    settings.insert(settings.end(),
                    {"model.depth=8", "data.valid_count=20", "train.batch_size=16"});
    all.push_back(kind_of_run(name, "resnet_small", settings));
  };
  all.push_back(kind_of_run("tiny", "tiny.yaml", {}));
  in("delta", {"memory.budget=4500KiB", "memory.manager=delta"});
  in("dtr", {"memory.budget=5000KiB", "memory.manager=dtr"});
  in("swapped", {"memory.budget=4500KiB", "memory.swap=planned"});
  in("budget", {"memory.budget=5000KiB", "memory.profile_steps=0"});
  in("measured", {"memory.budget=5000KiB", "memory.profile_steps=2"});
  in("averaged", {"train.average_last=2"});
  return all;
}

class KilledRuns : public KindOfRunTest {
 protected:
  std::vector<std::string> rows() {
    std::vector<std::string> all = steps(run());
    if (GetParam().name != "measured") return all;
    for (std::string& text : all) {  // each session's plan is by the times that it measured
      nlohmann::json row = nlohmann::json::parse(text);
      row.erase("peak_bytes"), text = row.dump();
    }
    return all;
  }
};

TEST_P(KilledRuns, EndWithTheSameBits) {
  const char* asked = std::getenv("PAL_TEST_KILLS");
  if (!asked && GetParam().name != "tiny") {
    GTEST_SKIP() << "PAL_TEST_KILLS=N kills this one too, N times";
  }
  const int kills = asked ? std::max(1, std::atoi(asked)) : kDefaultKills;
  const auto timed = [&](int steps) {
    fs::remove_all(run());
    const auto begin = std::chrono::steady_clock::now();
    const RunResult r = pal(arguments(steps, 1));
    EXPECT_EQ(r.status, 0) << r.err;
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
        .count();
  };
  timed(1);  // a front is made once, which may take longer than the run
  const double whole_ms = timed(kKilledSteps);
  ASSERT_FALSE(HasFailure());
  const auto expected = checkpoints();
  const std::vector<std::string> expected_rows = rows();
  ASSERT_GE(expected.size(), 2u);
  std::mt19937 random(7);
  std::uniform_real_distribution<double> moment(0.01 * whole_ms, whole_ms);
  int killed = 0, runs = 0;
  while (killed < kills) {
    fs::remove_all(run());
    RunResult last{.status = -SIGKILL, .out = "", .err = ""};
    while (last.status == -SIGKILL) {
      // Then it may go on to its end, even where it has to plan anew for longer than that.
      last = pal(arguments(kKilledSteps, 1), SIGKILL, killed < kills ? int(moment(random)) : -1);
      killed += last.status == -SIGKILL;
      ASSERT_NO_THROW(check_checkpoints()) << "after " << killed << " kills";
    }
    ASSERT_EQ(last.status, 0) << last.err << "after " << killed << " kills";
    expect_checkpoints(expected);
    EXPECT_EQ(rows(), expected_rows);
    if (HasFailure()) return;
    ++runs;
  }
  std::printf("killed %d times in %d runs\n", killed, runs);
}

INSTANTIATE_TEST_SUITE_P(All, KilledRuns, testing::ValuesIn(kinds_killed()), name_of_kind);

}  // namespace
}  // namespace pal
