// Merging values into storages. A group is a storage in the making: its members know their offset.
#include "memory/storages.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "core/op.h"
#include "core/order.h"
#include "core/prepare.h"
#include "memory/walk.h"

namespace pal {
namespace {

class Assigner {
 public:
  Assigner(const Program& program, const StorageOptions& options)
      : program_(program), options_(options), order_(program), readers_(program) {
    const size_t n = program.values.size();
    groups_.resize(n), group_.resize(n), offset_.assign(n, 0), next_.assign(n, kNone);
    bytes_.resize(n);
    next_write_.assign(n, kNone), version_.assign(n, kNone);
    for (size_t v = 0; v < n; ++v) {
      group_[v] = int32_t(v);
      groups_[v].bytes = bytes_[v] = program.values[v].spec.bytes();
      groups_[v].space = program.values[v].space;
      groups_[v].first = groups_[v].last = ValueId(v), groups_[v].size = 1;
    }
    for (auto& in : program.inputs) group_of(in.value).input = true;
    for (auto& out : program.outputs) group_of(out.value).output = true;
    for (auto& slot : program.state) {
      group_of(slot.start).persistent = true;
      version_[size_t(slot.start)] = slot.start;
    }
  }

  Storages run(std::span<const int64_t> workspace_bytes, StorageEffect* effect) {
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
    ValueId first = kNone, last = kNone;  // of its values, a list through next_
    int32_t size = 0;                     // how many
    bool persistent = false, input = false, output = false;
  };

  Group& group_of(ValueId v) { return groups_[size_t(group_[size_t(v)])]; }
  int64_t bytes(ValueId v) const { return bytes_[size_t(v)]; }
  bool is_forward(ValueId v) const {
    const NodeId producer = program_.value(v).producer;
    return producer != kNone && program_.node(producer).phase == Phase::forward;
  }
  // The value is all there is of its storage, but for its own windows.
  bool is_whole(ValueId v) {
    return offset_[size_t(v)] == 0 && group_of(v).bytes == bytes(v);
  }

  // All of `from` comes to lie in `to`, `shift` bytes in.
  void merge(int32_t from, int32_t to, int64_t shift) {
    Group &a = groups_[size_t(from)], &b = groups_[size_t(to)];
    for (ValueId v = a.first; v != kNone; v = next_[size_t(v)]) {
      group_[size_t(v)] = to;
      offset_[size_t(v)] += shift;
    }
    next_[size_t(b.last)] = a.first, b.last = a.last, b.size += a.size;
    b.persistent |= a.persistent, b.input |= a.input, b.output |= a.output;
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
        if (next_write_[size_t(old)] != kNone) fail(n, "writes state that was written already");
        for (NodeId r : readers_[size_t(old)]) {
          if (r != n && !order_.before(r, n)) {
            fail(n, "writes state that node " + std::to_string(r) + " [" +
                        program_.node(r).op->name + "] may still read; the reader must come first");
          }
        }
        for (auto& out : program_.outputs) {
          if (out.value == old) {
            fail(n, "writes over output " + out.name + ", which is read after the step; output a copy");
          }
        }
        next_write_[size_t(old)] = n;
        version_[size_t(now)] = now;
        merge(group_[size_t(now)], group_[size_t(old)], offset_[size_t(old)]);
      }
    }
    for (auto& slot : program_.state) {
      if (group_[size_t(slot.start)] != group_[size_t(slot.end)]) {
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
      const ValueId large = w.of == Window::Of::operand ? node.in[size_t(w.operand)]
                                                        : node.out[size_t(w.output)];
      const ValueId small = w.of == Window::Of::operand ? node.out[size_t(w.output)]
                                                        : node.in[size_t(w.operand)];
      if (large == kNone || small == kNone || group_[size_t(large)] == group_[size_t(small)]) continue;
      if (group_of(large).space != group_of(small).space || !is_whole(small)) continue;
      if (w.offset < 0 || w.offset + bytes(small) > bytes(large)) continue;
      if (group_of(small).persistent || group_of(small).input) continue;
      if (w.of == Window::Of::operand) {
        if (!may_view(small, large)) continue;
        version_[size_t(small)] = version_[size_t(large)];
      } else {
        if (group_of(small).output) continue;
        const int64_t end = w.offset + bytes(small);
        if (std::any_of(taken.begin(), taken.end(), [&](auto& t) {
              return t.first < end && w.offset < t.second;
            })) {
          continue;
        }
        taken.push_back({w.offset, end});
      }
      merge(group_[size_t(small)], group_[size_t(large)], offset_[size_t(large)] + w.offset);
      ++effect_.windows, effect_.window_bytes += bytes(small);
    }
  }

