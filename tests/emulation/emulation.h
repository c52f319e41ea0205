// What tests may ask of the emulated GPU, and set.
#pragma once
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace pal::emulation {

// The order in which a block's threads, a grid's blocks and a device's streams take turns. What is
// right is right in any.
enum class Order { forward, backward, shuffled };

struct Settings {
  Order order = Order::forward;
  int devices = 1;  // 0: no GPU
  int driver = 13000, major = 9, minor = 0;
  int64_t memory = int64_t(1) << 34;  // bytes of it
  int64_t context = 0;                // of which nobody can have these
  bool cudnn = true;                  // the library is found
  bool cudnn_layers = true;           // and takes recurrent layers
  int cudnn_reserve = 6;              // of them H numbers that it keeps for a step and row
  bool libraries_recorded = true;     // their calls can be
  bool epilogues = true;              // cuBLASLt has algorithms for more than a bias
  bool fusions = true;                // cuDNN has engines for graphs of several operations
  bool same_engines = true;           // and the same with relu as without
  bool masks_as_told = true;          // and reads masks from the lowest bit of a byte on
  uint32_t blas_boundary = 2;         // and for operands on such boundaries, or wider ones
  int64_t blas_workspace = 192;       // and wants so many bytes of scratch memory
  // Its algorithms for a product, the first one first: by how much a product by each advances the
  // clock of events. Below 0: it is refused when it is called.
  std::vector<int64_t> blas_ms = {0};
  // Likewise cuDNN's engines that may be taken, of weight gradients.
  std::vector<int64_t> dnn_ms = {0, 0};
  int multiprocessors = 1;
  // Device memory holds ones at first and takes no memory until it is written; large copies and
  // fills are not done. For counting what kernels do (counting.h).
  bool untouched = false;
  // So many more succeed, the next one fails; -1: none does.
  int64_t good_copies = -1, good_allocations = -1, good_pins = -1, good_graphs = -1;
  // So many more times does a stream wait for an event as it is told, the next time it does not.
  int64_t good_waits = -1;
};
Settings& settings();
// Of the thread that looks: so many more launches and replays succeed, the next one fails; -1: none
// does.
inline thread_local int64_t good_launches = -1;
// cuBLASLt's sums have another order for other boundaries and epilogues, as a library's may, and
// weight gradients of cuDNN's second engine another one than of its first. Else they are exact, for
// comparisons over many steps.
inline bool varied_sums = false;
// The device to oneself, for as long as the lock is held.
std::unique_lock<std::recursive_mutex> hold();

bool real();  // there is no emulation: the tests run on hardware (tests/gpu)

// (file, line) of every launch so far, without folders.
const std::set<std::pair<std::string, int>>& launches();
int64_t kernels_run();       // grids that ran
int64_t graphs_run();        // replays
int64_t graphs_alive();      // that could be replayed
int64_t convolutions_run();  // cuDNN's, asked for
int64_t layers_run();        // likewise, recurrent layers' calls
int64_t pending_work();      // queued and not done
int64_t waits_made();        // times that the host has waited for work
void advance(int64_t ms);    // the clock of events
int64_t preferred_work();    // queued on streams of the highest priority so far

}  // namespace pal::emulation
