// Merging values into storages. A group is a storage in the making: its members know their offset.
#include "memory/storages/storages.h"

#include <algorithm>
#include <string>

#include "core/boundary.h"
#include "core/error.h"
#include "core/order.h"

namespace pal {
namespace {

// What every rule asks of the program.
struct Facts {
  const Program& program;
  const Order order;
  const Readers readers;

  explicit Facts(const Program& p) : program(p), order(p), readers(p) {}
  NodeId made(ValueId v) const { return program.value(v).producer; }
  bool is_forward(ValueId v) const {
    return made(v) != kNone && program.node(made(v)).phase == Phase::forward;
  }
  // All who read it, but for `except`, have done so before node n starts.
  bool is_read_before(ValueId v, NodeId n, NodeId except = kNone) const {
    const auto list = readers[v];
    return std::all_of(list.begin(), list.end(),
                       [&](NodeId r) { return r == except || order.before(r, n); });
  }
};

// Storages in the making: values that share bytes, each at an offset of its group.
class Groups {
 public:
  struct Group {
    int64_t bytes = 0;
    Space space = Space::device;
    ValueId first = kNone, last = kNone;  // of its values, a list through Member::next
    int32_t size = 0;                     // how many
    NodeId first_made = kNone, last_made = kNone, last_read = kNone;
    bool persistent = false, input = false, output = false;
  };

  // Every value by itself.
  explicit Groups(const Facts& facts) {
    const Program& program = facts.program;
    groups_.reserve(program.values.size()), members_.reserve(program.values.size());
    for (ValueId v : program.values.ids()) {
      const Value& value = program.value(v);
      const int64_t bytes = value.spec.bytes();
      const auto readers = facts.readers[v];
      members_.push_back({.bytes = bytes,
                          .boundary = row_boundary(value.spec),
                          .group = v,
                          .made = value.producer});
      groups_.push_back({.bytes = bytes,
                         .space = value.space,
                         .first = v,
                         .last = v,
                         .size = 1,
                         .first_made = value.producer,
                         .last_made = value.producer,
                         .last_read = readers.empty() ? kNone : readers.back()});
    }
    for (auto& in : program.inputs) of(in.value).input = true;
    for (auto& out : program.outputs) of(out.value).output = true;
    for (auto& slot : program.state) of(slot.start).persistent = true;
  }

  Group& of(ValueId v) { return groups_[members_[v].group]; }
  const Group& of(ValueId v) const { return groups_[members_[v].group]; }
  bool together(ValueId a, ValueId b) const { return members_[a].group == members_[b].group; }
  int64_t bytes(ValueId v) const { return members_[v].bytes; }
  int64_t offset(ValueId v) const { return members_[v].offset; }
  ValueId next(ValueId v) const { return members_[v].next; }  // in its group
  // The value is all there is of its storage, but for its own windows.
  bool is_whole(ValueId v) const { return offset(v) == 0 && of(v).bytes == bytes(v); }

  // Whether the values of v's group stay on their boundaries when they are moved by so much.
  bool keeps_boundaries(ValueId v, int64_t shift) const {
    for (ValueId m = of(v).first; m != kNone; m = next(m)) {
      if ((members_[m].offset + shift) % members_[m].boundary) return false;
    }
    return true;
  }

  // All of the first one's group comes to lie in the second one's, `shift` bytes in.
  void merge(ValueId from, ValueId into, int64_t shift) {
    const int32_t to = members_[into].group;
    Group &a = of(from), &b = groups_[to];
    for (ValueId v = a.first; v != kNone; v = next(v)) {
      members_[v].group = to;
      members_[v].offset += shift;
    }
    members_[b.last].next = a.first, b.last = a.last, b.size += a.size;
    b.persistent |= a.persistent, b.input |= a.input, b.output |= a.output;
    b.first_made = std::min(a.first_made, b.first_made);
    b.last_made = std::max(a.last_made, b.last_made);
    b.last_read = std::max(a.last_read, b.last_read);
    a.first = a.last = kNone, a.size = 0;
  }

