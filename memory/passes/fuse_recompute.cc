// Every occurrence of a pattern becomes a node, as late as the readers of its outputs allow.
#include "memory/passes/fuse_recompute.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/op.h"
#include "memory/passes/fused_pattern.h"

namespace pal {
namespace {

struct Match {
  const Rewrite* rewrite;
  const Pattern* pattern;
  Binding binding;
  NodeId latest = kNone;  // the fused node comes where this node was, or before it

  // The node that stays and gets other attributes; kNone where there is none.
  NodeId stays() const {
    const NodeId n = pattern->form.stays.node;
    return n == kNone ? kNone : binding.node[n];
  }
  // The nodes that it takes the place of.
  std::vector<NodeId> own() const {
    std::vector<NodeId> out;
    for (NodeId i : binding.node.ids()) {
      if (i != pattern->form.stays.node && !pattern->form.is_given(i))
        out.push_back(binding.node[i]);
    }
    return out;
  }
  std::vector<ValueId> operands() const { return bound(pattern->form.in); }
  std::vector<ValueId> outputs() const { return bound(pattern->form.out); }
  // The step's values for those of the pattern; kNone stays.
  std::vector<ValueId> bound(const std::vector<ValueId>& values) const {
    std::vector<ValueId> out;
    for (ValueId v : values) out.push_back(v == kNone ? kNone : binding.value[v]);
    return out;
  }
};

// The matches that can be fused one by one, and what becomes of the step's nodes with all of them.
class Matches {
 public:
  // Several matches may use a shared node.
  enum class Part : uint8_t { none, shared, gone, stays };

  Matches(const Program& program, std::span<const Rewrite* const> rewrites, Rewrite::When when)
      : p_(program),
        readers_(program),
        finder_(program, readers_),
        when_(when),
        kept_(program.values.size(), 0),
        updates_(program.nodes.size() + 1, 0),
        part_(program.nodes.size(), Part::none) {
    for (auto& out : p_.outputs) kept_[out.value] = 1;
    for (auto& slot : p_.state) kept_[slot.start] = kept_[slot.end] = 1;
    for (NodeId n : p_.nodes.ids()) updates_[n + 1] = updates_[n] + p_.node(n).op->writes_state;
    for (NodeId n : p_.nodes.ids()) {
      for (const Rewrite* rewrite : rewrites) {
        if (rewrite->when == when && rewrite->anchor == p_.node(n).op) look_around(n, *rewrite);
      }
    }
    keep_what_is_read();
  }

  const std::vector<Match>& list() const { return list_; }
  bool is_fused(NodeId n) const { return part_[n] == Part::shared || part_[n] == Part::gone; }
  void drop(size_t match) {
    list_.erase(list_.begin() + std::ptrdiff_t(match));
    part_.assign(p_.nodes.size(), Part::none);
    for (const Match& m : list_) take(m);
    keep_what_is_read();
  }

 private:
  void look_around(NodeId n, const Rewrite& rewrite) {
    for (const Pattern& pattern : finder_.patterns_of(p_.node(n), rewrite)) {
      const size_t before = list_.size();
      finder_.find(pattern, n, [&](Binding b) {
        accept({.rewrite = &rewrite, .pattern = &pattern, .binding = std::move(b)});
      });
      if (list_.size() > before) return;
    }
  }

