// Early updates.
#include "memory/schedule.h"

#include <algorithm>
#include <vector>

#include "core/op.h"
#include "core/order.h"
#include "core/prepare.h"
#include "memory/lifetimes.h"

namespace pal {
namespace {

class EarlyUpdates {
 public:
  explicit EarlyUpdates(const Program& program)
      : p_(program), readers_(readers_of(program)), moves_(program.nodes.size(), 0) {
    for (auto& out : p_.outputs) {
      if (out.name == "loss") loss_ = p_.value(out.value).producer;
    }
    choose();
  }

  // The new order; every moving node right after the last node that it depends on.
  std::vector<NodeId> order() {
    std::vector<NodeId> slot(p_.nodes.size());
    std::vector<std::vector<NodeId>> after(p_.nodes.size() + 1);  // [0]: before everything
    for (NodeId n = 0; n < p_.node_count(); ++n) {
      slot[size_t(n)] = n;
      if (!moves_[size_t(n)]) continue;
      NodeId last = kNone;
      for (NodeId d : dependencies(n)) last = std::max(last, slot[size_t(d)]);
      slot[size_t(n)] = last;
      after[size_t(last + 1)].push_back(n);
      if (p_.node(n).op->writes_state && last < previous_staying(n)) ++moved_;
    }
    std::vector<NodeId> order = after[0];
    for (NodeId n = 0; n < p_.node_count(); ++n) {
      if (!moves_[size_t(n)]) order.push_back(n);
      order.insert(order.end(), after[size_t(n) + 1].begin(), after[size_t(n) + 1].end());
    }
    return order;
  }

  int moved() const { return moved_; }

  // The gate made of gradients that some update waits for, or null.
  const char* gate() const {
    for (const Node& node : p_.nodes) {
      if (!node.op->writes_state) continue;
      for (ValueId v : node.in) {
        const NodeId producer = v == kNone ? kNone : p_.value(v).producer;
        if (producer != kNone && p_.node(producer).op->gate && from_gradients_[size_t(producer)]) {
          return p_.node(producer).op->name;
        }
      }
    }
    return nullptr;
  }

 private:
  // Updates; and nodes made of weight gradients, and gates, that nobody but moving nodes reads.
  void choose() {
    from_gradients_.assign(p_.nodes.size(), 0);
    for (NodeId n = 0; n < p_.node_count(); ++n) {
      for (ValueId v : p_.node(n).in) {
        if (v == kNone) continue;
        const NodeId producer = p_.value(v).producer;
        from_gradients_[size_t(n)] |= p_.value(v).role == Role::weight_gradient ||
                                      (producer != kNone && from_gradients_[size_t(producer)]);
      }
    }
    for (NodeId n = p_.node_count(); n-- > 0;) {
      const Node& node = p_.node(n);
      bool all = from_gradients_[size_t(n)] || node.op->gate;
      for (ValueId v : node.out) {
        if (v == kNone) continue;
        for (NodeId r : readers_[size_t(v)]) all &= bool(moves_[size_t(r)]);
      }
      moves_[size_t(n)] = node.op->writes_state || all;
    }
  }

  std::vector<NodeId> dependencies(NodeId n) const {
    const Node& node = p_.node(n);
    std::vector<NodeId> out;
    for (ValueId v : node.in) {
      if (v != kNone && p_.value(v).producer != kNone) out.push_back(p_.value(v).producer);
    }
    if (!node.op->writes_state) return out;
    if (loss_ != kNone && loss_ != n) out.push_back(loss_);
    for (size_t i = 0; i < node.out.size(); ++i) {
      if (node.out[i] == kNone) continue;
      add_readers(node.in[size_t(written_operand(*node.op, int(i)))], n, out);
    }
    return out;
  }

  // Of the value and of all views of it.
  void add_readers(ValueId v, NodeId except, std::vector<NodeId>& out) const {
    for (NodeId r : readers_[size_t(v)]) {
      if (r == except) continue;
      out.push_back(r);
      const Node& node = p_.node(r);
      if (!node.op->windows) continue;
      const Specs in = specs_of(p_, node.in), specs = specs_of(p_, node.out);
      for (const Window& w : node.op->windows(in, specs, node.attrs)) {
        const ValueId view = node.out[size_t(w.output)];
        if (w.of != Window::Of::operand || node.in[size_t(w.operand)] != v || view == kNone) continue;
        add_readers(view, except, out);
      }
    }
  }

  NodeId previous_staying(NodeId n) const {
    while (n >= 0 && moves_[size_t(n)]) --n;
    return n;
  }

  const Program& p_;
  const std::vector<std::vector<NodeId>> readers_;
  std::vector<char> moves_;           // by node
  std::vector<char> from_gradients_;  // by node: made of weight gradients
  NodeId loss_ = kNone;
  int moved_ = 0;
};

}  // namespace

Program schedule_early_updates(const Program& program, std::string* note,
                               std::span<const int64_t> workspace_bytes) {
  auto say = [&](const std::string& text) {
    if (note) *note = text;
  };
  if (queue_count(program) > 1) {
    say("several queues: order kept");
    return program;
  }
  EarlyUpdates early(program);
  const std::vector<NodeId> order = early.order();
  const std::string blocked =
      early.gate() ? std::string("early updates blocked by ") + early.gate() : "";
  if (std::is_sorted(order.begin(), order.end())) {
    say(blocked.empty() ? "nothing to move" : blocked);
    return program;
  }
  Program out = permuted(program, order);
  std::vector<int64_t> workspace;
  for (size_t i = 0; !workspace_bytes.empty() && i < order.size(); ++i) {
    workspace.push_back(workspace_bytes[size_t(order[i])]);
  }
  if (peak_bytes(out, workspace) > peak_bytes(program, workspace_bytes)) {
    say(blocked.empty() ? "early updates would raise the peak: order kept" : blocked);
    return program;
  }
  const std::string moved = std::to_string(early.moved()) + " updates moved";
  say(blocked.empty() ? moved : early.moved() ? moved + "; others: " + blocked : blocked);
  return out;
}

}  // namespace pal
