// Which nodes are cloned before which, then one walk that inserts them.
#include "memory/recompute/clones.h"

#include <algorithm>
#include <utility>

#include "core/prepare.h"
#include "core/rewriter.h"
#include "memory/passes/divide_weights.h"
#include "memory/passes/encode.h"

namespace pal {

namespace {

// Drops what need not be recomputed: values nobody needs, and values whose storage is stashed for
// another's sake. What is left is `needed`.
Choice needed_of(const StepView& view, Choice choice) {
  const Program& p = view.program;
  for (size_t v = 0; v < choice.size(); ++v) {
    const NodeId producer = p.values[v].producer;
    choice[v] = choice[v] && !view.pinned[v] && view.clonable[producer];
  }
  std::vector<char> stashed(view.storage_bytes.size(), 0);
  Choice needed;
  for (int round = 0; round < 2; ++round) {
    needed.assign(choice.size(), 0);
    for (size_t v = 0; v < choice.size(); ++v) needed[v] = view.first_use[v] != kNone;
    for (NodeId n = p.node_count(); n-- > 0;) {
      bool clone = false;
      for (ValueId v : p.node(n).out) {
        if (v == kNone || view.pinned[v] || !needed[v]) continue;
        choice[v] ? clone = true : stashed[view.storage[v]] = 1;
      }
      for (ValueId v : p.node(n).in) {
        if (clone && v != kNone) needed[v] = 1;
      }
    }
    for (size_t v = 0; v < choice.size(); ++v) {
      if (choice[v] && stashed[view.storage[v]]) choice[v] = 0;
    }
  }
  for (size_t v = 0; v < choice.size(); ++v) needed[v] = needed[v] && choice[v];
  return needed;
}

class Lister {
 public:
  Lister(const StepView& view, CloneList& out, NodeId far)
      : view_(view), p_(view.program), out_(out), far_(far), last_(p_.nodes.size(), kNone) {}

  void run() {
    for (NodeId n = 0; n < p_.node_count(); ++n) {
      const Phase phase = p_.node(n).phase;
      if (phase != Phase::forward && phase != Phase::update) bring(n);
    }
  }

 private:
  // All that the reader needs and that is not there yet, in the order of the originals.
  void bring(NodeId reader) {
    const size_t begin = out_.clones.size();
    want(reader, reader);
    for (size_t i = begin; i < out_.clones.size(); ++i) want(out_.clones[i].original, reader);
    std::sort(out_.clones.begin() + std::ptrdiff_t(begin), out_.clones.end(),
              [](auto& a, auto& b) { return a.original < b.original; });
  }

  void want(NodeId n, NodeId reader) {
    for (ValueId v : p_.node(n).in) {
      if (v == kNone || !out_.needed[v]) continue;
      const NodeId producer = p_.value(v).producer;
      NodeId& last = last_[producer];
      const bool there = last != kNone && (reader - last <= far_ || !view_.from_pinned(producer));
      last = reader;
      if (!there) out_.clones.push_back({reader, producer});
    }
  }

  const StepView& view_;
  const Program& p_;
  CloneList& out_;
  const NodeId far_;
  ByNode<NodeId> last_;  // the last reader (of the old program) its clone had
};

class Inserter {
 public:
  Inserter(const StepView& view, const CloneList& list)
      : view_(view),
        p_(view.program),
        list_(list),
        out_(p_, list.clones.size(), list.clones.size()),
        now_(list.needed.size()) {
    for (ValueId v : now_.ids()) now_[v] = v;
  }

  Clones run() {
    auto next = list_.clones.begin();
    for (NodeId n : p_.nodes.ids()) {
      for (; next != list_.clones.end() && next->reader == n; ++next) clone(next->original);
      Node node = p_.node(n);
      if (node.phase != Phase::forward && node.phase != Phase::update) read_clones(node);
      out_.replace(n, std::move(node));
    }
    return {.program = read_second_gathers(out_.finish()),
            .count = int(list_.clones.size()),
            .cost = cost_};
  }

 private:
  void read_clones(Node& node) const {
    for (ValueId& v : node.in) {
      if (v != kNone) v = now_[v];
    }
  }

  void clone(NodeId n) {
    Node node = p_.node(n);
    node.phase = Phase::recompute;
    read_clones(node);
    for (ValueId& v : node.out) {
      if (v == kNone) continue;
      if (!list_.needed[v]) {
        v = kNone;
        continue;
      }
      v = now_[v] = out_.add(p_.value(v));
    }
    cost_.flops += view_.cost[n].flops;
    cost_.bytes += view_.cost[n].bytes;
    out_.insert(std::move(node));
  }

  const StepView& view_;
  const Program& p_;
  const CloneList& list_;
  Rewriter out_;
  ByValue<ValueId> now_;  // what a backward reader reads
  Cost cost_;
};

}  // namespace

CloneList list_clones(const StepView& view, Choice choice, NodeId far) {
  CloneList list{.needed = needed_of(view, std::move(choice))};
  Lister(view, list, far).run();
  return list;
}

Clones insert_clones(const StepView& view, const CloneList& list) {
  return Inserter(view, list).run();
}

void stash_bits(Clones& clones) {
  const Forms bits = choose_forms(clones.program, kBits);
  clones.encoded = int(count_encoded(bits));
  if (clones.encoded) clones.program = encode(clones.program, bits);
  for (const Node& node : clones.program.nodes) {
    if (node.phase != Phase::encode) continue;
    const Specs in = specs_of(clones.program, node.in), out = specs_of(clones.program, node.out);
    const Cost cost = cost_of(*node.op, in, out, node.attrs);
    clones.cost.flops += cost.flops, clones.cost.bytes += cost.bytes;
  }
}

Clones insert_clones(const StepView& view, Choice choice, NodeId far) {
  return insert_clones(view, list_clones(view, std::move(choice), far));
}

}  // namespace pal
