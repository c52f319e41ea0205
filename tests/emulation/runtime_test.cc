// The emulation's streams and graphs: as late, and in as many orders, as CUDA allows.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <vector>

#include "tests/emulation/emulation.h"

namespace pal::test {
namespace {

using emulation::Order;

class Runtime : public testing::Test {
 protected:
  void SetUp() override {
    emulation::settings() = {};
    for (cudaStream_t& s : streams_) cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, 0);
    for (cudaEvent_t& e : events_) cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
  }
  void TearDown() override {
    emulation::settings() = {};
    for (cudaStream_t s : streams_) cudaStreamDestroy(s);
    for (cudaEvent_t e : events_) cudaEventDestroy(e);
  }
  void note(int stream, int number) {
    emulation::enqueue(streams_[size_t(stream)], [=, this] { done_.push_back(number); });
  }
  cudaError_t captured(const std::function<cudaError_t()>& call) {
    cudaGraph_t graph = nullptr;
    cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeThreadLocal);
    EXPECT_NE(call(), cudaSuccess);
    const cudaError_t status = cudaStreamEndCapture(streams_[0], &graph);
    cudaGetLastError();
    return status;
  }

  std::array<cudaStream_t, 3> streams_{};
  std::array<cudaEvent_t, 3> events_{};
  std::vector<int> done_;
};

// cudaMemset is work of the stream that has no name, and other streams pass it.
TEST_F(Runtime, FillsWhenTheLegacyStreamIsWaitedFor) {
  char* p = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&p), 16), cudaSuccess);
  bool filled = true;
  cudaMemset(p, 0, 16);
  emulation::enqueue(streams_[0], [&] { filled = p[0] == 0; });
  cudaStreamSynchronize(streams_[0]);
  EXPECT_FALSE(filled);
  cudaStreamSynchronize(nullptr);
  emulation::enqueue(streams_[0], [&] { filled = p[0] == 0; });
  cudaStreamSynchronize(streams_[0]);
  EXPECT_TRUE(filled);
  cudaFree(p);
}

TEST_F(Runtime, CaptureRefusesWhatCannotBeRecorded) {
  static char host[16];
  static void* p = nullptr;
  const std::vector<std::function<cudaError_t()>> calls = {
      [&] { return cudaMalloc(&p, 16); },
      [&] { return cudaFree(host); },
      [&] { return cudaMallocHost(&p, 16); },
      [&] { return cudaMemset(host, 0, 16); },
      [&] { return cudaDeviceSynchronize(); },
      [&] { return cudaStreamSynchronize(streams_[1]); },
      [&] { return cudaEventSynchronize(events_[0]); },
      [&] { return cudaStreamWaitEvent(streams_[0], events_[0], 0); },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(captured(calls[i]), cudaErrorStreamCaptureInvalidated) << "call " << i;
  }
  note(0, 1);
  cudaStreamSynchronize(streams_[0]);
  EXPECT_EQ(done_, std::vector<int>{1}) << "the stream works as before";
}

// 0, then 1 2 on one stream beside 3 4 on another, then 5: what the events order comes in order,
// and no more than that.
TEST_F(Runtime, ReplaysBranchesInAnyOrder) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeThreadLocal);
  note(0, 0);
  cudaEventRecord(events_[0], streams_[0]);
  cudaStreamWaitEvent(streams_[1], events_[0], 0);
  note(0, 1), note(0, 2);
  note(1, 3), note(1, 4);
  cudaEventRecord(events_[1], streams_[1]);
  cudaStreamWaitEvent(streams_[0], events_[1], 0);
  note(0, 5);
  ASSERT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&ready, graph, 0), cudaSuccess);
  cudaGraphDestroy(graph);
  std::set<std::vector<int>> orders;
  for (const Order order : {Order::forward, Order::backward, Order::shuffled}) {
    emulation::settings().order = order;
    for (int n = 0; n < 40; ++n) {
      done_.clear();
      cudaGraphLaunch(ready, streams_[0]);
      cudaStreamSynchronize(streams_[0]);
      orders.insert(done_);
      const auto at = [&](int x) { return std::find(done_.begin(), done_.end(), x); };
      EXPECT_TRUE(done_.size() == 6 && done_[0] == 0 && done_[5] == 5);
      EXPECT_TRUE(at(1) < at(2) && at(3) < at(4));
    }
  }
  EXPECT_EQ(orders.size(), 6);
  cudaGraphExecDestroy(ready);
}

TEST_F(Runtime, CaptureRefusesABranchThatIsNotJoined) {
  cudaGraph_t graph = nullptr;
  cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeThreadLocal);
  note(0, 0);
  cudaEventRecord(events_[0], streams_[0]);
  cudaStreamWaitEvent(streams_[1], events_[0], 0);
  note(1, 1);
  cudaEventRecord(events_[1], streams_[1]);
  note(1, 2);  // behind what the first stream waits for
  cudaStreamWaitEvent(streams_[0], events_[1], 0);
  EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_TRUE(done_.empty());
}

}  // namespace
}  // namespace pal::test