  // As storages: state, inputs, then in order of production, then workspaces.
  Storages numbered(const Program& program, const ByNode<int64_t>& workspace_bytes) const {
    Storages out;
    out.of.assign(members_.size(), kNone);  // stays where nothing makes the value
    out.offset.reserve(members_.size()), out.values.reserve(members_.size());
    for (const Member& m : members_) out.offset.push_back(m.offset);
    auto take = [&](ValueId v) {
      if (out.of[v] != kNone) return;
      const Group& g = of(v);
      const auto begin = std::ptrdiff_t(out.values.size());
      for (ValueId m = g.first; m != kNone; m = next(m)) {
        out.values.push_back(m);
        out.of[m] = out.list.next_id();
      }
      std::sort(out.values.begin() + begin, out.values.end(), [&](ValueId a, ValueId b) {
        return std::pair(members_[a].made, a) < std::pair(members_[b].made, b);
      });
      out.list.push_back({.bytes = g.bytes,
                          .space = g.space,
                          .persistent = g.persistent,
                          .input = g.input,
                          .output = g.output});
      out.values_end.push_back(out.values.size());
    };
    for (auto& slot : program.state) take(slot.start);
    for (auto& in : program.inputs) take(in.value);
    for (const Node& node : program.nodes) {
      for (ValueId v : present(node.out)) take(v);
    }
    out.workspace.assign(program.nodes.size(), kNone);
    for (NodeId n : workspace_bytes.ids()) {
      if (workspace_bytes[n] <= 0) continue;
      out.workspace[n] = out.list.add({.bytes = workspace_bytes[n], .workspace_of = n});
      out.values_end.push_back(out.values.size());
    }
    return out;
  }

 private:
  struct Member {
    int64_t offset = 0, bytes = 0;  // in its group; its own
    int64_t boundary = 1;
    int32_t group = kNone;
    ValueId next = kNone;
    NodeId made = kNone;  // the producer
  };

  std::vector<Group> groups_;
  ByValue<Member> members_;
};

// The rule of state, and which update writes over which value: a view of state must be read for the
// last time before that state is written.
class StateVersions {
 public:
  StateVersions(const Facts& facts, Groups& groups)
      : facts_(facts),
        groups_(groups),
        next_write_(facts.program.values.size(), kNone),
        version_(facts.program.values.size(), kNone) {
    const Program& program = facts.program;
    for (auto& slot : program.state) version_[slot.start] = slot.start;
    for (NodeId n : program.nodes.ids()) {
      const Node& node = program.node(n);
      if (!node.op->writes_state) continue;
      for (size_t i = 0; i < node.out.size(); ++i) {
        const ValueId old = node.in[size_t(written_operand(*node.op, int(i)))];
        if (node.out[i] != kNone || old != kNone) write(n, i, old);
      }
    }
    for (auto& slot : program.state) {
      if (groups.together(slot.start, slot.end)) continue;
      throw ProgramError("state " + slot.name +
                         ": its value at end is not made by updates of its value at start");
    }
  }

  bool may_view(ValueId view, ValueId of) const {
    const NodeId writer = version_[of] == kNone ? kNone : next_write_[version_[of]];
    if (writer == kNone) return true;
    return !groups_.of(view).output && facts_.order.before(facts_.made(view), writer) &&
           facts_.is_read_before(view, writer);
  }
  void add_view(ValueId view, ValueId of) { version_[view] = version_[of]; }

 private:
  // Output i of node n takes the place of the old value.
  void write(NodeId n, size_t i, ValueId old) {
    const Program& program = facts_.program;
    const ValueId now = program.node(n).out[i];
    auto fail = [&](const std::string& what) {
      const Node& node = program.node(n);
      const std::string where = program.scope_of(node);
      throw ProgramError("[" + std::string(node.op->name) + "] node " + std::to_string(n) + ": " +
                         what + (where.empty() ? "" : ", at " + where));
    };
    if (now == kNone || old == kNone || !groups_.of(old).persistent) {
      fail("output " + std::to_string(i) + " must be the next value of a state slot");
    }
    if (groups_.bytes(now) != groups_.bytes(old) ||
        groups_.of(now).space != groups_.of(old).space) {
      fail("the new state is " + to_string(program.value(now).spec) + ", the old one " +
           to_string(program.value(old).spec) + ": they cannot share bytes");
    }
    if (next_write_[old] != kNone) fail("writes state that was written already");
    for (NodeId r : facts_.readers[old]) {
      if (r == n || facts_.order.before(r, n)) continue;
      fail("writes state that node " + std::to_string(r) + " [" + program.node(r).op->name +
           "] may still read; the reader must come first");
    }
    for (auto& out : program.outputs) {
      if (out.value != old) continue;
      fail("writes over output " + out.name + ", which is read after the step; output a copy");
    }
    next_write_[old] = n;
    version_[now] = now;
    groups_.merge(now, old, groups_.offset(old));
  }

