// Which nodes share a gather of a weight, which weights a gather, and one walk that inserts them.
#include "memory/passes/divide_weights.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/rewriter.h"
#include "memory/passes/exchange_order.h"
#include "ops/exchange/exchange.h"
#include "ops/kernels/ranks.h"
#include "ops/tensors/casts.h"

namespace pal {
namespace {

struct DividedWeight {
  size_t slot;
  ValueId whole;           // as it is read: the weight or its copy in 16 bits
  NodeId copied_by;        // the copy's node; kNone: the weight itself is read
  ValueId piece = kNone;   // the slot's new value at start
  std::vector<NodeId> in;  // readers, in order
};

// Readers of a weight that are near each other.
struct WeightUse {
  size_t weight;
  std::vector<NodeId> readers;
  ValueId whole = kNone;
};

// Uses that one node gathers for.
struct GatheredTogether {
  Phase phase;
  std::vector<size_t> uses;
  NodeId before;
};

class WeightDivider {
 public:
  WeightDivider(const Program& program, int64_t ranks, int64_t together)
      : p_(program), ranks_(ranks), readers_(program), out_(program), reads_(program.nodes.size()) {
    for (size_t s = 0; s < p_.state.size(); ++s) {
      if (p_.state[s].role == Role::weight) add_weight(s);
    }
    find_uses();
    for (size_t u = 0; u < uses_.size(); ++u) {
      for (NodeId n : uses_[u].readers) reads_[n].push_back(u);
    }
    group(together);
  }

  Program run() {
    ByNode<char> dropped(p_.nodes.size(), 0);
    for (const DividedWeight& w : weights_) {
      if (w.copied_by != kNone) dropped[w.copied_by] = 1;
    }
    auto next = groups_.begin();
    for (NodeId n : p_.nodes.ids()) {
      for (; next != groups_.end() && next->before == n; ++next) gather(*next);
      if (dropped[n]) continue;
      Node node = p_.node(n);
      for (const size_t u : reads_[n]) {
        std::replace(node.in.begin(), node.in.end(), weights_[uses_[u].weight].whole,
                     uses_[u].whole);
      }
      if (node.op->collective) node.waits.clear();
      out_.replace(n, std::move(node));
    }
    Program made = out_.finish();
    for (const DividedWeight& w : weights_) {
      made.state[w.slot].start = made.state[w.slot].end = w.piece;
    }
    order_exchanges(made);
    return made;
  }

 private:
  void add_weight(size_t s) {
    const StateSlot& slot = p_.state[s];
    const Value& value = p_.value(slot.start);
    if (slot.end != slot.start || value.spec.layout || value.space != Space::device) {
      throw ProgramError("[divide_weights] " + slot.name +
                         " is written, or lies in no plain order");
    }
    DividedWeight w{.slot = s, .whole = slot.start, .copied_by = kNone};
    const std::span<const NodeId> readers = readers_[slot.start];
    if (readers.size() == 1 && p_.node(readers[0]).op == &cast_op) {
      w.copied_by = readers[0], w.whole = p_.node(readers[0]).out[0];
    }
    w.in.assign(readers_[w.whole].begin(), readers_[w.whole].end());
    w.piece =
        out_.add({.spec = {Shape{piece_elements(value.spec.numel(), ranks_)}, value.spec.dtype},
                  .role = Role::weight,
                  .scope = value.scope});
    weights_.push_back(std::move(w));
  }

  bool is_forward(NodeId n) const { return p_.node(n).phase == Phase::forward; }

  // The place in a weight's readers where the other end of the forward phase begins: so many others
  // are first read in between. Of the steps of a sequence all read the same.
  std::optional<size_t> other_end(const DividedWeight& w, const std::vector<NodeId>& firsts) const {
    for (size_t i = 1; i < w.in.size() && is_forward(w.in[i]); ++i) {
      if (p_.node(w.in[i - 1]).step != kNone || p_.node(w.in[i]).step != kNone) continue;
      const auto between = std::count_if(firsts.begin(), firsts.end(), [&](NodeId first) {
        return w.in[i - 1] < first && first < w.in[i];
      });
      if (2 * size_t(between) >= weights_.size()) return i;
    }
    return {};
  }

  void find_uses() {
    std::vector<NodeId> firsts;
    for (const DividedWeight& w : weights_) {
      if (!w.in.empty()) firsts.push_back(w.in[0]);
    }
    for (size_t k = 0; k < weights_.size(); ++k) {
      const DividedWeight& w = weights_[k];
      auto cut =
          std::find_if_not(w.in.begin(), w.in.end(), [&](NodeId n) { return is_forward(n); });
      if (const auto end = other_end(w, firsts)) cut = w.in.begin() + std::ptrdiff_t(*end);
      for (const auto& [begin, end] : {std::pair{w.in.begin(), cut}, std::pair{cut, w.in.end()}}) {
        if (begin != end) uses_.push_back({.weight = k, .readers = {begin, end}});
      }
    }
    std::stable_sort(uses_.begin(), uses_.end(), [](const WeightUse& a, const WeightUse& b) {
      return a.readers[0] < b.readers[0];
    });
  }

  void group(int64_t together) {
    int64_t bytes = 0;
    for (size_t u = 0; u < uses_.size(); ++u) {
      const NodeId first = uses_[u].readers[0];
      const Phase phase = is_forward(first) ? Phase::forward : Phase::backward;
      const int64_t own = p_.value(weights_[uses_[u].weight].whole).spec.bytes();
      if (groups_.empty() || groups_.back().phase != phase || bytes + own > together) {
        groups_.push_back({.phase = phase, .uses = {}, .before = first});
        bytes = 0;
      }
      groups_.back().uses.push_back(u), bytes += own;
    }
  }

