// Which nodes are split, then one walk that collects runs of them and writes each out in parts.
#include "memory/passes/batch_parts.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/op.h"
#include "core/rewriter.h"
#include "core/text.h"
#include "memory/storages/storages.h"
#include "ops/elementwise/add.h"
#include "ops/exchange/exchange.h"
#include "ops/tensors/views.h"

namespace pal {
namespace {

TensorSpec with_rows(TensorSpec spec, int64_t rows) {
  spec.shape = spec.shape.without(0).with_front(rows);
  return spec;
}

// A number of whole parts: the largest divisor of the rows that is no more than what is asked for.
int64_t parts_of_rows(int64_t rows, int64_t wanted) {
  int64_t parts = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(rows, 1));
  while (rows % parts != 0) --parts;
  return parts;
}

// Which maps are split, and with them the nodes that make or read these.
class SplitNodes {
 public:
  SplitNodes(const Program& program, int64_t wanted)
      : p_(program),
        is_state_(state_values(program)),
        examples_(examples_of_maps()),
        rows_(program.nodes.size()) {
    done_.wanted = wanted;
    const ByNode<int64_t> touched = bytes_touched();
    const ValueId largest = largest_map(touched);
    if (largest == kNone) return;
    done_.examples = examples_[largest];
    weigh(touched);
    const int64_t parts = parts_of_rows(done_.examples, wanted);
    if (parts == 1 || done_.most <= done_.most_else) return;
    done_.parts = parts;
    split_above(program.value(largest).spec.bytes() / parts);
  }

  // What the node does with rows, where it is split; else null.
  const Rows* operator[](NodeId n) const { return rows_[n] ? &*rows_[n] : nullptr; }
  BatchParts& done() { return done_; }

 private:
  static ByValue<char> state_values(const Program& program) {
    ByValue<char> out(program.values.size(), 0);
    for (const StateSlot& slot : program.state) {
      if (slot.start != kNone) out[slot.start] = 1;
      if (slot.end != kNone) out[slot.end] = 1;
    }
    return out;
  }
  // Whether what it says of a value is so of an operand or a result.
  template <class Says> static bool any_of(const Node& node, const Says& says) {
    const auto any = [&](const std::vector<ValueId>& values) {
      return std::any_of(values.begin(), values.end(),
                         [&](ValueId v) { return v != kNone && says(v); });
    };
    return any(node.in) || any(node.out);
  }

  // A map of this batch that everyone takes by rows.
  bool can_split(ValueId v) const { return examples_[v] == done_.examples; }

  // Of the maps that everyone takes by rows the largest at the node that touches most, since that
  // is what bounds the step; where it has none, the largest of all, for the report; kNone: there is
  // none.
  ValueId largest_map(const ByNode<int64_t>& touched) const {
    const auto most = std::max_element(touched.begin(), touched.end());
    if (most == touched.end()) return kNone;
    ValueId largest = kNone;
    const Node& node = p_.node(int32_t(most - touched.begin()));
    for (const ValueId v : node.in) largest = larger(largest, v);
    for (const ValueId v : node.out) largest = larger(largest, v);
    if (largest != kNone) return largest;
    for (const ValueId v : p_.values.ids()) largest = larger(largest, v);
    return largest;
  }
  // b, where it is a map that everyone takes by rows, and larger than a; else a.
  ValueId larger(ValueId a, ValueId b) const {
    if (b == kNone || examples_[b] < 2) return a;
    return a == kNone || p_.value(b).spec.bytes() > p_.value(a).spec.bytes() ? b : a;
  }

  // The most that a node with such maps touches, and a node without.
  void weigh(const ByNode<int64_t>& touched) {
    for (const NodeId n : p_.nodes.ids()) {
      const bool can = any_of(p_.node(n), [&](ValueId v) { return can_split(v); });
      int64_t& most = can ? done_.most : done_.most_else;
      most = std::max(most, touched[n]);
    }
  }

  // The maps of more bytes, with the nodes that make or read them.
  void split_above(int64_t bytes) {
    for (const NodeId n : p_.nodes.ids()) {
      const Node& node = p_.node(n);
      const auto is_split = [&](ValueId v) {
        return can_split(v) && p_.value(v).spec.bytes() > bytes;
      };
      if (!any_of(node, is_split)) continue;
      rows_[n] = node.op->rows(node.attrs);
      ++done_.nodes;
    }
  }

  ByNode<int64_t> bytes_touched() const {
    ByNode<int64_t> out;
    for (const Node& node : p_.nodes) out.push_back(maps_of(node));
    return out;
  }
  // Bytes of the maps that the node makes and reads. A view touches nothing, and what ranks
  // exchange is of gradients.
  int64_t maps_of(const Node& node) const {
    const bool exchanges =
        node.op->collective || node.op == &pairwise_sum_op || node.op == &own_piece_op;
    if (exchanges || !windows_of(p_, node).empty()) return 0;
    std::vector<ValueId> maps;
    for (const auto* list : {&node.in, &node.out}) {
      for (const ValueId v : present(*list)) {
        if (is_map(p_, v)) maps.push_back(v);
      }
    }
    std::sort(maps.begin(), maps.end());
    maps.erase(std::unique(maps.begin(), maps.end()), maps.end());
    int64_t bytes = 0;
    for (const ValueId v : maps) bytes += p_.value(v).spec.bytes();
    return bytes;
  }

