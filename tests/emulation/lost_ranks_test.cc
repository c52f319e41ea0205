// What is told of exchanges that fail or do not end, by NCCL with one rank and by the watcher
// alone.
#include "core/ranks/lost_ranks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <thread>

#include "core/cuda/nccl_group.h"
#include "tests/emulation/fixture.h"
#include "tests/emulation/nccl_end.h"
#include "tests/emulation/one_rank.h"

namespace pal::test {
namespace {

using namespace std::chrono_literals;

// What it throws; empty: nothing.
template <class F> std::string error_of(F f) {
  try {
    f();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

class LostRank : public OnGpu {
 protected:
  void prepare() override {
    device_ = cuda_device();
    data_ = gpu().allocate(Space::device, 2 * kHalf);
  }
  void TearDown() override {
    emulation::at_nccl_end = nullptr;
    group_.reset();
    if (data_) gpu().release(Space::device, data_);
    device_ = {};
    OnGpu::TearDown();
  }
  Accelerator& gpu() const { return *device_.accelerator; }
  // Whoever is not woken up ends the process, so that nobody waits for ever.
  void join(double timeout) {
    group_ = one_rank(device_, {.timeout = timeout, .lost = [](const std::string& why) {
                                  std::fprintf(stderr, "%s\n", why.c_str());
                                  std::_Exit(1);
                                }});
  }
  void exchange() {
    const Exchanged rows[] = {{data_, data_ + kHalf, {12000, 12000}},
                              {data_ + 12000, data_ + kHalf + 12000, {8000, 8064}}};
    group_->all_to_all(rows, {.stream = gpu().stream(kComputeQueue)});
  }

  static constexpr int64_t kHalf = 20480;
  Device device_;
  std::byte* data_ = nullptr;
  std::shared_ptr<DeviceGroup> group_;
};

// Every call is tried as the ranks join. What NCCL had of the memory is given back.
TEST_F(LostRank, IsToldWhichTrialFailed) {
  const int64_t free = gpu().free_bytes();
  int trial = 0;
  for (const char* said : {"all_to_all of 16384 bytes", "all_gather of 16384 bytes",
                           "all_reduce of 16384 bytes", "reduce_scatter of 32764 bytes"}) {
    const Variable fault("PAL_EMULATED_NCCL", "error=" + std::to_string(trial++) + ":0");
    EXPECT_EQ(error_of([&] { join(10); }), "NCCL: unhandled cuda error, in or before " +
                                               std::string(said) + kGoOnFromCheckpoint);
    EXPECT_EQ(gpu().free_bytes(), free);
  }
  EXPECT_EQ(error_of([&] { gpu().synchronize(); }), "") << "nobody is lost any more";
}

TEST_F(LostRank, IsToldWhichExchangeFailed) {
  join(10);
  const Variable fault("PAL_EMULATED_NCCL", "error=4:0");  // behind the trials
  exchange();
  const std::string why = error_of([&] { gpu().synchronize(); });
  EXPECT_NE(why.find(", in or before all_to_all of 20000 bytes"), std::string::npos) << why;
  EXPECT_EQ(error_of([&] { exchange(); }), why);
  group_.reset();
  EXPECT_EQ(error_of([&] { gpu().synchronize(); }), "");
}

// After an error of its own: nobody looks at the communicator any more as it is given up.
TEST_F(LostRank, IsNobodyWhoFailsByItself) {
  const int64_t free = gpu().free_bytes();
  emulation::at_nccl_end = [] { std::this_thread::sleep_for(120ms); };
  emulation::settings().good_allocations = 1;  // NCCL's
  const std::string why = error_of([&] { join(10); });
  EXPECT_NE(why.find("out of memory"), std::string::npos) << why;
  EXPECT_EQ(gpu().free_bytes(), free);
}

// Time counts where an exchange is under way, or NCCL begins or ends.
TEST_F(LostRank, IsNobodyWithNothingToExchange) {
  join(0.3);
  exchange();
  gpu().synchronize();
  std::this_thread::sleep_for(400ms);
  ASSERT_EQ(error_of([&] { exchange(), gpu().synchronize(); }), "");
  std::string said;
  emulation::at_nccl_end = [&] {
    for (int n = 0; n < 500 && said.empty(); ++n) {
      std::this_thread::sleep_for(10ms);
      said = error_of([&] { gpu().synchronize(); });
    }
  };
  group_.reset();
  EXPECT_EQ(said.find("some rank did not answer for 0 s, in the end of NCCL"), 0u) << said;
}

// A communicator that is nowhere, and what it says of itself.
std::atomic<NcclStatus> status;
std::atomic<int> given_up;
NcclComm no_communicator() {
  static char place;
  return reinterpret_cast<NcclComm>(&place);
}
const Nccl& nccl() {
  static const Nccl table = [] {
    Nccl t{};
    t.async_error = [](NcclComm, NcclStatus* found) {
      *found = status;
      return NcclStatus::success;
    };
    t.error_string = [](NcclStatus) { return "it is broken"; };
    t.abort = [](NcclComm) {
      ++given_up;
      return NcclStatus::success;
    };
    return t;
  }();
  return table;
}

class Watcher : public testing::Test {
 protected:
  Watcher() { status = NcclStatus::success, given_up = 0; }
  NcclWatcher::Watched watched(double timeout, double wake) const {
    return {.nccl = nccl(),
            .marks = &marks_,
            .exchange = [] { return "a sum"; },
            .timeout = timeout,
            .wake = wake};
  }
  ExchangeMarks marks_{};
  std::shared_ptr<LostRanks> lost_ = std::make_shared<LostRanks>();
};

// Whoever is told may use the watcher, and so may others meanwhile.
TEST_F(Watcher, TellsWhereNobodyWakesUp) {
  std::promise<std::string> told;
  std::promise<void> answered;
  bool others_went_on = false;
  status = NcclStatus::remote_error;
  NcclWatcher watcher(watched(60, 0.01), lost_, [&](const std::string& why) {
    told.set_value(why);
    others_went_on = answered.get_future().wait_for(5s) == std::future_status::ready;
  });
  EXPECT_TRUE(watcher.watch(no_communicator()));
  std::future<std::string> why = told.get_future();
  ASSERT_EQ(why.wait_for(5s), std::future_status::ready);
  EXPECT_EQ(why.get(), std::string("NCCL: it is broken, in or before a sum") + kGoOnFromCheckpoint);
  EXPECT_FALSE(watcher.watch(nullptr)) << "it is given up";
  answered.set_value();
  watcher.stop();
  EXPECT_TRUE(others_went_on);
  EXPECT_EQ(given_up, 1);
}

TEST_F(Watcher, TellsNobodyWhoEnds) {
  bool told = false;
  marks_.begun = 1;
  NcclWatcher watcher(watched(0.01, 60), lost_, [&](const std::string&) { told = true; });
  watcher.watch(no_communicator());
  for (int n = 0; n < 500 && given_up == 0; ++n) std::this_thread::sleep_for(10ms);
  watcher.stop();
  EXPECT_EQ(given_up, 1);
  EXPECT_FALSE(told);
  ASSERT_TRUE(lost_->is_set());
  EXPECT_EQ(lost_->why().find("some rank did not answer for 0 s, in a sum"), 0u) << lost_->why();
}

}  // namespace
}  // namespace pal::test
