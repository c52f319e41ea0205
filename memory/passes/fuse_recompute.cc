// Every occurrence of a pattern becomes a node, as late as the readers of its outputs allow.
#include "memory/passes/fuse_recompute.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "core/prepare.h"
#include "memory/passes/fused_pattern.h"

namespace pal {
namespace {

struct Match {
  const Rewrite* rewrite;
  const Pattern* pattern;
  Binding binding;
  NodeId place = kNone;  // the fused node comes where this node was, or before it
};

class Fuser {
 public:
  Fuser(const Program& program, std::span<const Rewrite* const> rewrites, Rewrite::When when)
      : p_(program),
        readers_(program),
        finder_(program, readers_),
        when_(when),
        kept_(program.values.size(), 0) {
    for (auto& out : p_.outputs) kept_[out.value] = 1;
    for (auto& slot : p_.state) kept_[slot.start] = kept_[slot.end] = 1;
    updates_.assign(p_.nodes.size() + 1, 0);
    for (size_t n = 0; n < p_.nodes.size(); ++n) {
      updates_[n + 1] = updates_[n] + p_.nodes[n].op->writes_state;
    }
    for (const Rewrite* rewrite : rewrites) {
      if (rewrite->when == when) rewrites_.emplace(rewrite->anchor, rewrite);
    }
  }

  Program run(std::string* note) {
    taken_.assign(p_.nodes.size(), kFree);
    for (NodeId n = 0; n < p_.node_count(); ++n) {
      auto [begin, end] = rewrites_.equal_range(p_.node(n).op);
      for (auto at = begin; at != end; ++at) look_around(n, *at->second);
    }
    // Together the matches may ask for an order that there is not: those that do are given up.
    std::vector<Item> order;
    while (true) {
      mark();
      keep_what_is_read();
      const size_t at_fault = arrange(order);
      if (at_fault == matches_.size()) return rewritten(order, note);
      matches_.erase(matches_.begin() + std::ptrdiff_t(at_fault));
    }
  }

 private:
  // Of the new order: a node as it was, or a match.
  struct Item {
    NodeId node = kNone;
    size_t match = 0;
  };

  void look_around(NodeId n, const Rewrite& rewrite) {
    for (const Pattern& pattern : finder_.patterns_of(p_.node(n), rewrite)) {
      const size_t before = matches_.size();
      finder_.find(pattern, n, [&](Binding b) {
        accept({.rewrite = &rewrite, .pattern = &pattern, .binding = std::move(b)});
      });
      if (matches_.size() > before) return;
    }
  }

  // A match whose node can stand somewhere: after its operands, before the readers of its outputs.
  // Of the gradient nodes nobody else may read what is interior, and no other match may have them.
  // Clones may have other readers: then they stay, and are made again in the node too.
  void accept(Match m) {
    const auto& nodes = m.binding.node;
    const auto [first, last] = std::minmax_element(nodes.begin(), nodes.end());
    if (updates_[*last] != updates_[*first]) return;  // state may have moved on
    m.place = *last;
    auto among = [&](NodeId n) { return std::find(nodes.begin(), nodes.end(), n) != nodes.end(); };
    for (size_t i = 0; i < nodes.size(); ++i) {
      const bool may_stay = stays_or_goes(p_.node(nodes[i]));
      if (taken_[nodes[i]] && !(may_stay && taken_[nodes[i]] == kShared)) return;
      for (ValueId v : m.pattern->form.program.node(NodeId(i)).out) {
        const ValueId made = m.binding.value[v];
        if (made == kNone) continue;
        const bool interior = m.pattern->interior[v];
        if (interior && may_stay) continue;
        if (interior && kept_[made]) return;
        for (NodeId r : readers_[made]) {
          if (among(r)) continue;
          if (interior) return;
          m.place = std::min(m.place, r);
        }
      }
    }
    for (ValueId v : m.pattern->form.in) {
      if (v == kNone) continue;
      const NodeId producer = p_.value(m.binding.value[v]).producer;
      if (producer >= m.place || among(producer)) return;
    }
    take(m);
    matches_.push_back(std::move(m));
  }

  void take(const Match& m) {
    const auto& nodes = m.binding.node;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const auto& out = m.pattern->form.program.node(NodeId(i)).out;
      const bool inside =
          std::all_of(out.begin(), out.end(), [&](ValueId v) { return m.pattern->interior[v]; });
      taken_[nodes[i]] = inside && stays_or_goes(p_.node(nodes[i])) ? kShared : kGone;
    }
  }
  void mark() {
    taken_.assign(p_.nodes.size(), kFree);
    for (const Match& m : matches_) take(m);
  }

  bool stays_or_goes(const Node& node) const {
    return when_ == Rewrite::When::recomputed && node.phase != Phase::backward;
  }

  // Of the clones in matches, those that somebody reads who is not fused away stay.
  void keep_what_is_read() {
    for (NodeId n = p_.node_count(); n-- > 0;) {
      if (taken_[n] != kShared) continue;
      for (ValueId v : p_.node(n).out) {
        if (v == kNone) continue;
        bool read = kept_[v];
        for (NodeId r : readers_[v]) read |= !taken_[r];
        if (read) taken_[n] = kFree;
      }
    }
  }

