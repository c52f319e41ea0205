// Where the handler of stop signals writes.
#include "train/commands/stop_signal.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <vector>

namespace pal {
namespace {

constexpr std::byte kUntouched{0xA5};
constexpr ptrdiff_t kOwn = 512;  // bytes that take_signal and a system call may need themselves
std::vector<std::byte> other_stack;
ucontext_t outside, inside;
std::byte* free_end;  // below this nothing is in use when the signal comes
bool caught;

void take_signal() {
  free_end = static_cast<std::byte*>(__builtin_frame_address(0)) - kOwn;
  const std::atomic<bool>& stop = catch_stop_signals();
  // A function is found when it is called first, which takes more stack.
  const pid_t process = getpid(), thread = pid_t(syscall(SYS_gettid));
  // A loop, and no function with a frame of its own.
  for (volatile std::byte* at = other_stack.data(); at < free_end; ++at) *at = kUntouched;
  syscall(SYS_tgkill, process, thread, SIGTERM);
  caught = stop;
}

// A thread's stack register may point to the heap (oneDNN's products do this): a signal that comes
// then writes nothing there. Its frame alone is some thousand bytes.
TEST(StopSignal, WritesNothingOnTheStackThatItMeets) {
  other_stack.assign(size_t{256} << 10, kUntouched);
  ASSERT_EQ(getcontext(&inside), 0);
  inside.uc_stack = {.ss_sp = other_stack.data(), .ss_flags = 0, .ss_size = other_stack.size()};
  inside.uc_link = &outside;
  makecontext(&inside, take_signal, 0);
  struct sigaction before[3];
  constexpr int kSignals[] = {SIGTERM, SIGINT, SIGUSR1};
  for (int i = 0; i < 3; ++i) sigaction(kSignals[i], nullptr, &before[i]);
  forget_stop_signals();
  ASSERT_EQ(swapcontext(&outside, &inside), 0);
  for (int i = 0; i < 3; ++i) sigaction(kSignals[i], &before[i], nullptr);
  forget_stop_signals();
  EXPECT_TRUE(caught);
  ASSERT_GT(free_end - other_stack.data(), 1 << 16);
  const std::byte* lowest =
      std::find_if(other_stack.data(), free_end, [](std::byte each) { return each != kUntouched; });
  EXPECT_EQ(free_end - lowest, 0) << "bytes of the stack were written";
}

}  // namespace
}  // namespace pal
