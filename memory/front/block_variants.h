// What each block of a step can keep, and what that costs: the variants of memory/front/chain.h.
//
// Borders are taken as kept. Then blocks do not meet, and one cut of the whole step by a price for
// every stashed byte (memory/recompute/region_cut.h) chooses in each block what is worth its bytes
// there. A ladder of prices gives each block a variant a rung. The clones of a rung are inserted in
// all blocks at once (and once more with clones that are made anew for each reader where that costs
// less than to hold them), and what a block then takes is counted in the step itself: the bytes
// that it keeps between the phases, its peak beside what earlier blocks keep, and the time of its
// nodes, with what was fused.
#pragma once
#include <vector>

#include "memory/compiled.h"
#include "memory/front/chain.h"
#include "memory/front/fused_clones.h"
#include "memory/front/segments.h"
#include "memory/price/predict.h"
#include "memory/recompute/clones.h"

namespace pal {

// As they are named in options.
std::vector<Rerun> reruns_of(const Program& parts, const std::vector<CloneList::Clone>& clones);

class BlockVariants {
 public:
  // `view`: of the step in parts, nothing heavy. `anew`: also with clones for each reader.
  BlockVariants(const StepView& view, const Segments& segments, const StepTimes& times,
                const CompileOptions& options, const DeviceProfile& device, bool anew);

  const Chain& chain() const { return chain_; }
  // What runs again so that the block has made its border, and, with a variant of the chain's, what
  // that keeps, from the border before it.
  std::vector<NodeId> pass(int block) const;
  std::vector<NodeId> forward(int block, int variant) const;
  // What gradients of the block run again beside what the variant keeps.
  std::vector<CloneList::Clone> again(int block, int variant) const;
  // What a variant keeps and may leave for the host: no bits, nothing small. None without a link.
  const std::vector<ValueId>& may_leave(int block, int variant) const;

 private:
  struct Rung {
    CloneList list;
    ByValue<char> kept;  // of blocks, read after the forward phase as they are
    std::vector<std::vector<ValueId>> may_leave = {};  // of these, by block
  };
  struct Copies {
    int64_t bytes = 0, to_copy = 0;  // as in chain.h
  };
  bool is_new(const CloneList& list) const;
  const Rung& rung(int block, int variant) const;
  std::vector<std::vector<ValueId>> may_leave(const ByValue<char>& kept) const;
  void add_rung(CloneList list, const CompileOptions& options, const DeviceProfile& device);
  std::vector<NodeId> closure(int block, const ByValue<char>* kept) const;
  std::vector<StorageId> storages_of(const std::vector<ValueId>& values) const;
  Copies copies_of(const std::vector<StorageId>& storages) const;
  double time_of(const std::vector<NodeId>& nodes) const;

  const StepView& view_;
  const Segments& segments_;
  const ByNode<double>& node_ms_;  // alone
  const DeviceProfile& device_;
  StepView bordered_;       // borders pinned, and what no block has
  ByValue<int> border_of_;  // kNone: of none
  int64_t least_copied_ = 0;
  std::vector<Rung> rungs_;
  std::vector<double> plain_ms_;           // by block: as recorded
  std::vector<std::vector<int>> rung_of_;  // by block and variant
  Chain chain_;
};

}  // namespace pal
