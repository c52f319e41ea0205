// SIGTERM, SIGINT, and SIGUSR1, which mpirun passes on: the first asks runs to stop between steps,
// a second ends the process at once.
#pragma once
#include <atomic>

namespace pal {

// What an earlier command of this process was asked is not asked of the next.
void forget_stop_signals();
// Takes these signals from now on. What it returns turns true when one comes.
const std::atomic<bool>& catch_stop_signals();

}  // namespace pal
