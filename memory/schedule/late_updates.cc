// From the last one back: each joins the place of those after it, or begins the next place.
#include "memory/schedule/late_updates.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "core/op.h"
#include "memory/schedule/order_graph.h"
#include "memory/storages/lifetimes.h"

namespace pal {
namespace {

class Postponed {
 public:
  Postponed(const Program& program, int64_t limit, const ByNode<int64_t>& workspace,
            const StorageOptions& options, bool sums)
      : p_(program),
        limit_(limit),
        sums_(sums),
        storages_(assign_storages(program, workspace, options)),
        place_(program.nodes.size()),
        awaited_(program.nodes.size(), kNone) {
    const ByStorage<Lifetime> lifetimes = lifetimes_of(program, storages_);
    const std::vector<int64_t> live = live_bytes(program, storages_, lifetimes);
    for (NodeId n : p_.nodes.ids()) {
      place_[n] = n;
      alive_.push_back(std::max(live[size_t(start_of(n))], live[size_t(done_of(n))]));
    }
    for (const Lifetime& one : lifetimes) last_.push_back(NodeId(int32_t((one.end - 1) / 2)));
  }

  // The order, and how many updates moved.
  std::vector<NodeId> run(int& moved) {
    const ByNode<std::vector<NodeId>> before = dependencies_of(p_);
    for (NodeId n = p_.node_count(); n-- > 0;) {
      if (can_wait(p_.node(n)) && !is_awaited_before(n)) {
        NodeId& group = group_of(n);
        if (group == kNone || !fits(n, group)) group = n;
        place_[n] = group, members_[group].push_back(n);
      }
      for (const NodeId d : before[n]) {
        if (awaited_[d] == kNone || place_[n] < awaited_[d]) awaited_[d] = place_[n];
      }
      moved += place_[n] != n;
    }
    std::vector<NodeId> order;
    for (NodeId n : p_.nodes.ids()) {
      if (place_[n] != n) continue;
      if (const auto here = members_.find(n); here != members_.end()) {
        const std::vector<NodeId> together = by_kind(std::move(here->second), before);
        order.insert(order.end(), together.begin(), together.end());
      } else {
        order.push_back(n);
      }
    }
    return order;
  }

 private:
  bool can_wait(const Node& node) const {
    if (!takes_groups(*node.op) || !node.waits.empty()) return false;
    // What reads nothing that a node made is no sum of a gradient (memory/schedule/early_copies.h).
    const bool made = std::any_of(node.in.begin(), node.in.end(), [&](ValueId v) {
      return v != kNone && p_.value(v).producer != kNone;
    });
    return node.op->writes_state || (sums_ && made);
  }

  // The place that nodes like it move to: that of all updates, or of its operator. kNone: none yet.
  NodeId& group_of(NodeId n) {
    const OpDef* const op = p_.node(n).op;
    return groups_.emplace(op->writes_state ? nullptr : op, kNone).first->second;
  }

  // Whether something that depends on it runs before the place of those after it.
  bool is_awaited_before(NodeId n) {
    const NodeId group = group_of(n);
    return group != kNone && awaited_[n] != kNone && awaited_[n] < group;
  }

  // Whether there are the bytes for it to wait for those after it; if so, they are taken.
  bool fits(NodeId n, NodeId group) {
    std::vector<StorageId> held;  // until then
    for (ValueId v : present(p_.node(n).in)) {
      const StorageId s = storages_.of[v];
      const Storage& storage = storages_[s];
      if (!storage.is_transient() || storage.output || storage.space != Space::device) continue;
      if (last_[s] < group && std::find(held.begin(), held.end(), s) == held.end()) {
        held.push_back(s);
      }
    }
    int64_t bytes = 0;
    std::vector<std::pair<NodeId, int64_t>> from;  // after that node so many bytes more
    for (const StorageId s : held) from.emplace_back(last_[s], footprint(storages_[s]));
    std::sort(from.begin(), from.end());
    for (size_t i = 0; i < from.size(); ++i) {
      bytes += from[i].second;
      const NodeId until = i + 1 < from.size() ? from[i + 1].first : group;
      for (NodeId m = from[i].first + 1; m <= until; ++m) {
        if (alive_[m] + bytes > limit_) return false;
      }
    }
    for (const StorageId s : held) {
      for (NodeId m = last_[s] + 1; m <= group; ++m) alive_[m] += footprint(storages_[s]);
      last_[s] = group;
    }
    return true;
  }

  // Those of the same operator and attributes beside each other, after what they wait for.
  std::vector<NodeId> by_kind(std::vector<NodeId> nodes,
                              const ByNode<std::vector<NodeId>>& before) const {
    std::sort(nodes.begin(), nodes.end());
    struct Key {
      int level;
      size_t kind;
      NodeId node;
    };
    std::vector<Key> keys;
    std::vector<NodeId> kinds;  // the first node of each
    for (const NodeId n : nodes) {
      const Node& node = p_.node(n);
      const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](NodeId k) {
        return p_.node(k).op == node.op && p_.node(k).attrs == node.attrs;
      });
      Key key{0, size_t(kind - kinds.begin()), n};
      if (kind == kinds.end()) kinds.push_back(n);
      for (const Key& other : keys) {
        if (std::binary_search(before[n].begin(), before[n].end(), other.node)) {
          key.level = std::max(key.level, other.level + 1);
        }
      }
      keys.push_back(key);
    }
    std::sort(keys.begin(), keys.end(), [](const Key& a, const Key& b) {
      return std::tie(a.level, a.kind, a.node) < std::tie(b.level, b.kind, b.node);
    });
    for (size_t i = 0; i < keys.size(); ++i) nodes[i] = keys[i].node;
    return nodes;
  }

  const Program& p_;
  const int64_t limit_;
  const bool sums_;
  const Storages storages_;
  ByNode<NodeId> place_;    // where it runs: right before the node that is there
  ByNode<NodeId> awaited_;  // the first place of what depends on it
  std::vector<int64_t> alive_;
  ByStorage<NodeId> last_;  // that touches it
  std::map<const OpDef*, NodeId> groups_;
  std::map<NodeId, std::vector<NodeId>> members_;  // by place, its own node first
};

}  // namespace

std::optional<Program> late_updates(const Program& program, int64_t limit,
                                    const ByNode<int64_t>& workspace, const StorageOptions& options,
                                    std::string* note, bool sums) {
  int moved = 0;
  const std::vector<NodeId> order = Postponed(program, limit, workspace, options, sums).run(moved);
  if (moved == 0) return {};
  if (note) *note = std::to_string(moved) + " updates wait for others";
  return permuted(program, order);
}

}  // namespace pal