  const Facts& facts_;
  Groups& groups_;
  ByValue<NodeId> next_write_;  // by state value: the update that writes over it
  ByValue<ValueId> version_;    // the state value whose bytes it views
};

// The rule of windows, for one node.
void share_windows(const Program& program, const Node& node, StateVersions& versions,
                   Groups& groups, StorageEffect& effect) {
  if (!node.op->windows || node.op->writes_state) return;
  std::vector<std::pair<int64_t, int64_t>> taken;  // of the output, by operands of this node
  for (const NodeWindow& w : windows_of(program, node)) {
    if (groups.together(w.large, w.small) || !groups.is_whole(w.small)) continue;
    const Groups::Group& small = groups.of(w.small);
    const int64_t end = w.offset + groups.bytes(w.small);
    if (groups.of(w.large).space != small.space || small.persistent || small.input) continue;
    if (w.offset < 0 || end > groups.bytes(w.large)) continue;
    if (!groups.keeps_boundaries(w.small, groups.offset(w.large) + w.offset)) continue;
    if (w.is_view) {
      if (!versions.may_view(w.small, w.large)) continue;
      versions.add_view(w.small, w.large);
    } else {
      const bool meets = std::any_of(taken.begin(), taken.end(),
                                     [&](auto& t) { return t.first < end && w.offset < t.second; });
      if (small.output || meets) continue;
      taken.emplace_back(w.offset, end);
    }
    groups.merge(w.small, w.large, groups.offset(w.large) + w.offset);
    ++effect.windows;
  }
}

// The rule of in-place.
class InPlace {
 public:
  InPlace(const Facts& facts, const StorageOptions& options, Groups& groups, StorageEffect& effect)
      : facts_(facts), options_(options), groups_(groups), effect_(effect) {}

  void share(NodeId n) {
    const Node& node = facts_.program.node(n);
    if (node.op->writes_state || node.op->shares.empty()) return;
    for (Share share : shares_of(*node.op, node.in.size())) {
      // Optional operands and the outputs that belong to them may not be there.
      if (size_t(share.output) >= node.out.size() || size_t(share.operand) >= node.in.size())
        continue;
      const ValueId now = node.out[share.output], old = node.in[share.operand];
      if (now == kNone || old == kNone || !may_take(n, now, old)) continue;
      const bool swap = groups_.is_whole(now) && groups_.of(old).size > groups_.of(now).size;
      if (!swap && !groups_.keeps_boundaries(old, groups_.offset(now))) continue;
      swap ? groups_.merge(now, old, 0) : groups_.merge(old, now, groups_.offset(now));
      ++effect_.inplace, effect_.inplace_bytes += groups_.bytes(now);
    }
  }

 private:
  bool may_take(NodeId n, ValueId now, ValueId old) const {
    const Groups::Group &from = groups_.of(old), &to = groups_.of(now);
    if (groups_.together(old, now) || !groups_.is_whole(old) ||
        groups_.bytes(old) != groups_.bytes(now) || from.space != to.space) {
      return false;
    }
    if (from.persistent || from.input || from.output || to.persistent || to.input) return false;
    if (!options_.over_feature_maps && facts_.is_forward(old) && !facts_.is_forward(now)) {
      return false;
    }
    // The kernel is known to bear one operand under its output, not two.
    const Node& node = facts_.program.node(n);
    if (std::count_if(node.in.begin(), node.in.end(),
                      [&](ValueId v) { return v != kNone && groups_.together(v, old); }) != 1) {
      return false;
    }
    if (!is_dead_after(from, n)) return false;
    // Whatever lies where the output will lie is made of it, later. In a larger storage (the
    // operand of a stack) the operand must not make the whole of it live earlier.
    if (!groups_.is_whole(now) && to.first_made >= from.first_made) return false;
    const int64_t begin = groups_.offset(now), end = begin + groups_.bytes(now);
    for (ValueId v = to.first; v != kNone; v = groups_.next(v)) {
      const int64_t at = groups_.offset(v);
      if (v == now || at >= end || at + groups_.bytes(v) <= begin) continue;
      if (!facts_.order.before(n, facts_.made(v))) return false;
    }
    return true;
  }

  // All of it was made before the node, and nobody but the node has still to read it.
  bool is_dead_after(const Groups::Group& group, NodeId n) const {
    if (group.last_made >= n || group.last_read > n) return false;
    if (facts_.order.queues() == 1) return true;
    for (ValueId v = group.first; v != kNone; v = groups_.next(v)) {
      if (!facts_.order.before(facts_.made(v), n) || !facts_.is_read_before(v, n, n)) return false;
    }
    return true;
  }

