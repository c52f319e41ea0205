// The signals' handler.
#include "train/commands/stop_signal.h"

#include <csignal>

namespace pal {
namespace {

// Set by a signal, read between steps.
std::atomic<bool> stop_requested{false};

void on_signal(int signal) {
  if (!stop_requested.exchange(true)) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

void forget_stop_signals() { stop_requested = false; }

const std::atomic<bool>& catch_stop_signals() {
  std::signal(SIGTERM, on_signal);
  std::signal(SIGINT, on_signal);
  std::signal(SIGUSR1, on_signal);
  return stop_requested;
}

}  // namespace pal
