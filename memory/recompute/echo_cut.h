// Minimum cuts between a source and a sink, by Dinic's algorithm.
#pragma once
#include <cstdint>
#include <vector>

namespace pal {

class MinCut {
 public:
  static constexpr int kSource = 0, kSink = 1;
  static constexpr int64_t kInfinite = int64_t{1} << 60;

  MinCut() : first_(2, -1) {}
  // The number of the first; the others follow.
  int add_vertices(int count);
  // `capacity`: what it costs to have `from` on the source's side and `to` on the sink's.
  void add_edge(int from, int to, int64_t capacity);
  // By vertex: 1 on the source's side of the cheapest cut, the smallest such side of all. Once.
  std::vector<char> source_side();

 private:
  struct Edge {
    int to, next;
    int64_t left;  // residual capacity; edge e ^ 1 is the reverse of e
  };
  bool find_levels();
  void block();

  std::vector<Edge> edges_;
  std::vector<int> first_, level_, at_;
};

}  // namespace pal