  const Facts& facts_;
  const StorageOptions& options_;
  Groups& groups_;
  StorageEffect& effect_;
};

// Counts the storages that have a map.
void count_maps_alone(const Program& program, Storages& storages) {
  for (StorageId s : storages.list.ids()) {
    const auto values = storages.values_of(s);
    Storage& storage = storages.list[s];
    storage.counted =
        storage.is_transient() &&
        std::any_of(values.begin(), values.end(), [&](ValueId v) { return is_map(program, v); });
  }
}

}  // namespace

bool is_map(const Program& p, ValueId v) {
  const Value& value = p.value(v);
  const bool counted = value.role == Role::feature_map || value.role == Role::gradient_map ||
                       value.role == Role::encoded;
  return counted && value.space == Space::device && value.producer != kNone &&
         p.node(value.producer).phase != Phase::update;
}

Storages assign_storages(const Program& program, const ByNode<int64_t>& workspace_bytes,
                         const StorageOptions& options, StorageEffect* effect) {
  const Facts facts(program);
  Groups groups(facts);
  StateVersions versions(facts, groups);
  StorageEffect shared;
  if (options.windows) {
    for (const Node& node : program.nodes) share_windows(program, node, versions, groups, shared);
  }
  if (options.inplace) {
    InPlace in_place(facts, options, groups, shared);
    for (NodeId n : program.nodes.ids()) in_place.share(n);
  }
  if (effect) *effect = shared;
  Storages out = groups.numbered(program, workspace_bytes);
  if (options.maps_alone) count_maps_alone(program, out);
  return out;
}

ByStorage<std::vector<NodeId>> touches_of(const Program& program, const Storages& storages) {
  ByStorage<std::vector<NodeId>> touches(storages.list.size());
  for (NodeId n : program.nodes.ids()) {
    auto touch = [&](StorageId s) {
      auto& list = touches[s];
      if (list.empty() || list.back() != n) list.push_back(n);
    };
    for (ValueId v : present(program.node(n).in)) touch(storages.of[v]);
    for (ValueId v : present(program.node(n).out)) touch(storages.of[v]);
    if (storages.workspace[n] != kNone) touch(storages.workspace[n]);
  }
  return touches;
}

bool lies_in_place(const Storages& storages, const NodeWindow& w) {
  return storages.of[w.small] == storages.of[w.large] &&
         storages.offset[w.small] == storages.offset[w.large] + w.offset;
}

std::vector<int64_t> bytes_in_place(const Program& program, const Storages& storages, NodeId n) {
  const Node& node = program.node(n);
  std::vector<int64_t> in_place(node.out.size(), 0);
  for (const NodeWindow& w : windows_of(program, node)) {
    if (lies_in_place(storages, w)) in_place[w.output] += program.value(w.small).spec.bytes();
  }
  return in_place;
}

ByStorage<std::vector<NodeId>> writers_of(const Program& program, const Storages& storages) {
  ByStorage<std::vector<NodeId>> writers(storages.list.size());
  for (NodeId n : program.nodes.ids()) {
    const Node& node = program.node(n);
    const std::vector<int64_t> in_place = bytes_in_place(program, storages, n);
    for (size_t i = 0; i < node.out.size(); ++i) {
      const ValueId v = node.out[i];
      if (v == kNone || in_place[i] >= program.value(v).spec.bytes()) continue;
      auto& list = writers[storages.of[v]];
      if (list.empty() || list.back() != n) list.push_back(n);
    }
    if (storages.workspace[n] != kNone) writers[storages.workspace[n]].push_back(n);
  }
  return writers;
}

std::string name_of(const Program& program, ValueId value) {
  const NodeId producer = program.value(value).producer;
  std::string out;
  for (auto& slot : program.state) {
    if (slot.start == value) out = "state " + slot.name;
  }
  for (auto& in : program.inputs) {
    if (in.value == value) out = "input " + in.name;
  }
  if (producer != kNone) {
    const Node& node = program.node(producer);
    out = program.scope_of(node);
    out += (out.empty() ? "" : " ") + std::string(node.op->name);
    if (node.out.size() > 1) {
      out += "#" +
             std::to_string(std::find(node.out.begin(), node.out.end(), value) - node.out.begin());
    }
  }
  return out + " " + to_string(program.value(value).spec) + " (value " + std::to_string(value) +
         ")";
}

std::string name_of(const Program& program, const Storages& storages, StorageId storage) {
  const Storage& s = storages[storage];
  if (s.workspace_of != kNone) {
    const Node& node = program.node(s.workspace_of);
    const std::string where = program.scope_of(node);
    return where + (where.empty() ? "" : " ") + "workspace of " + node.op->name + " (node " +
           std::to_string(s.workspace_of) + ")";
  }
  return name_of(program, storages.values_of(storage).front());
}

}  // namespace pal