  // A view of state must be read for the last time before that state is written.
  bool may_view(ValueId view, ValueId of) {
    const ValueId version = version_[size_t(of)];
    const NodeId writer = version == kNone ? kNone : next_write_[size_t(version)];
    if (writer == kNone) return true;
    return !group_of(view).output && order_.before(program_.value(view).producer, writer) &&
           all_before(readers_[size_t(view)], writer, kNone);
  }

  bool all_before(std::span<const NodeId> nodes, NodeId n, NodeId except) const {
    return std::all_of(nodes.begin(), nodes.end(),
                       [&](NodeId r) { return r == except || order_.before(r, n); });
  }

  void share_in_place(NodeId n) {
    const Node& node = program_.node(n);
    if (node.op->writes_state) return;
    for (Share share : shares_of(*node.op, node.in.size())) {
      // Optional operands and the outputs that belong to them may not be there.
      if (size_t(share.output) >= node.out.size() || size_t(share.operand) >= node.in.size()) continue;
      const ValueId now = node.out[size_t(share.output)], old = node.in[size_t(share.operand)];
      if (now == kNone || old == kNone || !may_take(n, now, old)) continue;
      const int32_t a = group_[size_t(old)], b = group_[size_t(now)];
      const bool swap = is_whole(now) && groups_[size_t(a)].size > groups_[size_t(b)].size;
      swap ? merge(b, a, 0) : merge(a, b, offset_[size_t(now)]);
      ++effect_.inplace, effect_.inplace_bytes += bytes(now);
    }
  }

  bool may_take(NodeId n, ValueId now, ValueId old) {
    const int32_t a = group_[size_t(old)], b = group_[size_t(now)];
    const Group &from = groups_[size_t(a)], &to = groups_[size_t(b)];
    if (a == b || !is_whole(old) || bytes(old) != bytes(now) || from.space != to.space) return false;
    if (from.persistent || from.input || from.output || to.persistent || to.input) return false;
    if (!options_.over_feature_maps && is_forward(old) && !is_forward(now)) return false;
    // The kernel is known to bear one operand under its output, not two.
    const Node& node = program_.node(n);
    if (std::count_if(node.in.begin(), node.in.end(), [&](ValueId v) {
          return v != kNone && group_[size_t(v)] == a;
        }) != 1) {
      return false;
    }
    NodeId first = program_.node_count();
    for (ValueId v = from.first; v != kNone; v = next_[size_t(v)]) {  // dead after this node, on every queue
      const NodeId producer = program_.value(v).producer;
      first = std::min(first, producer);
      if (!order_.before(producer, n) || !all_before(readers_[size_t(v)], n, n)) return false;
    }
    // Whatever lies where the output will lie is made of it, later. In a larger storage (the
    // operand of a stack) the operand must not make the whole of it live earlier.
    const int64_t begin = offset_[size_t(now)], end = begin + bytes(now);
    NodeId first_there = program_.node_count();
    for (ValueId v = to.first; v != kNone; v = next_[size_t(v)]) {
      const NodeId producer = program_.value(v).producer;
      first_there = std::min(first_there, producer);
      if (v == now || offset_[size_t(v)] >= end || offset_[size_t(v)] + bytes(v) <= begin) continue;
      if (!order_.before(n, producer)) return false;
    }
    return is_whole(now) || first_there < first;
  }

