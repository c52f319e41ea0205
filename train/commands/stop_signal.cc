// The signals' handler.
#include "train/commands/stop_signal.h"

#include <array>
#include <csignal>
#include <cstddef>

namespace pal {
namespace {

// Set by a signal, read between steps.
std::atomic<bool> stop_requested{false};

void on_signal(int number) {
  if (!stop_requested.exchange(true)) return;
  std::signal(number, SIG_DFL);
  std::raise(number);
}

// oneDNN's products point the stack register into a buffer of the heap while they run. A handler on
// that stack would write below the buffer, over what is not its own; so it has its own stack. The
// kernel hands a process's signals to its main thread where it can, and that one calls this.
void give_handler_a_stack() {
  static std::array<std::byte, 64 << 10> bytes;
  const stack_t stack{.ss_sp = bytes.data(), .ss_flags = 0, .ss_size = bytes.size()};
  sigaltstack(&stack, nullptr);
}

}  // namespace

void forget_stop_signals() { stop_requested = false; }

const std::atomic<bool>& catch_stop_signals() {
  give_handler_a_stack();
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaction(signal, &action, nullptr);
  return stop_requested;
}

}  // namespace pal
