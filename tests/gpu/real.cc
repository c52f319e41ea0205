// The tests of tests/emulation that also run on a real GPU: what they ask of the emulation.
#include "tests/emulation/emulation.h"

namespace pal {

void on_launch(const char* file, int line);  // core/cuda/launch.h: told of every launch

namespace {
std::set<std::pair<std::string, int>>& list() {
  static std::set<std::pair<std::string, int>> one;
  return one;
}
int64_t grids = 0;
std::mutex in_turn;  // jobs launch from threads of their own
}  // namespace

void on_launch(const char* file, int line) {
  const std::string path = file;
  const std::lock_guard lock(in_turn);
  list().emplace(path.substr(path.find_last_of('/') + 1), line);
  ++grids;
}

namespace emulation {
Settings& settings() {  // the hardware has an order of its own
  static Settings one;
  return one;
}
const std::set<std::pair<std::string, int>>& launches() { return list(); }
int64_t kernels_run() { return grids; }
int64_t graphs_run() { return 0; }        // the driver does not count
int64_t graphs_alive() { return 0; }      // nor these
int64_t convolutions_run() { return 0; }  // nor cuDNN
int64_t layers_run() { return 0; }
int64_t pending_work() { return 0; }    // nor this
int64_t waits_made() { return 0; }      // nor these
int64_t preferred_work() { return 0; }  // nor this
bool real() { return true; }
}  // namespace emulation
}  // namespace pal
