// Reaches, and the cut's vertices.
#include "memory/recompute/region_cut.h"

#include <algorithm>

namespace pal {
namespace {

// The minimum cut through what may be run again.
class RegionCut {
 public:
  RegionCut(const StepView& view, const Reach& reach, const CutWeights& weights, bool bits,
            const Forms* forms)
      : view_(view),
        p_(view.program),
        reach_(reach),
        weights_(weights),
        bits_(bits),
        forms_(forms) {}

  Choice run() {
    build();
    const std::vector<char> source = cut_.source_side();
    Choice choice(p_.values.size(), 0);
    for (ValueId v : choice.ids()) {
      if (!target(v) || !candidate_[p_.value(v).producer]) continue;
      choice[v] = source[size_t(made_[view_.storage[v]])];
    }
    return choice;
  }

 private:
  bool target(ValueId v) const { return reach_.is_target(view_, v); }

  // A storage is a pair of vertices, needed -> made again, joined by its bytes: to cut there is to
  // stash it. Made again means that the candidates which make it run again: they need their
  // operands, and cost a little themselves. The source stands for what gradients need, whatever is
  // chosen (where no candidate makes it, it is left out), and made again for its maker, where
  // neither has to do with others.
  void build() {
    survey();
    node_.assign(p_.nodes.size(), kNone);
    for (size_t v = 0; v < p_.values.size(); ++v) {
      if (target(ValueId(v))) connect(v);
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

  // What is made of which, and what gradients cannot do without.
  void survey() {
    const size_t storages = view_.storage_bytes.size();
    needed_.assign(storages, kNone), made_.assign(storages, kNone);
    able_.assign(storages, 0), members_.assign(storages, 0);
    makes_.assign(p_.nodes.size(), 0), without_.assign(p_.values.size(), 0);
    stash_.resize(storages);
    for (StorageId s : stash_.ids()) stash_[s] = weights_.stash(s);
    if (forms_) weigh_codes();
    for (size_t v = 0; v < p_.values.size(); ++v) {
      if (!target(ValueId(v))) continue;
      const size_t storage = size_t(view_.storage[v]), producer = size_t(p_.values[v].producer);
      able_[storage] |= candidate_[producer];
      ++members_[storage], ++makes_[producer];
      if (view_.first_use[v] == kNone) continue;
      without_[v] = cost_without(ValueId(v));
      if (without_[v] == MinCut::kInfinite) needed_[storage] = MinCut::kSource;
    }
  }

  // Exact codes in place of all values of a storage that gradients read.
  void weigh_codes() {
    ByStorage<int64_t> codes(stash_.size(), 0);
    for (ValueId v : p_.values.ids()) {
      if (view_.stays(v) || view_.first_use[v] == kNone) continue;
      const Form& form = (*forms_)[v];
      int64_t& sum = codes[view_.storage[v]];
      const bool exact = form.sparse && !form.dpr;
      sum = exact && sum < MinCut::kInfinite ? sum + cost_encoded(v, form) : MinCut::kInfinite;
    }
    for (StorageId s : codes.ids()) {
      if (codes[s] > 0) stash_[s] = std::min(stash_[s], codes[s]);
    }
  }

  // Moved are value and codes twice: for writing the codes and for making the value of them.
  int64_t cost_encoded(ValueId v, const Form& form) const {
    const TensorSpec& spec = p_.value(v).spec;
    const int64_t bytes = bytes_of(spec, form);
    return weights_.instead(v, bytes, 2 * double(spec.bytes() + bytes));
  }

  // The value's storage with the source and with the value's maker.
  void connect(size_t v) {
    const size_t storage = size_t(view_.storage[v]);
    const NodeId producer = p_.values[v].producer;
    int &needed = needed_[storage], &made = made_[storage];
    if (needed == MinCut::kSource && !able_[storage]) return;
    if (needed == kNone) needed = cut_.add_vertices(1);
    if (made == kNone) {
      made = able_[storage] ? cut_.add_vertices(1) : MinCut::kSink;
      cut_.add_edge(needed, made, stash_[storage]);
    }
    if (needed != MinCut::kSource && without_[v]) {
      cut_.add_edge(MinCut::kSource, needed, without_[v]);
    }
    if (!candidate_[producer]) {
      if (able_[storage]) cut_.add_edge(made, MinCut::kSink, MinCut::kInfinite);
      return;
    }
    int& runs = node_[producer];
    if (runs == kNone) {
      const bool alone = members_[storage] == 1 && makes_[producer] == 1;
      runs = alone ? made : cut_.add_vertices(1);
      cut_.add_edge(runs, MinCut::kSink, weights_.again(producer));
    }
    if (runs != made) cut_.add_edge(made, runs, MinCut::kInfinite);
  }

  // What it costs gradients to do without the value: a bit for each element where they ask no more
  // of it, or rounded codes. (If something else needs it whole, it is there anyway.)
  int64_t cost_without(ValueId v) const {
    const TensorSpec& spec = p_.value(v).spec;
    if (forms_ && (*forms_)[v].dpr) return cost_encoded(v, (*forms_)[v]);
    if (!bits_ || spec.dtype == DType::bit || spec.layout || bit_bytes(spec) >= spec.bytes() ||
        !asked_of(p_, view_.readers, v).bits_will_do()) {
      return MinCut::kInfinite;
    }
    return weights_.instead(v, bit_bytes(spec), double(spec.bytes() + bit_bytes(spec)));
  }

  const StepView& view_;
  const Program& p_;
  const Reach& reach_;
  const CutWeights& weights_;
  const bool bits_;
  const Forms* const forms_;
  const ByNode<char>& candidate_ = reach_.candidate;
  ByStorage<char> able_;            // some candidate makes it
  ByStorage<int32_t> members_;      // values that may be recomputed
  ByNode<int32_t> makes_;           // those
  ByStorage<int64_t> stash_;        // what it costs to stash
  std::vector<int64_t> without_;    // by value that gradients read: the cost of doing without
  std::vector<int> needed_, made_;  // vertices by storage
  std::vector<int> node_;           // vertices by node that may run again
  MinCut cut_;
};

constexpr double kTicksPerMs = 1e15 / double(1 << 20);

}  // namespace

int64_t ticks_of(double ms) {
  const double ticks = ms * kTicksPerMs;
  if (!(ticks > 0)) return 0;
  return ticks < double(kMostTicks) ? int64_t(ticks) : kMostTicks;
}

Reach expand(const StepView& view, NodeId near) {
  const Program& p = view.program;
  Reach reach{ByNode<char>(p.nodes.size(), 0), view.first_use, view.last_use};
  for (NodeId n = p.node_count(); n-- > 0;) {
    const Node& node = p.node(n);
    if (node.phase != Phase::forward) continue;
    NodeId first = kNone, last = kNone;
    for (ValueId v : node.out) {
      if (!reach.is_target(view, v)) continue;
      first = first == kNone ? reach.first[v] : std::min(first, reach.first[v]);
      last = std::max(last, reach.last[v]);
    }
    if (first == kNone || view.heavy[n] || !view.clonable[n]) continue;
    if (last - first > near && !view.from_pinned(n)) continue;
    reach.candidate[n] = 1;
    for (ValueId v : node.in) {
      if (view.stays(v)) continue;
      NodeId &f = reach.first[v], &l = reach.last[v];
      f = f == kNone ? first : std::min(f, first);
      l = std::max(l, first);
    }
  }
  return reach;
}

Choice cut_regions(const StepView& view, const Reach& reach, const CutWeights& weights, bool bits,
                   const Forms* forms) {
  return RegionCut(view, reach, weights, bits, forms).run();
}

}  // namespace pal