  void gather(const GatheredTogether& group) {
    Node node{.op = &all_gather_op, .phase = group.phase};
    node.scope = p_.value(weights_[uses_[group.uses[0]].weight].whole).scope;
    std::vector<Shape> wholes;
    for (const size_t u : group.uses) {
      WeightUse& use = uses_[u];
      DividedWeight& w = weights_[use.weight];
      const Value& whole = p_.value(w.whole);
      node.in.push_back(w.copied_by == kNone ? w.piece : copy_of_piece(w, group.phase));
      // The first use has the number of what was recorded.
      const bool again = &use != &first_use(use.weight);
      use.whole = again ? out_.add(whole) : w.whole;
      node.out.push_back(use.whole);
      wholes.push_back(whole.spec.shape);
    }
    node.attrs = GatherAttrs{ranks_, std::move(wholes)};
    out_.insert(std::move(node));
  }
  WeightUse& first_use(size_t weight) {
    return *std::find_if(uses_.begin(), uses_.end(),
                         [&](const WeightUse& use) { return use.weight == weight; });
  }
  ValueId copy_of_piece(const DividedWeight& w, Phase phase) {
    Node copy = p_.node(w.copied_by);
    Value value = p_.value(w.whole);
    value.spec.shape = out_.written().value(w.piece).spec.shape;
    const ValueId made = out_.add(std::move(value));
    copy.in = {w.piece}, copy.out = {made}, copy.phase = phase;
    out_.insert(std::move(copy));
    return made;
  }

  const Program& p_;
  const int64_t ranks_;
  const Readers readers_;
  Rewriter out_;
  std::vector<DividedWeight> weights_;
  std::vector<WeightUse> uses_;  // in the order of their first readers
  ByNode<std::vector<size_t>> reads_;
  std::vector<GatheredTogether> groups_;
};

// The slot's value of which an operand of a gather is a piece, or a copy of one.
ValueId piece_of(const Program& p, ValueId operand) {
  const NodeId producer = p.value(operand).producer;
  if (producer == kNone || p.node(producer).op != &cast_op) return operand;
  return p.node(producer).in[0];
}

// A node that gathers weights.
bool gathers_weights(const Program& p, const Node& node) {
  if (node.op != &all_gather_op) return false;
  const ValueId piece = piece_of(p, node.in[0]);
  return p.value(piece).producer == kNone && p.value(piece).role == Role::weight;
}

}  // namespace

Program divide_weights(const Program& program, int64_t ranks, int64_t together) {
  return WeightDivider(program, ranks, together).run();
}

bool has_divided_weights(const Program& program) {
  return std::any_of(program.nodes.begin(), program.nodes.end(),
                     [&](const Node& node) { return gathers_weights(program, node); });
}

ByValue<ValueId> second_gathers(const Program& p) {
  ByValue<ValueId> first(p.values.size(), kNone);  // by piece
  ByValue<ValueId> second(p.values.size(), kNone);
  for (const Node& node : p.nodes) {
    if (!gathers_weights(p, node)) continue;
    for (size_t i = 0; i < node.in.size(); ++i) {
      ValueId& whole = first[piece_of(p, node.in[i])];
      if (whole == kNone) {
        whole = node.out[i];
      } else if (node.phase == Phase::backward) {
        second[whole] = node.out[i];
      }
    }
  }
  return second;
}

Program read_second_gathers(Program p) {
  const ByValue<ValueId> second = second_gathers(p);
  std::vector<NodeId> exchanges;
  for (NodeId n : p.nodes.ids()) {
    if (p.node(n).op->collective) exchanges.push_back(n);
  }
  ByNode<std::vector<NodeId>> brought(p.nodes.size());  // gathers by the clone before which they go
  ByNode<char> moves(p.nodes.size(), 0);
  // Brings all exchanges up to the gather before the clone, if they are gathers that may come.
  const auto bring = [&](NodeId gather, NodeId clone) {
    const auto begin = std::upper_bound(exchanges.begin(), exchanges.end(), clone);
    const auto end = std::upper_bound(begin, exchanges.end(), gather);
    if (!std::all_of(begin, end, [&](NodeId n) { return gathers_weights(p, p.node(n)); })) {
      return false;
    }
    for (auto at = begin; at != end; ++at) {
      if (std::exchange(moves[*at], 1)) continue;
      for (ValueId v : p.node(*at).in) {  // copies of pieces
        const NodeId producer = p.value(v).producer;
        if (producer != kNone && producer > clone)
          brought[clone].push_back(producer), moves[producer] = 1;
      }
      brought[clone].push_back(*at);
    }
    return true;
  };
  for (NodeId n : p.nodes.ids()) {
    if (p.node(n).phase != Phase::recompute) continue;
    for (ValueId& v : p.node(n).in) {
      if (v == kNone || second[v] == kNone) continue;
      if (bring(p.value(second[v]).producer, n)) v = second[v];
    }
  }
  std::vector<NodeId> order;
  for (NodeId n : p.nodes.ids()) {
    order.insert(order.end(), brought[n].begin(), brought[n].end());
    if (!moves[n]) order.push_back(n);
  }
  return std::is_sorted(order.begin(), order.end()) ? p : permuted(p, order);
}

}  // namespace pal
