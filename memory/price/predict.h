// What a step would take on a device, without running it: a roofline for every node (Williams et
// al. 2009). docs/prediction.md has the formulas in words, and what they were compared with.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/memory.h"
#include "core/op.h"
#include "core/program.h"
#include "memory/price/links.h"

namespace pal {

struct NodeTimes;  // memory/price/node_times.h

constexpr size_t kPhases = size_t(Phase::reload) + 1;

// A device as a prediction sees it; configs/devices holds those of real cards
// (train/config/profile.h reads them). Peaks are the vendor's; efficiencies say what part of a peak
// a good kernel reaches. A rate of 0: the device has none.
struct DeviceProfile {
  std::string name;  // "RTX 2080 Ti"
  bool measured =
      false;  // figures of the machine at hand (pal bench --profile), not of a data sheet
  // A device that the step is planned for and not run on: which layouts its kernels prefer is not
  // known, those that are known are of this machine's libraries.
  bool elsewhere = false;
  // flop/s of products of matrices, by the type of their operands. tf32 is used for f32 operands
  // where it is not 0, f32 for types without a rate of their own.
  double f32 = 0, tf32 = 0, f16 = 0, bf16 = 0;
  double vector = 0;  // flop/s of everything else, in f32
  double memory = 0;  // bytes/s
  double cache = 0;   // bytes/s of nodes that touch at most cache_bytes; 0: memory's
  int64_t cache_bytes = 0;
  double link = 0;       // bytes/s to host memory and back; 0: host memory is the device's own
  double link_both = 0;  // bytes/s of both directions together; 0: each has all of `link`
  int64_t capacity = 0;  // bytes, all of them
  double launch = 0;     // seconds that a node costs beyond its work
  // Seconds that a kernel of a GPU costs beyond its work, in a recorded step and when it is started
  // alone; 0: launch's.
  double graph_kernel = 0, stream_kernel = 0;
  double units = 1;     // streaming multiprocessors, cores: what shares a node out
  double tile = 4096;   // elements of a product's result that one unit makes at a time
  double piece = 2048;  // likewise of nodes that are no products
  // Where `units` are a processor's threads: rates of one of them (0: its part of what all do), and
  // the seconds it costs to share a node out.
  double thread_f32 = 0, thread_vector = 0, thread_memory = 0, thread_cache = 0;
  double fork = 0;
  double matmul_efficiency = 1, memory_efficiency = 1, link_efficiency = 1;
  double busy = 0, idle = 0;  // watts while it computes, and while it waits; 0: not known
  // What joins it to the devices of the other ranks; null: exchanges take no time on the way.
  std::shared_ptr<const Links> links = nullptr;
  std::shared_ptr<const NodeTimes> times =
      nullptr;  // measured, in place of what follows from these

  // Of the capacity, what a plan may need: a card's context and libraries want memory too.
  int64_t room() const;
};

// The device that a job sees which has a share (0 to 1) of its units and no more. A rate falls as a
// power of the share, through that of all units and that of one thread.
DeviceProfile part_of(const DeviceProfile& device, double share);

// What each of so many ranks has of a measured processor that they divide among them and all work
// on at once: never more than its part of what all threads do. Other devices are a rank's own.
DeviceProfile part_of_ranks(const DeviceProfile& device, int64_t ranks);

// A node is a product of matrices, for choosing its rate, when it does at least so many flops for
// byte that it moves. Elementwise and row-wise operators stay below 6 in f32, products of any
// useful size above 20; where the two meet, memory is what bounds a node, on every card.
constexpr double kProductIntensity = 12;
// A product with few results and long sums is cut along the sums too, into pieces of at least this.
constexpr double kSumPiece = 512;

// What a node does, as far as time depends on it.
struct Work {
  double flops = 0;
  double bytes = 0;                 // in the device's memory
  double host_bytes = 0;            // over the host link
  double link_bytes = 0;            // that a rank sends to others: Cost::link
  double exchanged = 0;             // bytes of the tensors that they are of, whole
  int64_t inside = 0, between = 0;  // Cost's
  bool to_each = false;             // Cost's
  double results = 0;               // elements of the largest output
  double elements = 0;              // of the largest output or operand, of which as much as is read
  DType type = DType::f32;          // of the operands: 16 bits where two of them have 16
  bool runs = true;                 // false: a view in place, of which nothing is left
};
// Without `storages`, views and stacks count as in place; with them, what they must copy is
// counted.
Work work_of(const Program& program, NodeId node, const Storages* storages = nullptr);

// Whether it is a product of matrices, by the flops for every byte.
bool is_product(const Work& work);
// flop/s that the vendor gives for such work.
double peak_rate(const Work& work, const DeviceProfile& device);

// The part of a product's peak that its shape lets it reach: its result is cut into tiles (and its
// sums into pieces), which the units take in turns; in the last turn some may have nothing to do.
//   pieces = ceil(results / tile) * max(1, floor(sum / kSumPiece)), sum = flops / (2 results)
//   occupancy = pieces / (units * ceil(pieces / units))
// Of nodes that are no products, which may be sums, pieces = ceil(elements / piece).
double pieces_of(const Work& work, const DeviceProfile& device);
double occupancy(const Work& work, const DeviceProfile& device);

// max(flops / rate, bytes / bandwidth, host bytes / link, exchange_seconds()) + launch, in
// milliseconds. Where a
// thread's rates are known, a node of few pieces has those of as many threads; a node of more than
// one piece costs the fork.
double time_ms(const Work& work, const DeviceProfile& device);

struct Prediction {
  double step_ms = 0;                      // until the last queue is done
  std::array<double, kPhases> by_phase{};  // milliseconds of the nodes of a phase, on any queue
  ByNode<double> node_ms, end_ms;          // what it takes; when it is done
  double flops = 0, bytes = 0, host_bytes = 0, link_bytes = 0;

  double of(Phase phase) const { return by_phase[size_t(phase)]; }
};

// Every queue runs its nodes in order, and each node once the ones that it waits for are done.
// Where the directions of the link share it (link_both), copies under way at once take longer.
// Exchanges between ranks stand in the queue that their node names: what others do in the meantime
// they do not see. Queues of compute share the device (memory/price/side_by_side.h). Takes time
// linear in the program; about 5 ms for 20,000 nodes.
Prediction predict(const Program& program, const DeviceProfile& device,
                   const Storages* storages = nullptr);
// When the step would end if its nodes took so long, in milliseconds.
double step_ms_of(const Program& program, const ByNode<double>& node_ms);

// A step's predicted time, as plans report it.
struct StepTime {
  std::string profile;    // the device's name
  bool measured = false;  // the profile's figures are; the time is predicted all the same
  double step_ms = 0;
  // What the passes that trade time for bytes (Pass::trades_time) add, as a fraction of the
  // step without them.
  double overhead = 0;
};

}  // namespace pal
