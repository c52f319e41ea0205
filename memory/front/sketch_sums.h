// Bytes alive while each node and each clone of a sketch (memory/front/sketch.h) runs: the most,
// and their sum above a limit.
//
// Nodes that run one after the other are blocks. Of each are kept the bytes alive at its places,
// less what is alive as it begins, with the least, the most and the sum of them. So a block that
// nothing begins or ends in adds what it added before, if as much is alive as it begins; and if all
// of it lies on one side of the limit, the sum says what it adds. All numbers are whole: what is
// counted does not depend on what was kept.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "memory/front/sketch_slots.h"
#include "memory/front/sketch_table.h"

namespace pal {

class SketchSums {
 public:
  SketchSums(const SketchTable& table, const SketchSlots& slots);

  // So many bytes more are there.
  void hold(const PlaceSpan& span, int64_t bytes);
  // What of its outputs lies on operands that die.
  void share(int32_t position, int64_t bytes);
  void share_clone(NodeId n, int32_t position, int64_t bytes);
  // Clones before that node came or went.
  void change_slot(int32_t position) { mark(size_t(position)); }

  struct Sums {
    int64_t most = 0, over = 0;
  };
  Sums count(int64_t limit);
  // Of the last count: whether something lies above the limit from the first place at that position
  // on, and before `until`.
  bool any_above(int32_t position, Place until);

 private:
  static constexpr size_t kBlock = 16;  // nodes

  // Bytes at some places of a block, less those as it begins.
  struct Levels {
    int64_t least = std::numeric_limits<int64_t>::max();
    int64_t most = std::numeric_limits<int64_t>::min();
    int64_t sum = 0, count = 0;

    void add(int64_t bytes) {
      least = std::min(least, bytes), most = std::max(most, bytes);
      sum += bytes, ++count;
    }
  };
  struct Block {
    int64_t node = 0, slot = 0;  // what more is there as it ends
    Levels nodes, clones;
    // What it was counted with, and what it had above the limit.
    int64_t at_node = -1, at_slot = -1, limit = -1, over = 0;
  };

  void mark(size_t position) { is_stale_[position / kBlock] = 1; }
  void renew(size_t number);
  int64_t over_in(size_t number, int64_t node, int64_t slot, int64_t limit) const;
  void list_above();

  const SketchTable& t_;
  const SketchSlots& slots_;

  // By position: what begins there less what has ended, while nodes run, and through the clones
  // before; what comes from before and ends at one of these; what lies on operands.
  struct At {
    int64_t node = 0, slot = 0;
  };
  std::vector<At> begins_;
  std::vector<int64_t> ends_in_slot_, shared_;
  struct OfClone {
    int64_t begins = 0, ends = 0, shared = 0;
  };
  ByNode<OfClone> of_clone_;

  std::vector<char> is_stale_;
  std::vector<Block> blocks_;
  std::vector<int64_t> in_nodes_;                // by position
  std::vector<std::vector<int64_t>> in_clones_;  // by block

  // What lies above the limit, summed over all places before.
  int64_t limit_ = 0;
  bool has_above_ = false;
  std::vector<int64_t> above_node_;
  ByNode<int64_t> above_clone_;
};

}  // namespace pal
