// Dinic 1970: blocking flows along shortest paths, until the sink is out of reach.
#include "memory/recompute/echo_cut.h"

#include <algorithm>

namespace pal {

int MinCut::add_vertices(int count) {
  first_.resize(first_.size() + size_t(count), -1);
  return int(first_.size()) - count;
}

void MinCut::add_edge(int from, int to, int64_t capacity) {
  edges_.push_back({to, first_[from], capacity});
  first_[from] = int(edges_.size()) - 1;
  edges_.push_back({from, first_[to], 0});
  first_[to] = int(edges_.size()) - 1;
}

bool MinCut::find_levels() {
  level_.assign(first_.size(), -1);
  std::vector<int> queue{kSource};
  level_[kSource] = 0;
  for (size_t i = 0; i < queue.size(); ++i) {
    for (int e = first_[queue[i]]; e >= 0; e = edges_[e].next) {
      const Edge& edge = edges_[e];
      if (edge.left == 0 || level_[edge.to] >= 0) continue;
      level_[edge.to] = level_[queue[i]] + 1;
      queue.push_back(edge.to);
    }
  }
  return level_[kSink] >= 0;
}

// Depth first without recursion: a path of edges that grows, is filled, and is cut back to where an
// edge ran full.
void MinCut::block() {
  at_ = first_;
  std::vector<int> path;
  int v = kSource;
  while (true) {
    if (v == kSink) {
      int64_t flow = kInfinite;
      for (int e : path) flow = std::min(flow, edges_[e].left);
      size_t full = path.size();
      for (size_t i = path.size(); i-- > 0;) {
        edges_[path[i]].left -= flow;
        edges_[path[i] ^ 1].left += flow;
        if (edges_[path[i]].left == 0) full = i;
      }
      path.resize(full);
      v = path.empty() ? kSource : edges_[path.back()].to;
      continue;
    }
    int& e = at_[v];
    while (e >= 0 && (edges_[e].left == 0 || level_[edges_[e].to] != level_[v] + 1)) {
      e = edges_[e].next;
    }
    if (e >= 0) {
      path.push_back(e);
      v = edges_[e].to;
    } else if (path.empty()) {
      return;
    } else {  // a dead end: never again in this phase
      level_[v] = -1;
      path.pop_back();
      v = path.empty() ? kSource : edges_[path.back()].to;
    }
  }
}

std::vector<char> MinCut::source_side() {
  while (find_levels()) block();
  std::vector<char> side(first_.size());
  for (size_t v = 0; v < side.size(); ++v) side[v] = level_[v] >= 0;
  return side;
}

}  // namespace pal
