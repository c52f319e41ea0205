// One walk over the step that collects runs of split nodes and writes each out in parts.
#include "memory/passes/batch_parts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/op.h"
#include "core/rewriter.h"
#include "core/text.h"
#include "memory/passes/split_nodes.h"
#include "ops/elementwise/add.h"
#include "ops/tensors/views.h"

namespace pal {
namespace {

class PartsWriter {
 public:
  PartsWriter(const Program& program, const SplitNodes& split)
      : p_(program),
        split_(split),
        count_(split.done().parts),
        out_(program),
        parts_(program.values.size()),
        so_far_(program.values.size(), kNone),
        is_read_whole_(program.values.size(), 0),
        from_run_(program.values.size(), 0),
        from_later_(program.values.size(), 0) {
    for (const NodeId n : program.nodes.ids()) {
      const Node& node = program.node(n);
      if (!node.waits.empty() && !node.op->collective) {
        throw ProgramError("[batch_parts] takes a step of one queue");
      }
      for (size_t i = 0; i < node.in.size(); ++i) {
        if (node.in[i] != kNone && !reads_rows(n, i)) is_read_whole_[node.in[i]] = 1;
      }
    }
    for (const NamedValue& output : program.outputs) is_read_whole_[output.value] = 1;
    for (const StateSlot& slot : program.state) {
      if (slot.end != kNone) is_read_whole_[slot.end] = 1;
    }
  }

  Program write() {
    for (const NodeId n : p_.nodes.ids()) {
      if (split_[n]) {
        if (!can_join(n)) close();
        run_.push_back(n);
        for (const ValueId v : present(p_.node(n).out)) from_run_[v] = 1;
      } else if (!run_.empty() && is_behind(n)) {
        later_.push_back(n);
        for (const ValueId v : present(p_.node(n).out)) from_later_[v] = 1;
      } else {
        out_.keep(n);  // before the run, of which it needs nothing
      }
    }
    close();
    return out_.finish();
  }
  int runs() const { return runs_; }

 private:
  bool reads_rows(NodeId n, size_t operand) const {
    return split_[n] && split_[n]->reads(operand) && int(operand) != split_[n]->sum;
  }

  // Whether the node's parts can follow those of the run so far: it reads these by rows, and
  // nothing that has to come behind the run.
  bool can_join(NodeId n) const {
    const Node& node = p_.node(n);
    for (size_t i = 0; i < node.in.size(); ++i) {
      const ValueId v = node.in[i];
      if (v == kNone) continue;
      if (from_later_[v] || (from_run_[v] && (!reads_rows(n, i) || !is_in_parts(v)))) {
        return false;
      }
    }
    return true;
  }
  // Whether it is made in parts: no sum.
  bool is_in_parts(ValueId v) const {
    const NodeId producer = p_.value(v).producer;
    return producer != kNone && split_[producer] && split_[producer]->sum < 0;
  }

  // Whether a node that is not split has to wait for the end of the run: for what that makes, or
  // because its place among others counts.
  bool is_behind(NodeId n) const {
    const Node& node = p_.node(n);
    if (node.op->writes_state || node.op->collective) return true;
    const std::vector<ValueId>& in = node.in;
    return std::any_of(in.begin(), in.end(),
                       [&](ValueId v) { return v != kNone && (from_run_[v] || from_later_[v]); });
  }

  // Writes the run in parts, what others read of it as a whole, and what waited for it.
  void close() {
    if (run_.empty()) return;
    ++runs_;
    for (int64_t part = 0; part < count_; ++part) {
      for (const NodeId n : run_) write_part(n, part);
    }
    for (const NodeId n : run_) {
      if (split_[n]->sum < 0) {
        for (const ValueId v : present(p_.node(n).out)) put_together(n, v);
      }
      for (const ValueId v : present(p_.node(n).out)) from_run_[v] = 0;
    }
    for (const NodeId n : later_) {
      out_.keep(n);
      for (const ValueId v : present(p_.node(n).out)) from_later_[v] = 0;
    }
    run_.clear(), later_.clear();
  }

  void write_part(NodeId n, int64_t part) {
    const Rows& rows = *split_[n];
    const Node& node = p_.node(n);
    Node copy = node;
    if (copy.step == kNone) copy.step = int32_t(part);  // so that passes know them as alike
    for (size_t i = 0; i < copy.in.size(); ++i) {
      if (copy.in[i] != kNone && reads_rows(n, i)) copy.in[i] = part_of(node, copy.in[i], part);
    }
    if (rows.sum >= 0) {
      write_sum(n, std::move(copy), size_t(rows.sum), part);
      return;
    }
    for (ValueId& v : copy.out) {
      if (v != kNone) v = new_part(v, part);
    }
    out_.replace(n, std::move(copy));
  }

