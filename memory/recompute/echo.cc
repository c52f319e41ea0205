// The regions of Algorithm 1, and their pruning as one minimum cut.
#include "memory/recompute/echo.h"

#include <algorithm>

#include "memory/recompute/echo_cut.h"

namespace pal {
namespace {

// What may be run again, and when a value is then read after the forward phase, by gradients and by
// clones, which run at their own first use.
struct Reach {
  ByNode<char> candidate;
  ByValue<NodeId> first, last;

  // Needed by the backward pass, if everything that can be is recomputed.
  bool is_target(const StepView& view, ValueId v) const {
    return v != kNone && !view.pinned[v] && first[v] != kNone;
  }
};

// From the last forward node to the first.
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

// The minimum cut through what may be run again.
class Echo {
 public:
  Echo(const StepView& view, const EchoTrial& trial)
      : view_(view), p_(view.program), trial_(trial), reach_(expand(view, trial.near)) {}

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
    stash_ = view_.storage_bytes;
    if (trial_.forms) price_codes();
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
  void price_codes() {
    ByStorage<int64_t> codes(stash_.size(), 0);
    for (ValueId v : p_.values.ids()) {
      if (view_.stays(v) || view_.first_use[v] == kNone) continue;
      const Form& form = (*trial_.forms)[v];
      int64_t& sum = codes[view_.storage[v]];
      const bool exact = form.sparse && !form.dpr;
      sum = exact && sum < MinCut::kInfinite ? sum + cost_encoded(v, form) : MinCut::kInfinite;
    }
    for (StorageId s : codes.ids()) {
      if (codes[s] > 0) stash_[s] = std::min(stash_[s], codes[s]);
    }
  }

  // The bytes, and as many for writing the codes and making the value of them.
  int64_t cost_encoded(ValueId v, const Form& form) const {
    const TensorSpec& spec = p_.value(v).spec;
    const int64_t bytes = bytes_of(spec, form);
    return bytes + 1 + int64_t(2 * double(spec.bytes() + bytes) / trial_.exchange);
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
      cut_.add_edge(runs, MinCut::kSink, cost_again(producer));
    }
    if (runs != made) cut_.add_edge(made, runs, MinCut::kInfinite);
  }

  // What it costs gradients to do without the value: a bit for each element where they ask no more
  // of it, or rounded codes. (If something else needs it whole, it is there anyway.)
  int64_t cost_without(ValueId v) const {
    const TensorSpec& spec = p_.value(v).spec;
    if (trial_.forms && (*trial_.forms)[v].dpr) return cost_encoded(v, (*trial_.forms)[v]);
    if (!trial_.bits || spec.dtype == DType::bit || spec.layout ||
        bit_bytes(spec) >= spec.bytes() || !asked_of(p_, view_.readers, v).bits_will_do()) {
      return MinCut::kInfinite;
    }
    const double moved = double(spec.bytes() + bit_bytes(spec));
    return bit_bytes(spec) + 1 + int64_t(moved / trial_.exchange);
  }

  // Running the node once more: what it moves, or what could be moved meanwhile, where arithmetic
  // takes longer.
  int64_t cost_again(NodeId n) const {
    const Cost& cost = view_.cost[n];
    const double moved = std::max(cost.bytes, cost.flops / trial_.balance);
    return 1 + int64_t((moved + trial_.launch_bytes) / trial_.exchange);
  }

  const StepView& view_;
  const Program& p_;
  const EchoTrial& trial_;
  const Reach reach_;
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

}  // namespace

Choice choose_echo(const StepView& view, const EchoTrial& trial) { return Echo(view, trial).run(); }

}  // namespace pal
