// Merging values into storages. A group is a storage in the making: its members know their offset.
#include "memory/storages/storages.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "core/op.h"
#include "core/order.h"
#include "core/prepare.h"

namespace pal {
namespace {

class Assigner {
 public:
  Assigner(const Program& program, const StorageOptions& options)
      : program_(program), options_(options), order_(program), readers_(program) {
    const size_t n = program.values.size();
    groups_.reserve(n), group_.resize(n), members_.reserve(n);
    next_write_.assign(n, kNone), version_.assign(n, kNone);
    for (size_t v = 0; v < n; ++v) {
      const Value& value = program.values[v];
      const int64_t bytes = value.spec.bytes();
      group_[v] = int32_t(v);
      members_.push_back({.bytes = bytes, .made = value.producer});
      groups_.push_back({.bytes = bytes,
                         .space = value.space,
                         .first = ValueId(v),
                         .last = ValueId(v),
                         .size = 1,
                         .first_made = value.producer,
                         .last_made = value.producer,
                         .last_read = readers_[v].empty() ? kNone : readers_[v].back()});
    }
    for (auto& in : program.inputs) group_of(in.value).input = true;
    for (auto& out : program.outputs) group_of(out.value).output = true;
    for (auto& slot : program.state) {
      group_of(slot.start).persistent = true;
      version_[slot.start] = slot.start;
    }
  }

  Storages run(const ByNode<int64_t>& workspace_bytes, StorageEffect* effect) {
    share_state();
    if (options_.windows) {
      for (NodeId n = 0; n < program_.node_count(); ++n) share_windows(n);
    }
    if (options_.inplace) {
      for (NodeId n = 0; n < program_.node_count(); ++n) share_in_place(n);
    }
    if (effect) *effect = effect_;
    return number(workspace_bytes);
  }

 private:
  struct Group {
    int64_t bytes = 0;
    Space space = Space::device;
    ValueId first = kNone, last = kNone;  // of its values, a list through Member::next
    int32_t size = 0;                     // how many
    NodeId first_made = kNone, last_made = kNone, last_read = kNone;
    bool persistent = false, input = false, output = false;
  };

  struct Member {
    int64_t offset = 0, bytes = 0;  // in its group; its own
    ValueId next = kNone;
    NodeId made = kNone;  // the producer
  };

  Group& group_of(ValueId v) { return groups_[group_[v]]; }
  const Member& member(ValueId v) const { return members_[v]; }
  int64_t bytes(ValueId v) const { return member(v).bytes; }
  int64_t offset(ValueId v) const { return member(v).offset; }
  NodeId made(ValueId v) const { return member(v).made; }
  bool is_forward(ValueId v) const {
    return made(v) != kNone && program_.node(made(v)).phase == Phase::forward;
  }
  // The value is all there is of its storage, but for its own windows.
  bool is_whole(ValueId v) { return offset(v) == 0 && group_of(v).bytes == bytes(v); }

  // All of `from` comes to lie in `to`, `shift` bytes in.
  void merge(int32_t from, int32_t to, int64_t shift) {
    Group &a = groups_[from], &b = groups_[to];
    for (ValueId v = a.first; v != kNone; v = member(v).next) {
      group_[v] = to;
      members_[v].offset += shift;
    }
    members_[b.last].next = a.first, b.last = a.last, b.size += a.size;
    b.persistent |= a.persistent, b.input |= a.input, b.output |= a.output;
    b.first_made = std::min(a.first_made, b.first_made);
    b.last_made = std::max(a.last_made, b.last_made);
    b.last_read = std::max(a.last_read, b.last_read);
    a.first = a.last = kNone, a.size = 0;
  }

  [[noreturn]] void fail(NodeId n, const std::string& what) const {
    const Node& node = program_.node(n);
    const std::string where = program_.scope_of(node);
    throw ProgramError("[" + std::string(node.op->name) + "] node " + std::to_string(n) + ": " +
                       what + (where.empty() ? "" : ", at " + where));
  }