  // A match whose node can stand somewhere: after its operands, before the readers of its outputs.
  // Of the gradient nodes nobody else may read what is interior, and no other match may have them.
  // Clones may have other readers: then they stay, and are made again in the node too.
  // What a node that stays makes is read by them alone, or not by them.
  void accept(Match m) {
    const auto& nodes = m.binding.node;
    const NodeId stays = m.stays();
    const std::vector<NodeId> own = m.own();
    const auto [first, last] = std::minmax_element(own.begin(), own.end());
    if (updates_[*last] != updates_[*first]) return;  // state may have moved on
    m.latest = *last;
    auto among = [](const auto& list, NodeId n) {
      return std::find(list.begin(), list.end(), n) != list.end();
    };
    for (NodeId i : nodes.ids()) {
      if (m.pattern->form.is_given(i)) continue;
      const bool may_stay = stays_or_goes(p_.node(nodes[i]));
      const Part part = part_[nodes[i]];
      if (part != Part::none && (part != Part::shared || !may_stay)) return;
      for (ValueId v : present(m.pattern->form.program.node(i).out)) {
        const ValueId made = m.binding.value[v];
        if (made == kNone || (nodes[i] == stays && !m.pattern->read[v])) continue;
        const bool interior = m.pattern->interior[v];
        if (interior && may_stay) continue;
        if (interior && kept_[made]) return;
        for (NodeId r : readers_[made]) {
          if (among(nodes, r)) continue;
          if (interior) return;
          m.latest = std::min(m.latest, r);
        }
      }
    }
    const std::vector<ValueId> operands = m.operands();
    for (ValueId v : present(operands)) {
      const NodeId producer = p_.value(v).producer;
      if (producer >= m.latest || among(own, producer)) return;
    }
    take(m);
    list_.push_back(std::move(m));
  }

  void take(const Match& m) {
    for (NodeId i : m.binding.node.ids()) {
      if (m.pattern->form.is_given(i)) continue;
      const NodeId n = m.binding.node[i];
      bool inside = stays_or_goes(p_.node(n));
      for (ValueId v : present(m.pattern->form.program.node(i).out)) {
        inside &= bool(m.pattern->interior[v]);
      }
      part_[n] = n == m.stays() ? Part::stays : inside ? Part::shared : Part::gone;
    }
  }

  bool stays_or_goes(const Node& node) const {
    return when_ == Rewrite::When::recomputed && node.phase != Phase::backward;
  }

  // Of the clones in matches, those that somebody reads who is not fused away stay.
  void keep_what_is_read() {
    for (NodeId n = p_.node_count(); n-- > 0;) {
      if (part_[n] != Part::shared) continue;
      for (ValueId v : present(p_.node(n).out)) {
        const auto readers = readers_[v];
        const bool read = kept_[v] || !std::all_of(readers.begin(), readers.end(),
                                                   [&](NodeId r) { return is_fused(r); });
        if (read) part_[n] = Part::none;
      }
    }
  }

  const Program& p_;
  const Readers readers_;
  PatternFinder finder_;
  const Rewrite::When when_;
  ByValue<char> kept_;   // outputs and state
  ByNode<int> updates_;  // updates before it
  std::vector<Match> list_;
  ByNode<Part> part_;
};

// The order of the new program: matches as late as they may be, or before that where others read
// what they make.
class Arrangement {
 public:
  struct Item {  // a node as it was, or a match
    NodeId node = kNone;
    size_t match = 0;
  };

  Arrangement(const Program& program, const Matches& matches)
      : p_(program),
        matches_(matches.list()),
        at_fault_(matches_.size()),
        begun_(matches_.size(), 0),
        maker_(program.values.size(), matches_.size()),
        made_(program.values.size(), 0) {
    std::multimap<NodeId, size_t> at;
    for (size_t m = 0; m < matches_.size(); ++m) {
      at.emplace(matches_[m].latest, m);
      const std::vector<ValueId> outputs = matches_[m].outputs();
      for (ValueId v : present(outputs)) maker_[v] = m;
    }
    for (ValueId v : made_.ids()) made_[v] = p_.value(v).producer == kNone;
    for (NodeId n : p_.nodes.ids()) {
      for (auto [m, end] = at.equal_range(n); m != end; ++m) {
        if (!emit(m->second)) return;
      }
      if (matches.is_fused(n)) continue;
      for (ValueId v : present(p_.node(n).in)) {
        if (!made_[v] && !emit(maker_[v])) return;
      }
      append({.node = n}, p_.node(n).out);
    }
  }

  const std::vector<Item>& order() const { return order_; }
  // The match that would read what is not made yet; their number when there is none.
  size_t at_fault() const { return at_fault_; }

 private:
  bool emit(size_t m) {
    if (begun_[m]) return true;
    begun_[m] = 1;
    const std::vector<ValueId> operands = matches_[m].operands();
    for (ValueId v : present(operands)) {
      if (!made_[v] && maker_[v] < matches_.size() && !emit(maker_[v])) return false;
      if (!made_[v]) return at_fault_ = m, false;
    }
    append({.match = m}, matches_[m].outputs());
    return true;
  }
  void append(Item item, const std::vector<ValueId>& outputs) {
    order_.push_back(item);
    for (ValueId v : present(outputs)) made_[v] = 1;
  }