  Storages number(std::span<const int64_t> workspace_bytes) {
    Storages out;
    const size_t n = program_.values.size();
    out.of.assign(n, kNone), out.offset = offset_;  // kNone stays where nothing makes the value
    auto take = [&](ValueId v) {
      if (v == kNone || out.of[size_t(v)] != kNone) return;
      const Group& g = group_of(v);
      std::vector<ValueId> values;
      values.reserve(size_t(g.size));
      for (ValueId m = g.first; m != kNone; m = next_[size_t(m)]) {
        values.push_back(m);
        out.of[size_t(m)] = StorageId(out.list.size());
      }
      std::sort(values.begin(), values.end(), [&](ValueId a, ValueId b) {
        const NodeId pa = program_.value(a).producer, pb = program_.value(b).producer;
        return pa != pb ? pa < pb : a < b;
      });
      out.list.push_back({.bytes = g.bytes, .space = g.space, .values = std::move(values),
                          .persistent = g.persistent, .input = g.input, .output = g.output});
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
    }
    return out;
  }

  const Program& program_;
  const StorageOptions options_;
  const Order order_;
  const FlatReaders readers_;
  std::vector<Group> groups_;
  std::vector<int32_t> group_;       // by value
  std::vector<ValueId> next_;        // by value, in its group
  std::vector<int64_t> bytes_;       // by value
  std::vector<int64_t> offset_;      // by value, into its group
  std::vector<NodeId> next_write_;   // by state value: the update that writes over it
  std::vector<ValueId> version_;     // by value: the state value whose bytes it views
  StorageEffect effect_;
};

}  // namespace

Storages assign_storages(const Program& program, std::span<const int64_t> workspace_bytes,
                         const StorageOptions& options, StorageEffect* effect) {
  return Assigner(program, options).run(workspace_bytes, effect);
}

std::vector<std::vector<NodeId>> touches_of(const Program& program, const Storages& storages) {
  std::vector<std::vector<NodeId>> touches(storages.list.size());
  auto touch = [&](StorageId s, NodeId n) {
    if (s == kNone) return;
    auto& list = touches[size_t(s)];
    if (list.empty() || list.back() != n) list.push_back(n);
  };
  for (NodeId n = 0; n < program.node_count(); ++n) {
    const Node& node = program.node(n);
    for (ValueId v : node.in) touch(v == kNone ? kNone : storages.of[size_t(v)], n);
    for (ValueId v : node.out) touch(v == kNone ? kNone : storages.of[size_t(v)], n);
    touch(storages.workspace[size_t(n)], n);
  }
  return touches;
}

std::vector<int64_t> bytes_in_place(const Program& program, const Storages& storages, NodeId n) {
  const Node& node = program.node(n);
  std::vector<int64_t> in_place(node.out.size(), 0);
  if (!node.op->windows) return in_place;
  const Specs in = specs_of(program, node.in), out = specs_of(program, node.out);
  for (const Window& w : node.op->windows(in, out, node.attrs)) {
    const ValueId small = w.of == Window::Of::operand ? node.out[size_t(w.output)]
                                                      : node.in[size_t(w.operand)];
    const ValueId large = w.of == Window::Of::operand ? node.in[size_t(w.operand)]
                                                      : node.out[size_t(w.output)];
    if (small == kNone || large == kNone) continue;
    if (storages.of[size_t(small)] == storages.of[size_t(large)] &&
        storages.offset[size_t(small)] == storages.offset[size_t(large)] + w.offset) {
      in_place[size_t(w.output)] += program.value(small).spec.bytes();
    }
  }
  return in_place;
}

std::vector<std::vector<NodeId>> writers_of(const Program& program, const Storages& storages) {
  std::vector<std::vector<NodeId>> writers(storages.list.size());
  for (NodeId n = 0; n < program.node_count(); ++n) {
    const Node& node = program.node(n);
    const std::vector<int64_t> in_place = bytes_in_place(program, storages, n);
    for (size_t i = 0; i < node.out.size(); ++i) {
      if (node.out[i] == kNone || in_place[i] >= program.value(node.out[i]).spec.bytes()) continue;
      auto& list = writers[size_t(storages.of[size_t(node.out[i])])];
      if (list.empty() || list.back() != n) list.push_back(n);
    }
    if (storages.workspace[size_t(n)] != kNone) {
      writers[size_t(storages.workspace[size_t(n)])].push_back(n);
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
      out += "#" + std::to_string(std::find(node.out.begin(), node.out.end(), id) - node.out.begin());
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
  return name_of(program, s.values.front());
}

}  // namespace pal