  // A part of a sum goes on from the part before it. What the whole is added onto comes last, so
  // that it counts as it would of ranks or micro-batches: one number beside another.
  void write_sum(NodeId n, Node copy, size_t operand, int64_t part) {
    const Node& node = p_.node(n);
    const ValueId sum = node.out[0];
    const ValueId onto = operand < node.in.size() ? node.in[operand] : ValueId(kNone);
    if (onto != kNone || part > 0) {
      copy.in.resize(std::max(copy.in.size(), operand + 1), kNone);
      copy.in[operand] = part > 0 ? so_far_[sum] : ValueId(kNone);
    }
    const bool is_last = part + 1 == count_;
    if (!is_last || onto != kNone) {
      Value value = p_.value(sum);
      value.producer = kNone, value.step = copy.step;
      so_far_[sum] = copy.out[0] = out_.add(std::move(value));
    }
    Node total = copy;
    out_.replace(n, std::move(copy));
    if (!is_last || onto == kNone) return;
    total.op = &add_op, total.attrs = {};
    total.in = {onto, so_far_[sum]}, total.out = {sum};
    out_.insert(std::move(total));
  }

  ValueId new_part(ValueId v, int64_t part) {
    Value value = p_.value(v);
    value.spec = with_rows(value.spec, value.spec.shape[0] / count_);
    value.producer = kNone;
    if (value.step == kNone) value.step = int32_t(part);
    parts_[v].push_back(out_.add(std::move(value)));
    return parts_[v].back();
  }

  // Of a value in parts its part; else a slice, which is written right before its first reader.
  ValueId part_of(const Node& reader, ValueId v, int64_t part) {
    std::vector<ValueId>& parts = parts_[v];
    if (size_t(part) < parts.size()) return parts[size_t(part)];
    const int64_t rows = p_.value(v).spec.shape[0] / count_;
    const ValueId slice = new_part(v, part);
    out_.insert({.op = &slice_op,
                 .attrs = SliceAttrs{part * rows, (part + 1) * rows},
                 .in = {v},
                 .out = {slice},
                 .phase = reader.phase,
                 .scope = reader.scope,
                 .step = reader.step == kNone ? int32_t(part) : reader.step});
    return slice;
  }

  void put_together(NodeId n, ValueId v) {
    if (!is_read_whole_[v]) return;
    const Node& node = p_.node(n);
    Value stacked = p_.value(v);
    stacked.spec = with_rows(stacked.spec, stacked.spec.shape[0] / count_);
    stacked.spec.shape = stacked.spec.shape.with_front(count_);
    stacked.producer = kNone;
    const ValueId stack = out_.add(std::move(stacked));
    Node gather{.op = &stack_op,
                .in = parts_[v],
                .out = {stack},
                .phase = node.phase,
                .scope = node.scope,
                .step = node.step};
    Node flat = gather;
    flat.op = &reshape_op, flat.attrs = ReshapeAttrs{p_.value(v).spec.shape};
    flat.in = {stack}, flat.out = {v};
    out_.insert(std::move(gather));
    out_.insert(std::move(flat));
  }

  const Program& p_;
  const SplitNodes& split_;
  const int64_t count_;
  Rewriter out_;
  ByValue<std::vector<ValueId>> parts_;  // of values by rows
  ByValue<ValueId> so_far_;              // of a sum that is being written: of the parts so far
  ByValue<char> is_read_whole_;          // by others than split nodes, which read rows
  ByValue<char> from_run_, from_later_;  // made by a node of the run, or of what waits for its end
  std::vector<NodeId> run_, later_;
  int runs_ = 0;
};

}  // namespace

Program in_batch_parts(const Program& program, int64_t parts, BatchParts* done) {
  BatchParts own;
  BatchParts& what = done ? *done : own;
  what = {};
  if (parts < 2) return program;
  const SplitNodes split(program, parts);
  what = split.done();
  if (what.nodes == 0) return program;
  PartsWriter writer(program, split);
  Program out = writer.write();
  what.runs = writer.runs();
  return out;
}

std::string describe(const BatchParts& done) {
  const std::string touch = "what can be split touches up to " + format_bytes(done.most) +
                            " of maps, other nodes up to " + format_bytes(done.most_else);
  if (done.nodes > 0) {
    return std::to_string(done.parts) + " parts of " + std::to_string(done.examples / done.parts) +
           " rows: " + std::to_string(done.nodes) + " nodes in " + std::to_string(done.runs) +
           " runs; " + touch;
  }
  if (done.examples == 0) return "none: no map of two rows or more is made and read by rows alone";
  if (done.most > done.most_else) {
    return "none: " + std::to_string(done.examples) + " rows have no divisor from 2 to " +
           std::to_string(done.wanted);
  }
  return "none: " + touch;
}

}  // namespace pal
