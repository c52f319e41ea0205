// The bytes alive in every moment of a step, for any order of its nodes, without making the
// program.
#pragma once
#include <cstdint>
#include <vector>

#include "memory/schedule/order_graph.h"

namespace pal {

// Says for an order what peak_of(assign_storages(permuted(program, order))) would say, some ten
// times as fast: storages before in-place decisions are made once, in the graph; only what depends
// on the order is worked out again, by the same rules and in the same sequence as in storages.cc.
// It differs only where a value that is gathered twice is gathered in another sequence than in the
// program.
//
// A node's moment of memory is while it runs: its operands, its outputs and its workspace are
// there; what dies with it is gone before the next node's outputs come.
class OrderPeak {
 public:
  explicit OrderPeak(const OrderGraph& graph);

  // `order` is one of the graph's (is_order).
  int64_t operator()(const std::vector<NodeId>& order);

  // Of the last order: bytes alive while its i-th node runs, and where every node stands.
  const std::vector<int64_t>& live() const { return live_; }
  const ByNode<int32_t>& position() const { return position_; }

 private:
  void take_in_place(NodeId n, const OrderGraph::Take& take);
  bool may_take(NodeId n, const OrderGraph::Take& take) const;
  bool is_later(NodeId n, ValueId now) const;
  void merge(StorageId from, StorageId to, int64_t shift);
  int64_t offset(ValueId v) const {
    return graph_.storages.offset[v] + shift_[graph_.storages.of[v]];
  }
  StorageId group(ValueId v) const { return group_[graph_.storages.of[v]]; }
  int64_t size(ValueId v) const { return graph_.size[v]; }

  // Storages in the making: of the graph's storages, those in place of each other.
  struct Group {
    int32_t first = 0, last = -1;  // positions of the first and last node that touches it
    int32_t written = -1;          // position of the last node that makes one of its values
    int32_t members = 1;
    StorageId tail = 0;  // the last member
    int64_t bytes = 0;   // footprint()
    bool kept = false;
  };

  const OrderGraph& graph_;
  Lists<NodeId, StorageId> writes_;  // the transient storages that it makes values of
  ByStorage<Group> groups_;
  ByStorage<StorageId> group_;  // the group it is in
  ByStorage<StorageId> next_;   // the next member
  ByStorage<int64_t> shift_;    // bytes into the group
  ByNode<char> is_taker_;       // it has takes
  ByNode<int32_t> position_;
  std::vector<int64_t> live_;
};

}  // namespace pal
