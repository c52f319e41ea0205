// Vertices grow from what is needed at each mark; capacities are filled in for each cut.
#include "memory/front/bound_cut.h"

#include <algorithm>
#include <utility>

#include "memory/recompute/echo_cut.h"

namespace pal {
namespace {

// Capacities are whole numbers, rounded down: a picosecond each. None is above the largest,
// so that sums stay far from the end of 64 bits.
constexpr double kUnitsPerMs = 1e9;
constexpr double kMostUnits = 1e15;

int64_t units_of(double ms) { return int64_t(std::clamp(ms * kUnitsPerMs, 0.0, kMostUnits)); }

}  // namespace

BoundCutter::BoundCutter(const BoundGraph& graph, std::vector<Mark> marks)
    : graph_(graph), marks_(std::move(marks)) {
  const size_t count = marks_.size();
  runs_.assign(count, std::vector<int>(graph.program().nodes.size(), -1));
  needed_.assign(count, std::vector<int>(graph.atoms().size(), -1));
  asked_ = needed_;
  for (int k = 0; k < int(count); ++k) {
    for (AtomId a : graph.atoms().ids()) {
      const Atom& atom = graph.atoms()[a];
      if (!atom.again) continue;
      if (atom.spans(marks_[size_t(k)])) {
        need(a, k, MinCut::kSource);
      } else if (atom.bits_span(marks_[size_t(k)])) {
        ask(a, k, MinCut::kSource);
      }
    }
  }
  while (!waiting_.empty()) {
    const auto [n, k] = waiting_.back();
    waiting_.pop_back();
    expand(n, k);
  }
  runs_.clear(), needed_.clear(), asked_.clear();
}

// Values that the mark itself reads are counted with it.
bool BoundCutter::is_there(AtomId a, int k) const {
  const Mark mark = marks_[size_t(k)];
  if (!graph_.is_firm(mark)) return false;
  const auto& reads = graph_.reads(graph_.chain()[size_t(mark)]);
  return std::binary_search(reads.begin(), reads.end(), a);
}

void BoundCutter::need(AtomId a, int k, int from) {
  const Atom& atom = graph_.atoms()[a];
  if (is_there(a, k) || !atom.again) return;  // counted with the mark
  int& vertex_of = needed_[size_t(k)][size_t(a)];
  if (vertex_of < 0) {
    vertex_of = vertex();
    edges_.push_back({vertex_of, runs(atom.maker, k), k, double(atom.bytes)});
  }
  edges_.push_back({from, vertex_of, kInfinite, 0});
}

void BoundCutter::ask(AtomId a, int k, int from) {
  const Atom& atom = graph_.atoms()[a];
  if (is_there(a, k) || !atom.again) return;
  int& vertex_of = asked_[size_t(k)][size_t(a)];
  if (vertex_of < 0) {
    vertex_of = vertex();
    const int values = vertex();
    edges_.push_back({vertex_of, values, k, double(atom.bits)});
    need(a, k, values);
  }
  edges_.push_back({from, vertex_of, kInfinite, 0});
}

int BoundCutter::runs(NodeId n, int k) {
  int& vertex_of = runs_[size_t(k)][size_t(n)];
  if (vertex_of >= 0) return vertex_of;
  vertex_of = vertex();
  waiting_.emplace_back(n, k);
  return vertex_of;
}

void BoundCutter::expand(NodeId n, int k) {
  const int self = runs_[size_t(k)][size_t(n)];
  if (k > 0 && graph_.after(n) <= marks_[size_t(k - 1)]) {
    edges_.push_back({self, runs(n, k - 1), kInfinite, 0});
  } else {
    edges_.push_back({self, MinCut::kSink, kTime, graph_.times().again[n]});
  }
  for (AtomId a : graph_.reads(n)) need(a, k, self);
  for (AtomId a : graph_.asks(n)) ask(a, k, self);
}

BoundCut BoundCutter::cut(const std::vector<double>& prices, double time_weight) const {
  MinCut cut;
  cut.add_vertices(vertices_ - 2);
  const auto capacity = [&](const Edge& e) {
    if (e.mark == kInfinite) return MinCut::kInfinite;
    return units_of(e.amount * (e.mark == kTime ? time_weight : prices[size_t(e.mark)]));
  };
  for (const Edge& e : edges_) cut.add_edge(e.from, e.to, capacity(e));
  const std::vector<char> source = cut.source_side();
  BoundCut out{.needed = std::vector<double>(marks_.size(), 0)};
  int64_t units = 0;
  for (const Edge& e : edges_) {
    if (!source[size_t(e.from)] || source[size_t(e.to)]) continue;
    units += capacity(e);
    (e.mark == kTime ? out.again_ms : out.needed[size_t(e.mark)]) += e.amount;
  }
  out.least = double(units) / kUnitsPerMs;
  return out;
}

}  // namespace pal