  void share_state() {
    for (NodeId n = 0; n < program_.node_count(); ++n) {
      const Node& node = program_.node(n);
      if (!node.op->writes_state) continue;
      for (size_t i = 0; i < node.out.size(); ++i) {
        const ValueId now = node.out[i];
        const ValueId old = node.in[size_t(written_operand(*node.op, int(i)))];
        if (now == kNone && old == kNone) continue;
        if (now == kNone || old == kNone || !group_of(old).persistent) {
          fail(n, "output " + std::to_string(i) + " must be the next value of a state slot");
        }
        if (bytes(now) != bytes(old) || group_of(now).space != group_of(old).space) {
          fail(n, "the new state is " + to_string(program_.value(now).spec) + ", the old one " +
                      to_string(program_.value(old).spec) + ": they cannot share bytes");
        }
        if (next_write_[old] != kNone) fail(n, "writes state that was written already");
        for (NodeId r : readers_[old]) {
          if (r != n && !order_.before(r, n)) {
            fail(n, "writes state that node " + std::to_string(r) + " [" +
                        program_.node(r).op->name + "] may still read; the reader must come first");
          }
        }
        for (auto& out : program_.outputs) {
          if (out.value == old) {
            fail(n, "writes over output " + out.name +
                        ", which is read after the step; output a copy");
          }
        }
        next_write_[old] = n;
        version_[now] = now;
        merge(group_[now], group_[old], offset(old));
      }
    }
    for (auto& slot : program_.state) {
      if (group_[slot.start] != group_[slot.end]) {
        throw ProgramError("state " + slot.name +
                           ": its value at end is not made by updates of its value at start");
      }
    }
  }

  void share_windows(NodeId n) {
    const Node& node = program_.node(n);
    if (!node.op->windows || node.op->writes_state) return;
    std::vector<std::pair<int64_t, int64_t>> taken;  // of the output, by operands of this node
    const Specs in = specs_of(program_, node.in), out = specs_of(program_, node.out);
    for (const Window& w : node.op->windows(in, out, node.attrs)) {
      const ValueId large = w.of == Window::Of::operand ? node.in[w.operand] : node.out[w.output];
      const ValueId small = w.of == Window::Of::operand ? node.out[w.output] : node.in[w.operand];
      if (large == kNone || small == kNone || group_[large] == group_[small]) continue;
      if (group_of(large).space != group_of(small).space || !is_whole(small)) continue;
      if (w.offset < 0 || w.offset + bytes(small) > bytes(large)) continue;
      if (group_of(small).persistent || group_of(small).input) continue;
      if (w.of == Window::Of::operand) {
        if (!may_view(small, large)) continue;
        version_[small] = version_[large];
      } else {
        if (group_of(small).output) continue;
        const int64_t end = w.offset + bytes(small);
        if (std::any_of(taken.begin(), taken.end(),
                        [&](auto& t) { return t.first < end && w.offset < t.second; })) {
          continue;
        }
        taken.push_back({w.offset, end});
      }
      merge(group_[small], group_[large], offset(large) + w.offset);
      ++effect_.windows, effect_.window_bytes += bytes(small);
    }
  }

  // A view of state must be read for the last time before that state is written.
  bool may_view(ValueId view, ValueId of) {
    const ValueId version = version_[of];
    const NodeId writer = version == kNone ? kNone : next_write_[version];
    if (writer == kNone) return true;
    return !group_of(view).output && order_.before(made(view), writer) &&
           all_before(readers_[view], writer, kNone);
  }

  bool all_before(std::span<const NodeId> nodes, NodeId n, NodeId except) const {
    return std::all_of(nodes.begin(), nodes.end(),
                       [&](NodeId r) { return r == except || order_.before(r, n); });
  }

