// The least that a step can cost where every byte at some marks of it has a price: a minimum cut
// over the needs of all plans.
//
// At a mark k of the chain, an atom that was made before and is read after is there, for its
// price, or its maker runs again after k. Then what that reads is there at k or runs again after k,
// too. Who runs again after a mark runs again after every mark before it, so a node is paid once,
// however often it runs again. Bits in place of values cost their own bytes alone.
#pragma once
#include <cstdint>
#include <vector>

#include "memory/front/bound_graph.h"

namespace pal {

// One answer: what runs again, and what is then needed.
struct BoundCut {
  double again_ms = 0;         // of all that runs again
  std::vector<double> needed;  // bytes, by mark asked about
  double least = 0;            // what the cheapest answer costs at these prices; rounded down
};

class BoundCutter {
 public:
  // `marks`: ascending marks of the chain.
  BoundCutter(const BoundGraph& graph, std::vector<Mark> marks);

  // again_ms times `time_weight`, and the needed bytes times their prices (ms for a byte). Without
  // what is there in any case (BoundGraph::fixed).
  BoundCut cut(const std::vector<double>& prices, double time_weight) const;

 private:
  struct Edge {
    int from, to;
    int mark;       // by whose price; -1: time; -2: infinite
    double amount;  // bytes or ms
  };
  static constexpr int kTime = -1, kInfinite = -2;

  int vertex() { return vertices_++; }
  void need(AtomId atom, int mark, int from);
  void ask(AtomId atom, int mark, int from);
  int runs(NodeId n, int mark);
  void expand(NodeId n, int mark);
  bool is_there(AtomId atom, int mark) const;

  const BoundGraph& graph_;
  const std::vector<Mark> marks_;
  int vertices_ = 2;
  std::vector<std::vector<int>> runs_, needed_, asked_;  // [mark][node or atom]: vertices
  std::vector<std::pair<NodeId, int>> waiting_;          // whose operands are still to be added
  std::vector<Edge> edges_;
};

}  // namespace pal
