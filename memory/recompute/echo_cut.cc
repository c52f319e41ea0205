// The regions of Algorithm 1, and their pruning as one minimum cut.
#include "memory/recompute/echo_cut.h"

#include <algorithm>

#include "memory/passes/bit_stash.h"

namespace pal {
namespace {

// Nodes cost so much more, the later they stand in the forward phase: of equal nodes (the time
// steps of a layer, the blocks of a stage) a price then takes some and leaves others. The last
// ones' clones are the first to run, when the most bytes are alive, and save the least.
constexpr double kLateness = 1;

}  // namespace

std::vector<int64_t> bytes_as_bits(const StepView& view) {
  const Program& p = view.program;
  ByValue<int64_t> bytes(p.values.size(), -1);
  for (size_t v = 0; v < bytes.size(); ++v) {
    const TensorSpec& spec = p.values[v].spec;
    if (view.pinned[v] || view.first_use[v] == kNone || spec.dtype == DType::bit || spec.layout ||
        bit_bytes(spec) >= spec.bytes()) {
      continue;
    }
    if (later_reads(p, view.readers, ValueId(v)).kind == Reads::Kind::predicate) {
      bytes[v] = bit_bytes(spec);
    }
  }
  return bytes;
}

EchoCut::EchoCut(const StepView& view, const EchoRegions& regions, std::span<const double> node_ms,
                 const std::vector<int64_t>& as_bits)
    : view_(view),
      p_(view.program),
      node_ms_(node_ms),
      as_bits_(as_bits),
      candidate_(p_.nodes.size(), 0),
      first_(view.first_use),
      last_(view.last_use),
      node_(p_.nodes.size(), kNone) {
  for (NodeId n = 0; n < p_.node_count(); ++n) {
    if (p_.node(n).phase == Phase::forward) last_forward_ = std::max(last_forward_, n);
  }
  expand(regions);
  survey();
  // A storage is a pair of vertices, needed -> made again, joined by its bytes: to cut there is to
  // stash it. Made again means that the candidates which make it run again: they need their
  // operands, and cost their time. The source stands for what gradients need, whatever is chosen
  // (where no candidate makes it, it is left out), and made again for its maker, where neither has
  // to do with others.
  for (size_t v = 0; v < p_.values.size(); ++v) {
    if (is_target(ValueId(v))) connect(v);
  }
  for (NodeId n = 0; n < p_.node_count(); ++n) {
    if (node_[n] == kNone) continue;
    for (ValueId v : p_.node(n).in) {
      if (view_.stays(v)) continue;
      const int needed = needed_[view_.storage[v]];
      if (needed != MinCut::kSource) cut_.add_edge(node_[n], needed, MinCut::kInfinite);
    }
  }
}

Choice EchoCut::choose(double bytes_per_ms) {
  for (Priced& p : priced_) {
    const int64_t cost = 1 + int64_t(p.ms * bytes_per_ms);
    cut_.raise(p.edge, cost - p.cost);
    p.cost = cost;
  }
  const std::vector<char> source = cut_.source_side();
  Choice choice(p_.values.size(), 0);
  for (size_t v = 0; v < choice.size(); ++v) {
    if (!is_target(ValueId(v)) || !candidate_[p_.values[v].producer]) continue;
    choice[v] = source[size_t(made_[view_.storage[v]])];
  }
  return choice;
}

// Needed by the backward pass, if everything that can be is recomputed.
bool EchoCut::is_target(ValueId v) const {
  return v != kNone && !view_.pinned[v] && first_[v] != kNone;
}

// From the last forward node to the first. first_ and last_ become the times at which a value is
// read after the forward phase by gradients and by candidates' clones, which run at their own first
// use.
void EchoCut::expand(const EchoRegions& regions) {
  for (NodeId n = p_.node_count(); n-- > 0;) {
    const Node& node = p_.node(n);
    if (node.phase != Phase::forward) continue;
    NodeId first = kNone, last = kNone;
    for (ValueId v : node.out) {
      if (!is_target(v)) continue;
      first = first == kNone ? first_[v] : std::min(first, first_[v]);
      last = std::max(last, last_[v]);
    }
    if (first == kNone || !view_.clonable[n] || view_.is_heavy(n, regions.heavy)) continue;
    if (last - first > regions.near && !view_.from_pinned(n)) continue;
    candidate_[n] = 1;
    for (ValueId v : node.in) {
      if (view_.stays(v)) continue;
      NodeId &f = first_[v], &l = last_[v];
      f = f == kNone ? first : std::min(f, first);
      l = std::max(l, first);
    }
  }
}

// What is made of which, and what gradients cannot do without.
void EchoCut::survey() {
  const size_t storages = view_.storage_bytes.size();
  needed_.assign(storages, kNone), made_.assign(storages, kNone);
  able_.assign(storages, 0), members_.assign(storages, 0);
  makes_.assign(p_.nodes.size(), 0);
  for (size_t v = 0; v < p_.values.size(); ++v) {
    if (!is_target(ValueId(v))) continue;
    const size_t storage = size_t(view_.storage[v]), producer = size_t(p_.values[v].producer);
    able_[storage] |= candidate_[producer];
    ++members_[storage], ++makes_[producer];
    if (view_.first_use[v] != kNone && (as_bits_.empty() || as_bits_[v] < 0)) {
      needed_[storage] = MinCut::kSource;
    }
  }
}

// The value's storage with the source and with the value's maker.
void EchoCut::connect(size_t v) {
  const size_t storage = size_t(view_.storage[v]);
  const NodeId producer = p_.values[v].producer;
  int &needed = needed_[storage], &made = made_[storage];
  if (needed == MinCut::kSource && !able_[storage]) return;
  if (needed == kNone) needed = cut_.add_vertices(1);
  if (made == kNone) {
    made = able_[storage] ? cut_.add_vertices(1) : MinCut::kSink;
    cut_.add_edge(needed, made, view_.storage_bytes[storage]);
  }
  if (needed != MinCut::kSource && view_.first_use[v] != kNone) {
    cut_.add_edge(MinCut::kSource, needed, as_bits_[v] + 1);
  }
  if (!candidate_[producer]) {
    if (able_[storage]) cut_.add_edge(made, MinCut::kSink, MinCut::kInfinite);
    return;
  }
  int& runs = node_[producer];
  if (runs == kNone) {
    const bool alone = members_[storage] == 1 && makes_[producer] == 1;
    runs = alone ? made : cut_.add_vertices(1);
    const double late = double(producer) / double(last_forward_);
    priced_.push_back(
        {cut_.add_edge(runs, MinCut::kSink, 0), node_ms_[producer] * (1 + kLateness * late), 0});
  }
  if (runs != made) cut_.add_edge(made, runs, MinCut::kInfinite);
}

}  // namespace pal