  void share_in_place(NodeId n) {
    const Node& node = program_.node(n);
    if (node.op->writes_state || node.op->shares.empty()) return;
    for (Share share : shares_of(*node.op, node.in.size())) {
      // Optional operands and the outputs that belong to them may not be there.
      if (size_t(share.output) >= node.out.size() || size_t(share.operand) >= node.in.size())
        continue;
      const ValueId now = node.out[share.output], old = node.in[share.operand];
      if (now == kNone || old == kNone || !may_take(n, now, old)) continue;
      const int32_t a = group_[old], b = group_[now];
      const bool swap = is_whole(now) && groups_[a].size > groups_[b].size;
      swap ? merge(b, a, 0) : merge(a, b, offset(now));
      ++effect_.inplace, effect_.inplace_bytes += bytes(now);
    }
  }

  bool may_take(NodeId n, ValueId now, ValueId old) {
    const int32_t a = group_[old], b = group_[now];
    const Group &from = groups_[a], &to = groups_[b];
    if (a == b || !is_whole(old) || bytes(old) != bytes(now) || from.space != to.space)
      return false;
    if (from.persistent || from.input || from.output || to.persistent || to.input) return false;
    if (!options_.over_feature_maps && is_forward(old) && !is_forward(now)) return false;
    // The kernel is known to bear one operand under its output, not two.
    const Node& node = program_.node(n);
    if (std::count_if(node.in.begin(), node.in.end(),
                      [&](ValueId v) { return v != kNone && group_[v] == a; }) != 1) {
      return false;
    }
    if (!is_dead_after(from, n)) return false;
    // Whatever lies where the output will lie is made of it, later. In a larger storage (the
    // operand of a stack) the operand must not make the whole of it live earlier.
    if (!is_whole(now) && to.first_made >= from.first_made) return false;
    const int64_t begin = offset(now), end = begin + bytes(now);
    for (ValueId v = to.first; v != kNone; v = member(v).next) {
      if (v == now || offset(v) >= end || offset(v) + bytes(v) <= begin) continue;
      if (!order_.before(n, made(v))) return false;
    }
    return true;
  }

  // All of it was made before the node, and nobody but the node has still to read it.
  bool is_dead_after(const Group& group, NodeId n) const {
    if (group.last_made >= n || group.last_read > n) return false;
    if (order_.queues() == 1) return true;
    for (ValueId v = group.first; v != kNone; v = member(v).next) {
      if (!order_.before(made(v), n)) return false;
      if (!all_before(readers_[v], n, n)) return false;
    }
    return true;
  }

  Storages number(const ByNode<int64_t>& workspace_bytes) {
    Storages out;
    const size_t n = program_.values.size();
    out.of.assign(n, kNone);  // stays where nothing makes the value
    out.offset.reserve(n), out.values.reserve(n);
    for (const Member& m : members_) out.offset.push_back(m.offset);
    auto take = [&](ValueId v) {
      if (v == kNone || out.of[v] != kNone) return;
      const Group& g = group_of(v);
      const auto begin = std::ptrdiff_t(out.values.size());
      for (ValueId m = g.first; m != kNone; m = member(m).next) {
        out.values.push_back(m);
        out.of[m] = StorageId(out.list.size());
      }
      std::sort(out.values.begin() + begin, out.values.end(), [&](ValueId a, ValueId b) {
        return made(a) != made(b) ? made(a) < made(b) : a < b;
      });
      out.list.push_back({.bytes = g.bytes,
                          .space = g.space,
                          .persistent = g.persistent,
                          .input = g.input,
                          .output = g.output});
      out.values_end.push_back(out.values.size());
    };
    for (auto& slot : program_.state) take(slot.start);
    for (auto& in : program_.inputs) take(in.value);
    for (const Node& node : program_.nodes) {
      for (ValueId v : node.out) take(v);
    }
    out.workspace.assign(program_.nodes.size(), kNone);
    for (size_t i = 0; i < workspace_bytes.size(); ++i) {
      if (workspace_bytes[i] <= 0) continue;
      out.workspace[i] = StorageId(out.list.size());
      out.list.push_back({.bytes = workspace_bytes[i], .workspace_of = NodeId(i)});
      out.values_end.push_back(out.values.size());
    }
    return out;
  }

