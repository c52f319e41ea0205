// Which nodes of a step run on a part of the rows at a time (memory/passes/batch_parts.h).
#pragma once
#include <cstdint>
#include <optional>

#include "core/op.h"

namespace pal {

// What was done, for reports and tests.
struct BatchParts {
  int64_t wanted = 1, parts = 1;    // that were asked for, and are: 1 where the step is as it was
  int64_t examples = 0;             // rows of the leading axis
  int nodes = 0, runs = 0;          // that were split, and runs of them
  int64_t most = 0, most_else = 0;  // bytes of maps: of the node with most that can be split, and
                                    // of the others
};

class SplitNodes {
 public:
  // The program outlives this. `wanted`: parts, two or more.
  SplitNodes(const Program& program, int64_t wanted);

  // What the node does with rows, where it is split; else null.
  const Rows* operator[](NodeId n) const { return rows_[n] ? &*rows_[n] : nullptr; }
  const BatchParts& done() const { return done_; }  // but for the runs

 private:
  bool can_split(ValueId v) const;
  ValueId largest_map(const ByNode<int64_t>& touched) const;
  ValueId larger(ValueId a, ValueId b) const;
  void weigh(const ByNode<int64_t>& touched);
  void split_above(int64_t bytes);
  ByNode<int64_t> bytes_touched() const;
  int64_t maps_of(const Node& node) const;
  ByValue<int64_t> examples_of_maps() const;
  int64_t examples_of(NodeId n) const;
  bool takes_a_row(const Node& node, const Rows& rows) const;

  const Program& p_;
  const ByValue<char> is_state_;
  const ByValue<int64_t> examples_;  // by map: the rows that all take it by; 0: not all do
  ByNode<std::optional<Rows>> rows_;
  BatchParts done_;
};

// The same tensor with so many rows.
TensorSpec with_rows(TensorSpec spec, int64_t rows);

}  // namespace pal
