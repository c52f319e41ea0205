// Faults of system calls while a run writes: whatever call fails, and wherever the run is killed,
// the checkpoint is whole, and the run that goes on ends with the same bits.
#include <algorithm>
#include <cstdio>
#include <map>
#include <random>

#include "tests/support/syscall_faults.h"
#include "tests/train/loop/kinds_of_runs.h"

namespace pal {
namespace {

using test::Fault;

constexpr Fault kFaults[] = {Fault::kill,      Fault::full,      Fault::broken,
                             Fault::read_only, Fault::interrupt, Fault::part};
constexpr const char* kFaultNames[] = {"none",      "killed",      "disk full",   "EIO",
                                       "read-only", "interrupted", "half written"};

class SystemCallFaults : public KindOfRunTest {
 protected:
  test::TracedRun traced(Fault fault, int64_t call) {
    std::vector<std::string> all = arguments(4, 2);
    all.insert(all.begin(), PAL_BINARY);
    return test::run_with_fault(all, dir_, dir_ / "stdout.txt", dir_ / "stderr.txt",
                                {fs::canonical(dir_) / "run", fault, call});
  }
  void try_fault(Fault fault, int64_t call, const std::map<std::string, std::string>& expected) {
    fs::remove_all(run());
    const test::TracedRun faulty = traced(fault, call);
    const std::string said = read_file(dir_ / "stderr.txt");
    const bool harmless = fault == Fault::interrupt || fault == Fault::part;
    if (fault == Fault::kill) {
      // A text with times in it may be a write shorter this time.
      const bool met = int64_t(faulty.calls.size()) > call;
      EXPECT_EQ(faulty.status, met ? -SIGKILL : 0) << said;
    } else if (harmless) {
      EXPECT_EQ(faulty.status, 0) << said;
    } else {
      EXPECT_TRUE(faulty.status == 0 || faulty.status == 1 || faulty.status == 2)
          << faulty.status << said;
      if (faulty.status != 0) {
        EXPECT_NE(said.find("pal: "), std::string::npos) << said;
        EXPECT_NE(said.find("run"), std::string::npos) << "names no file: " << said;
      }
    }
    ASSERT_NO_THROW(check_checkpoints());
    if (!harmless) {
      const RunResult after = pal(arguments(4, 2));
      ASSERT_EQ(after.status, 0) << after.err << "\nafter " << said;
    }
    expect_checkpoints(expected);
  }
};

TEST_P(SystemCallFaults, LoseNothing) {
  const char* asked = std::getenv("PAL_TEST_FAULTS");
  if (!asked && GetParam().name != "nmt") {
    GTEST_SKIP() << "PAL_TEST_FAULTS=N (or all) tries this trainer too, at N calls";
  }
  if (!test::can_trace_faults()) GTEST_SKIP() << "this machine allows no tracing of programs";
  const test::TracedRun whole = traced(Fault::none, 0);
  ASSERT_EQ(whole.status, 0) << read_file(dir_ / "stderr.txt");
  const auto expected = checkpoints();
  ASSERT_GE(expected.size(), 2u);
  std::vector<std::pair<Fault, int64_t>> cases;
  for (const Fault fault : kFaults) {
    for (size_t call = 0; call < whole.calls.size(); ++call)
      cases.push_back({fault, int64_t(call)});
  }
  std::mt19937 random(11);
  std::shuffle(cases.begin(), cases.end(), random);
  if (!asked || asked != std::string("all")) {
    cases.resize(std::min(cases.size(), size_t(asked ? std::atoi(asked) : 12)));
  }
  for (const auto& [fault, call] : cases) {
    SCOPED_TRACE(std::string(kFaultNames[int(fault)]) + " at call " + std::to_string(call) + ": " +
                 whole.calls[size_t(call)]);
    try_fault(fault, call, expected);
    if (HasFatalFailure()) return;
  }
  std::printf("%zu faults at %zu calls\n", cases.size(), whole.calls.size());
}

// A write to each file there is, interrupted once: nobody notices.
TEST_P(SystemCallFaults, InterruptedWritesAreBegunAnew) {
  if (GetParam().name != "nmt") GTEST_SKIP() << "the same files";
  if (!test::can_trace_faults()) GTEST_SKIP() << "this machine allows no tracing of programs";
  const test::TracedRun whole = traced(Fault::none, 0);
  ASSERT_EQ(whole.status, 0) << read_file(dir_ / "stderr.txt");
  const auto expected = checkpoints();
  std::map<std::string, int64_t> writes;  // the last one of each
  for (size_t call = 0; call < whole.calls.size(); ++call) {
    if (whole.calls[call].starts_with("write ")) writes[whole.calls[call]] = int64_t(call);
  }
  EXPECT_TRUE(writes.contains("write metrics.jsonl"));
  EXPECT_GE(writes.size(), 3u);
  for (const auto& [name, call] : writes) {
    SCOPED_TRACE(name);
    try_fault(Fault::interrupt, call, expected);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, SystemCallFaults, testing::ValuesIn(trainers()), name_of_kind);

}  // namespace
}  // namespace pal