  const Program& program_;
  const StorageOptions options_;
  const Order order_;
  const Readers readers_;
  std::vector<Group> groups_;
  ByValue<int32_t> group_;
  ByValue<Member> members_;
  ByValue<NodeId> next_write_;  // by state value: the update that writes over it
  ByValue<ValueId> version_;    // the state value whose bytes it views
  StorageEffect effect_;
};

}  // namespace

Storages assign_storages(const Program& program, const ByNode<int64_t>& workspace_bytes,
                         const StorageOptions& options, StorageEffect* effect) {
  return Assigner(program, options).run(workspace_bytes, effect);
}

ByStorage<std::vector<NodeId>> touches_of(const Program& program, const Storages& storages) {
  ByStorage<std::vector<NodeId>> touches(storages.list.size());
  auto touch = [&](StorageId s, NodeId n) {
    if (s == kNone) return;
    auto& list = touches[s];
    if (list.empty() || list.back() != n) list.push_back(n);
  };
  for (NodeId n = 0; n < program.node_count(); ++n) {
    const Node& node = program.node(n);
    for (ValueId v : node.in) touch(v == kNone ? kNone : storages.of[v], n);
    for (ValueId v : node.out) touch(v == kNone ? kNone : storages.of[v], n);
    touch(storages.workspace[n], n);
  }
  return touches;
}

std::vector<int64_t> bytes_in_place(const Program& program, const Storages& storages, NodeId n) {
  const Node& node = program.node(n);
  std::vector<int64_t> in_place(node.out.size(), 0);
  if (!node.op->windows) return in_place;
  const Specs in = specs_of(program, node.in), out = specs_of(program, node.out);
  for (const Window& w : node.op->windows(in, out, node.attrs)) {
    const ValueId small = w.of == Window::Of::operand ? node.out[w.output] : node.in[w.operand];
    const ValueId large = w.of == Window::Of::operand ? node.in[w.operand] : node.out[w.output];
    if (small == kNone || large == kNone) continue;
    if (storages.of[small] == storages.of[large] &&
        storages.offset[small] == storages.offset[large] + w.offset) {
      in_place[w.output] += program.value(small).spec.bytes();
    }
  }
  return in_place;
}

ByStorage<std::vector<NodeId>> writers_of(const Program& program, const Storages& storages) {
  ByStorage<std::vector<NodeId>> writers(storages.list.size());
  for (NodeId n = 0; n < program.node_count(); ++n) {
    const Node& node = program.node(n);
    const std::vector<int64_t> in_place = bytes_in_place(program, storages, n);
    for (size_t i = 0; i < node.out.size(); ++i) {
      if (node.out[i] == kNone || in_place[i] >= program.value(node.out[i]).spec.bytes()) continue;
      auto& list = writers[size_t(storages.of[node.out[i]])];
      if (list.empty() || list.back() != n) list.push_back(n);
    }
    if (storages.workspace[n] != kNone) {
      writers[storages.workspace[n]].push_back(n);
    }
  }
  return writers;
}

std::string name_of(const Program& program, ValueId id) {
  const Value& value = program.value(id);
  std::string out;
  for (auto& slot : program.state) {
    if (slot.start == id) out = "state " + slot.name;
  }
  for (auto& in : program.inputs) {
    if (in.value == id) out = "input " + in.name;
  }
  if (value.producer != kNone) {
    const Node& node = program.node(value.producer);
    out = program.scope_of(node);
    out += (out.empty() ? "" : " ") + std::string(node.op->name);
    if (node.out.size() > 1) {
      out +=
          "#" + std::to_string(std::find(node.out.begin(), node.out.end(), id) - node.out.begin());
    }
  }
  return out + " " + to_string(value.spec) + " (value " + std::to_string(id) + ")";
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
