// The step as a sketch asks about it (memory/front/sketch.h): who makes and reads which maps, what
// outputs may take whose bytes, what every node takes, and all that no choice changes.
#pragma once
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "core/lists.h"
#include "memory/front/fused_clones.h"
#include "memory/price/predict.h"
#include "memory/recompute/step_view.h"
#include "memory/storages/storages.h"

namespace pal {

// When something runs: a node by its position in the order, or a clone right before one. Clones
// before the same node run in the order of the nodes that they are of. Places compare as they run.
using Place = int64_t;
constexpr int32_t kNodeItself = std::numeric_limits<int32_t>::max();
constexpr Place place_of_node(int32_t position) { return Place{position} << 32 | kNodeItself; }
constexpr Place place_of_clone(int32_t position, NodeId n) {
  return Place{position} << 32 | int32_t(n);
}
constexpr int32_t position_of(Place place) { return int32_t(place >> 32); }
constexpr int32_t runs_at(Place place) { return int32_t(place & kNodeItself); }  // or kNodeItself

struct PlaceSpan {  // closed; empty where it ends before it begins
  Place begin = std::numeric_limits<Place>::max(), end = -1;

  bool is_empty() const { return end < begin; }
  void touch(Place place) { begin = std::min(begin, place), end = std::max(end, place); }
  bool operator==(const PlaceSpan&) const = default;
};

// Times are in ticks of a picosecond: sums of whole numbers do not depend on their order.
constexpr double kSketchTicks = 1e9;  // a millisecond
int64_t sketch_ticks(double ms);

// What passes will do to what is chosen, so that the sketch counts on it.
struct SketchPasses {
  bool bits = true;     // maps of which gradients ask a predicate alone: RecomputeOptions::bits
  Fusions fuse = {};    // of clones, and of nodes that run once
  bool inplace = true;  // outputs take the bytes of operands that die
};

struct SketchTable {
  struct Pair {  // storages: the output may take the operand's bytes
    StorageId output, operand;
  };
  struct Made {
    NodeId node;
    ValueId value;
  };
  // Nodes that have to run again and others that must not: then one kernel runs them, and what lies
  // inside it is never in memory.
  struct Fused {
    std::vector<NodeId> run, stay;
    std::vector<StorageId> inside;
    int64_t saved = 0;  // ticks
  };
  struct OfFused {  // a node's part in one
    int32_t fused;
    bool runs;
  };

  // `view`: with infinite RecomputeOptions::heavy. `order`: in which its nodes will run, where
  // gradients keep theirs.
  SketchTable(const StepView& view, std::vector<NodeId> order, const DeviceProfile& device,
              const SketchPasses& passes);

  const StepView& view;
  const Program& p;
  const std::vector<NodeId> order;
  ByNode<int32_t> position;
  ByNode<int64_t> ticks, in_step;  // of a clone, alone; of the node, as a part of its kernel
  ByNode<char> is_forward;

  // Maps: values that are neither pinned nor anything but the forward phase's.
  Lists<NodeId, ValueId> in, out;      // by forward node
  Lists<ValueId, NodeId> readers;      // by map: forward nodes
  Lists<StorageId, NodeId> read_by;    // by storage: forward nodes that read some of its maps
  Lists<StorageId, Made> made_by;      // by storage
  Lists<NodeId, Pair> pairs;           // by node
  Lists<StorageId, NodeId> shared_by;  // by map's storage: nodes with a pair that it is in
  ByNode<char> shares;                 // some pair of it is of a map's storage
  std::vector<Fused> fused;
  Lists<NodeId, OfFused> fused_of;  // by node

  std::vector<StorageId> open;  // those that there is a choice for
  ByStorage<char> is_map, is_open;
  ByStorage<int64_t> bytes;        // on the device; 0: of none that counts
  ByStorage<int32_t> made;         // position of the last forward node that makes it
  ByStorage<PlaceSpan> nodes;      // that touch it; of maps: forward ones
  ByStorage<PlaceSpan> gradients;  // the first and the last that read its maps
  ByStorage<int64_t> bit_bytes;    // 0: bits would not do
  ByStorage<int64_t> bit_ticks;
  ByStorage<int64_t> copy_ticks;  // to the host, and as much back; 0: no link
  // What there is no choice about: alive while a node runs, and between the one before it and it.
  std::vector<int64_t> during, before;  // by position

 private:
  void list_nodes(const Storages& storages, bool inplace);
  void list_storages(const Storages& storages);
  void list_gradients();
  void list_bits(const DeviceProfile& device);
  void list_copies(const Storages& storages, const DeviceProfile& device);
  void list_fixed();
  void list_fused(const std::vector<FusedClones>& found);

  int64_t constant_ = 0;  // state and inputs
};

}  // namespace pal