  // By map: the rows of its leading axis, where whoever makes or reads it takes it by these; else
  // 0.
  ByValue<int64_t> examples_of_maps() const {
    ByValue<int64_t> examples(p_.values.size(), 0);
    for (const ValueId v : p_.values.ids()) {
      const Value& value = p_.value(v);
      if (is_map(p_, v) && value.producer != kNone && value.spec.shape.rank() > 0) {
        examples[v] = value.spec.shape[0];
      }
    }
    for (const NamedValue& output : p_.outputs) examples[output.value] = 0;
    for (const NodeId n : p_.nodes.ids()) {
      const Node& node = p_.node(n);
      const int64_t rows = examples_of(n);
      const Rows how = rows > 0 ? node.op->rows(node.attrs) : Rows{};
      for (size_t i = 0; i < node.in.size(); ++i) {
        const bool fits = rows > 0 && how.reads(i) && int(i) != how.sum;
        if (node.in[i] != kNone && !fits) examples[node.in[i]] = 0;
      }
      for (const ValueId v : present(node.out)) {
        if (rows == 0 || how.sum >= 0) examples[v] = 0;
      }
    }
    return examples;
  }

  // The rows that the node could be cut by; 0: it looks at them as a whole.
  int64_t examples_of(NodeId n) const {
    const Node& node = p_.node(n);
    if (!node.op->rows || node.op->collective || node.op->writes_state || !node.waits.empty()) {
      return 0;
    }
    const Rows rows = node.op->rows(node.attrs);
    if (rows.operands == 0 || node.out.empty()) return 0;
    int64_t count = 0;
    const auto agrees = [&](ValueId v, int axes) {
      const Value& value = p_.value(v);
      const TensorSpec& spec = value.spec;
      if (spec.layout || spec.shape.rank() < axes || is_state_[v]) return false;
      if (count == 0) count = spec.shape[0];
      return value.space == Space::device && count > 0 && spec.shape[0] == count &&
             spec.numel() / count * bits(spec.dtype) % 8 == 0;
    };
    for (size_t i = 0; i < node.in.size(); ++i) {
      if (node.in[i] == kNone || int(i) == rows.sum) continue;
      if (rows.reads(i) ? !agrees(node.in[i], i == 0 ? 2 : 1) : rows.sum >= 0) {
        return 0;  // what a sum reads as a whole would count once a part
      }
    }
    if (rows.sum >= 0) {  // parts of what is stored in 16 bits would be rounded one by one
      const bool fits = node.out.size() == 1 && node.out[0] != kNone &&
                        p_.value(node.out[0]).spec.dtype == DType::f32;
      return fits && takes_a_row(node, rows) ? count : 0;
    }
    for (const ValueId v : present(node.out)) {
      if (!agrees(v, 1)) return 0;
    }
    return takes_a_row(node, rows) ? count : 0;
  }

  // Whether one row of its operands fits the operator, and gives one of its results: no attribute
  // says how many there are.
  bool takes_a_row(const Node& node, const Rows& rows) const {
    Specs in = specs_of(p_, node.in), out = specs_of(p_, node.out);
    for (size_t i = 0; i < in.size(); ++i) {
      if (node.in[i] != kNone && rows.reads(i) && int(i) != rows.sum) in[i] = with_rows(in[i], 1);
    }
    try {
      const Specs made = infer_specs(*node.op, in, node.attrs);
      for (size_t i = 0; i < out.size(); ++i) {
        if (node.out[i] == kNone) continue;
        if (rows.sum < 0) out[i] = with_rows(out[i], 1);
        if (i >= made.size() || made[i] != out[i]) return false;
      }
    } catch (const ProgramError&) {
      return false;
    }
    return true;
  }

  const Program& p_;
  const ByValue<char> is_state_;
  const ByValue<int64_t> examples_;  // by map: the rows that all take it by; 0: not all do
  ByNode<std::optional<Rows>> rows_;
  BatchParts done_;
};

class PartsWriter {
 public:
  PartsWriter(const Program& program, SplitNodes& split)
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
    ++split_.done().runs;
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
  SplitNodes& split_;
  const int64_t count_;
  Rewriter out_;
  ByValue<std::vector<ValueId>> parts_;  // of values by rows
  ByValue<ValueId> so_far_;              // of a sum that is being written: of the parts so far
  ByValue<char> is_read_whole_;          // by others than split nodes, which read rows
  ByValue<char> from_run_, from_later_;  // made by a node of the run, or of what waits for its end
  std::vector<NodeId> run_, later_;
};

}  // namespace

Program in_batch_parts(const Program& program, int64_t parts, BatchParts* done) {
  BatchParts own;
  BatchParts& what = done ? *done : own;
  what = {};
  if (parts < 2) return program;
  SplitNodes split(program, parts);
  Program out = split.done().nodes ? PartsWriter(program, split).write() : program;
  what = split.done();
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