  // Every match at its place, or before it where another one reads what it makes. Returns the match
  // that would read what is not made yet; matches_.size() when there is none.
  size_t arrange(std::vector<Item>& order) const {
    std::multimap<NodeId, size_t> at;
    ByValue<size_t> maker(p_.values.size(), matches_.size());
    ByValue<char> made(p_.values.size(), 0);
    std::vector<char> begun(matches_.size(), 0);
    for (size_t m = 0; m < matches_.size(); ++m) {
      at.emplace(matches_[m].place, m);
      for (ValueId v : outputs_of(matches_[m])) maker[v] = m;
    }
    for (size_t v = 0; v < made.size(); ++v) made[v] = p_.values[v].producer == kNone;
    order.clear();
    size_t at_fault = matches_.size();
    std::function<bool(size_t)> emit = [&](size_t m) {
      if (begun[m]) return true;
      begun[m] = 1;
      for (ValueId v : operands_of(matches_[m])) {
        const size_t by = maker[v];
        if (!made[v] && by < matches_.size() && !emit(by)) return false;
        if (!made[v]) return at_fault = m, false;
      }
      order.push_back({.match = m});
      for (ValueId v : outputs_of(matches_[m])) made[v] = 1;
      return true;
    };
    for (NodeId n = 0; n < p_.node_count(); ++n) {
      for (auto [m, end] = at.equal_range(n); m != end; ++m) {
        if (!emit(m->second)) return at_fault;
      }
      if (taken_[n]) continue;
      for (ValueId v : p_.node(n).in) {
        if (v == kNone || made[v]) continue;
        if (!emit(maker[v])) return at_fault;
      }
      order.push_back({.node = n});
      for (ValueId v : p_.node(n).out) {
        if (v != kNone) made[v] = 1;
      }
    }
    return matches_.size();
  }

  static std::vector<ValueId> bound(const Match& m, const std::vector<ValueId>& values) {
    std::vector<ValueId> out;
    for (ValueId v : values) {
      if (v != kNone && m.binding.value[v] != kNone) {
        out.push_back(m.binding.value[v]);
      }
    }
    return out;
  }
  static std::vector<ValueId> operands_of(const Match& m) { return bound(m, m.pattern->form.in); }
  static std::vector<ValueId> outputs_of(const Match& m) { return bound(m, m.pattern->form.out); }

  Program rewritten(const std::vector<Item>& order, std::string* note) const {
    Program out = without_nodes(p_);
    out.nodes.reserve(order.size());
    for (const Item& item : order) {
      out.nodes.push_back(item.node == kNone ? fused(matches_[item.match]) : p_.node(item.node));
    }
    out.relink();
    if (note) *note = effect();
    return out;
  }

  std::string effect() const {
    if (matches_.empty()) return "nothing to fuse";
    double before = 0, after = 0;
    int gone = 0;
    for (NodeId n = 0; n < p_.node_count(); ++n) {
      if (taken_[n]) ++gone, before += bytes_of(p_.node(n));
    }
    for (const Match& m : matches_) after += bytes_of(fused(m));
    char text[96];
    std::snprintf(text, sizeof text, "%d nodes became %zu: %.3g GB moved instead of %.3g", gone,
                  matches_.size(), after * 1e-9, before * 1e-9);
    return text;
  }

  Node fused(const Match& m) const {
    Node out = p_.node(*std::max_element(m.binding.node.begin(), m.binding.node.end()));
    out.op = m.rewrite->op, out.attrs = m.pattern->form.attrs;
    auto bound = [&](ValueId v) { return v == kNone ? kNone : m.binding.value[v]; };
    out.in.clear(), out.out.clear();
    for (ValueId v : m.pattern->form.in) out.in.push_back(bound(v));
    for (ValueId v : m.pattern->form.out) out.out.push_back(bound(v));
    for (NodeId n : m.binding.node) {
      if (p_.node(n).phase == Phase::backward) out.phase = Phase::backward;
    }
    return out;
  }

  double bytes_of(const Node& node) const {
    return cost_of(*node.op, specs_of(p_, node.in), specs_of(p_, node.out), node.attrs).bytes;
  }

  const Program& p_;
  const Readers readers_;
  PatternFinder finder_;
  const Rewrite::When when_;
  ByValue<char> kept_;                                    // outputs and state
  ByNode<int> updates_;                                   // updates before it
  std::multimap<const OpDef*, const Rewrite*> rewrites_;  // by anchor, in the order of the list
  std::vector<Match> matches_;
  // Whether a node is part of a match. Several matches may use a shared one.
  enum : char { kFree, kShared, kGone };
  ByNode<char> taken_;
};

Program fuse(const Program& program, std::string* note, std::span<const Rewrite* const> rewrites,
             Rewrite::When when) {
  return Fuser(program, rewrites, when).run(note);
}

}  // namespace

Program fuse_recompute(const Program& program, std::string* note,
                       std::span<const Rewrite* const> rewrites) {
  return fuse(program, note, rewrites, Rewrite::When::recomputed);
}
Program fuse_epilogues(const Program& program, std::string* note,
                       std::span<const Rewrite* const> rewrites) {
  return fuse(program, note, rewrites, Rewrite::When::always);
}

}  // namespace pal