  const Program& p_;
  const std::vector<Match>& matches_;
  std::vector<Item> order_;
  size_t at_fault_;
  std::vector<char> begun_;  // by match
  ByValue<size_t> maker_;    // the match that makes it
  ByValue<char> made_;
};

Node fused(const Program& p, const Match& m) {
  const std::vector<NodeId> nodes = m.own();
  Node out = p.node(*std::max_element(nodes.begin(), nodes.end()));
  out.op = m.rewrite->op, out.attrs = m.pattern->form.attrs;
  out.in = m.operands(), out.out = m.outputs();
  for (NodeId n : nodes) {
    if (p.node(n).phase == Phase::backward) out.phase = Phase::backward;
    if (out.phase == Phase::encode) out.phase = p.node(n).phase;  // of what is encoded
  }
  return out;
}

std::string effect_of(const Program& p, const Matches& matches) {
  if (matches.list().empty()) return "nothing to fuse";
  double before = 0, after = 0;
  int gone = 0;
  for (NodeId n : p.nodes.ids()) {
    if (matches.is_fused(n)) ++gone, before += cost_of(p, p.node(n)).bytes;
  }
  for (const Match& m : matches.list()) after += cost_of(p, fused(p, m)).bytes;
  char text[96];
  std::snprintf(text, sizeof text, "%d nodes became %zu: %.3g GB moved instead of %.3g", gone,
                matches.list().size(), after * 1e-9, before * 1e-9);
  return text;
}

Program fuse(Program program, std::string* note, std::span<const Rewrite* const> rewrites,
             Rewrite::When when) {
  Matches matches(program, rewrites, when);
  std::optional<Arrangement> arranged;
  // Together the matches may ask for an order that there is not: those that do are given up.
  while (arranged.emplace(program, matches).at_fault() < matches.list().size()) {
    matches.drop(arranged->at_fault());
  }
  if (note) *note = effect_of(program, matches);
  if (matches.list().empty()) return program;
  ByNode<Node> nodes;
  nodes.reserve(arranged->order().size());
  // The matches first: they read nodes that are moved then.
  std::vector<Node> made;
  for (const Match& m : matches.list()) made.push_back(fused(program, m));
  for (const Match& m : matches.list()) {
    if (m.stays() != kNone) program.node(m.stays()).attrs = m.pattern->form.stays.attrs;
  }
  // Nodes of matches wait for none and nobody waits for them; the others keep their order.
  ByNode<NodeId> number(program.nodes.size(), kNone);
  for (const Arrangement::Item& item : arranged->order()) {
    if (item.node != kNone) {
      number[item.node] = nodes.next_id();
      for (NodeId& wait : program.node(item.node).waits) wait = number[wait];
    }
    nodes.push_back(std::move(item.node == kNone ? made[item.match] : program.node(item.node)));
  }
  program.nodes = std::move(nodes);
  program.relink();
  return program;
}

}  // namespace

Program fuse_recompute(Program program, std::string* note,
                       std::span<const Rewrite* const> rewrites) {
  return fuse(std::move(program), note, rewrites, Rewrite::When::recomputed);
}
Program fuse_first(Program program, std::string* note, std::span<const Rewrite* const> rewrites) {
  return fuse(std::move(program), note, rewrites, Rewrite::When::first);
}
Program fuse_epilogues(Program program, std::string* note,
                       std::span<const Rewrite* const> rewrites) {
  return fuse(std::move(program), note, rewrites, Rewrite::When::always);
}

Program fused_by(const Fusions& which, Program program) {
  if (which.recomputed) program = fuse_recompute(std::move(program));
  return which.epilogues ? fuse_epilogues(std::move(program)) : program;
}

Program fuse_encoders(Program program, std::string* note,
                      std::span<const Rewrite* const> rewrites) {
  return fuse(std::move(program), note, rewrites, Rewrite::When::encoded);
}

}  // namespace pal
