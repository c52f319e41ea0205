// What is alive, and what the step takes, if some maps are made again: counted from a table of the
// step, without making the program. A thousand nodes take some 20 us.
//
// Maps that share bytes through views are one storage and have one fate. What is counted is what
// insert_clones and stash_bits (memory/recompute/clones.h) would leave: clones run before the first
// gradient that needs them, hold their results until the last that reads them, and read what is
// kept or other clones; a map of which gradients ask a predicate alone, and which no clone reads,
// is kept as bits. Clones that fuse count as one kernel (memory/front/fused_clones.h). Outputs take
// the bytes of operands that die. Copies leave one after the other as maps are made, and bytes are
// there until their copy is done; they come back one after the other, each as late as its reader
// allows. So a copy costs no time, and where the link has too much to do it frees little. What
// later passes do is not counted: another order, layouts, stalls.
#pragma once
#include <cstdint>
#include <vector>

#include "core/memory.h"
#include "memory/front/fused_clones.h"
#include "memory/price/predict.h"
#include "memory/recompute/clones.h"
#include "memory/recompute/step_view.h"

namespace pal {

enum class Fate : uint8_t {
  keep,
  again,  // made again
  away    // copied to the host and back, while nobody reads it
};
using Fates = ByStorage<Fate>;

class Sketch {
 public:
  // `view`: with infinite RecomputeOptions::heavy. `order`: in which its nodes will run, where
  // gradients keep theirs.
  Sketch(const StepView& view, std::vector<NodeId> order, const DeviceProfile& device,
         const RecomputeOptions& options);

  struct Count {
    int64_t bytes = 0;  // alive at the peak
    double over = 0;    // bytes above the limit, summed over nodes
    double ms = 0;      // added to the step
  };
  Count count(const Fates& fates, int64_t limit);

  // What gradients read is kept; what only clones would read is made again.
  Fates nothing() const;
  // Storages that there is a choice for.
  const std::vector<StorageId>& open() const { return open_; }
  int64_t size(StorageId s) const { return bytes_[s]; }
  bool has_link() const { return copy_ms_ > 0; }
  // Of the last count: whether gradients or clones need it, and whether anything lies above the
  // limit while it waits for them.
  bool is_needed(StorageId s) const { return needed_storage_[s]; }
  bool waits_above(StorageId s) const;

  Choice choice_of(const Fates& fates) const;
  // Values that leave.
  std::vector<ValueId> away_of(const Fates& fates) const;

 private:
  using Place = int32_t;  // of a node, or of a node or clone in the order in which they run
  struct Span {           // closed
    Place begin = 0, end = -1;
  };
  struct Pair {  // storages: the output may take the operand's bytes
    StorageId output, operand;
  };
  template <class T> struct Lists {  // by node, in one table
    std::vector<int32_t> begin;
    std::vector<T> items;
    const T* first(NodeId n) const { return items.data() + begin[size_t(n)]; }
    const T* last(NodeId n) const { return items.data() + begin[size_t(n) + 1]; }
  };

  void list_nodes(const Storages& storages);
  void list_storages(const Storages& storages);
  void list_bits(const DeviceProfile& device, bool wanted);
  void list_fixed();
  void find_clones(const Fates& fates);
  void place_clones();
  void find_spans(const Fates& fates);
  bool has_bits(StorageId s, const Fates& fates) const;
  void send_away(const Fates& fates);
  Place place_at(double ms) const;  // the last that begins by then
  void share(NodeId n, Place at, bool clone, const Fates& fates);
  Place place_of(Place number) const { return place_of_[size_t(number)]; }
  void find_fused();
  void hold(Place begin, Place end, int64_t bytes);

  const StepView& view_;
  const Program& p_;
  const std::vector<NodeId> order_;
  const ByNode<double> ms_;
  std::vector<NodeId> forward_;  // the last one first
  ByNode<char> is_forward_;
  Lists<ValueId> in_, out_;  // of forward nodes: maps
  Lists<Pair> pairs_;
  int64_t constant_ = 0;  // state and inputs
  const double copy_ms_;  // a byte's
  std::vector<FusedClones> fused_;
  std::vector<StorageId> open_;
  ByStorage<char> is_map_, is_open_;
  std::vector<StorageId> maps_, fixed_;  // what choices may change, and what they do not
  std::vector<int64_t> fixed_during_, fixed_before_;
  std::vector<NodeId> sharing_;      // nodes whose outputs may take a map's bytes, or become a map
  std::vector<ValueId> read_later_;  // by gradients
  ByStorage<int64_t> bytes_;
  ByStorage<Place> made_;  // the number of the last node of the forward phase that makes it
  ByStorage<Span> nodes_;  // that touch it, by their number in the order; of maps: forward ones
  ByStorage<int64_t> bit_bytes_;  // 0: bits would not do
  ByStorage<double> bit_ms_;

  // Of the last count.
  ByValue<NodeId> first_, last_;  // that read it after the forward phase, clones at their reader
  ByStorage<char> needed_storage_, read_by_clone_;
  ByStorage<char> inside_;  // of one kernel, and never in memory
  std::vector<NodeId> clones_;
  double ms_added_ = 0;
  ByNode<NodeId> runs_before_;  // the gradient before which its clone runs
  ByNode<Place> place_, clone_place_;
  ByNode<Place> clones_before_;
  std::vector<Place> place_of_;     // of the nodes in the order
  ByStorage<Span> spans_, cloned_;  // while it is there, and while the clone's, or the copy, is
  std::vector<StorageId> away_;
  std::vector<double> start_;   // by place, in ms
  std::vector<int64_t> alive_;  // by place
  std::vector<double> above_;   // what lies above the limit, summed over all places before
};

}  // namespace pal
