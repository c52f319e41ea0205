// A walk over the pattern says in which order its nodes are reached; the same walk is tried over
// the program.
#include "memory/passes/fused_pattern.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/prepare.h"

namespace pal {
namespace {

Walk walk_over(const Program& p, NodeId anchor) {
  Walk walk{.anchor = anchor};
  ByNode<char> node(p.nodes.size(), 0);
  ByValue<char> value(p.values.size(), 0);
  size_t reached = 0;
  auto reach = [&](NodeId n) {
    node[n] = 1, ++reached;
    for (const auto* list : {&p.node(n).in, &p.node(n).out}) {
      for (ValueId v : present(*list)) value[v] = 1;
    }
  };
  reach(anchor);
  while (true) {
    std::optional<Walk::Edge> next;
    size_t known = 0;  // of readers the one with most known operands: it fails soonest
    for (NodeId n : p.nodes.ids()) {
      if (node[n]) continue;
      for (ValueId v : present(p.node(n).out)) {
        if (value[v]) next = Walk::Edge{n, v, true};
      }
      if (next && next->producer) break;
      size_t count = 0;
      ValueId through = kNone;
      for (ValueId v : present(p.node(n).in)) {
        if (value[v]) ++count, through = v;
      }
      if (count > known) known = count, next = Walk::Edge{n, through, false};
    }
    if (!next) break;
    walk.edges.push_back(*next);
    reach(next->node);
  }
  walk.whole = reached == p.nodes.size();
  return walk;
}

Pattern prepared(FusedPattern form, const OpDef& op, const Attrs& attrs) {
  Pattern out{.form = std::move(form)};
  const Program& p = out.form.program;
  NodeId anchor = kNone;
  for (NodeId n = p.node_count(); n-- > 0;) {
    if (p.node(n).op == &op && p.node(n).attrs == attrs) anchor = n;
  }
  if (anchor != kNone) out.walk = walk_over(p, anchor);
  out.interior.assign(p.values.size(), 0), out.read.assign(p.values.size(), 0);
  for (const Node& node : p.nodes) {
    for (ValueId v : present(node.out)) out.interior[v] = 1;
    for (ValueId v : present(node.in)) out.read[v] = 1;
  }
  for (ValueId v : present(out.form.out)) out.interior[v] = 0;
  return out;
}

}  // namespace

const std::vector<Pattern>& PatternFinder::patterns_of(const Node& anchor, const Rewrite& rewrite) {
  const Specs in = specs_of(p_, anchor.in);
  for (const Known& k : known_) {
    if (k.rewrite == &rewrite && k.attrs == anchor.attrs && k.in == in) return *k.patterns;
  }
  auto patterns = std::make_unique<std::vector<Pattern>>();
  for (FusedPattern& form : rewrite.patterns(in, anchor.attrs)) {
    patterns->push_back(prepared(std::move(form), *anchor.op, anchor.attrs));
  }
  known_.push_back({&rewrite, anchor.attrs, in, std::move(patterns)});
  return *known_.back().patterns;
}

void PatternFinder::find(const Pattern& pattern, NodeId anchor,
                         const std::function<void(Binding)>& found) const {
  if (!pattern.walk.whole) return;
  Binding start{ByNode<NodeId>(pattern.form.program.nodes.size(), kNone),
                ByValue<ValueId>(pattern.form.program.values.size(), kNone)};
  if (bind(pattern, pattern.walk.anchor, anchor, start)) grow(pattern, 0, start, found);
}

bool PatternFinder::bind(const Pattern& pattern, NodeId from, NodeId to, Binding& b) const {
  const Node &want = pattern.form.program.node(from), &node = p_.node(to);
  const bool any_phase = want.phase == Phase::forward;
  if (want.op != node.op || (!any_phase && want.phase != node.phase) || !node.waits.empty() ||
      node.queue != kComputeQueue || want.in.size() != node.in.size() ||
      want.out.size() != node.out.size() || !(want.attrs == node.attrs) ||
      std::find(b.node.begin(), b.node.end(), to) != b.node.end()) {
    return false;
  }
  b.node[from] = to;
  for (size_t k = 0; k < node.in.size(); ++k) {
    if (!bind_value(pattern, want.in[k], node.in[k], b)) return false;
  }
  for (size_t i = 0; i < node.out.size(); ++i) {
    const ValueId v = want.out[i];
    const bool unread = node.out[i] == kNone && (v == kNone || !pattern.read[v]);
    if (!unread && !bind_value(pattern, v, node.out[i], b)) return false;
  }
  return true;
}

bool PatternFinder::bind_value(const Pattern& pattern, ValueId from, ValueId to, Binding& b) const {
  if (from == kNone || to == kNone) return from == to;
  ValueId& bound = b.value[from];
  if (bound != kNone) return bound == to;
  if (!(pattern.form.program.value(from).spec == p_.value(to).spec)) return false;
  bound = to;
  return true;
}

// Takes this edge of the walk and those after it; whatever is whole at the end was found.
void PatternFinder::grow(const Pattern& pattern, size_t edge, const Binding& b,
                         const std::function<void(Binding)>& found) const {
  if (edge == pattern.walk.edges.size()) return found(b);
  const Walk::Edge& e = pattern.walk.edges[edge];
  const ValueId through = b.value[e.through];
  if (through == kNone) return;
  auto attempt = [&](NodeId n) {
    Binding next = b;
    if (bind(pattern, e.node, n, next)) grow(pattern, edge + 1, next, found);
  };
  if (!e.producer) {
    for (NodeId n : readers_[through]) attempt(n);
  } else if (p_.value(through).producer != kNone) {
    attempt(p_.value(through).producer);
  }
}

}  // namespace pal
