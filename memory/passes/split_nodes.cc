// Maps that everyone takes by rows, the largest of them, and the nodes that touch those that are
// split.
#include "memory/passes/split_nodes.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "memory/storages/storages.h"
#include "ops/exchange/exchange.h"

namespace pal {
namespace {

// A number of whole parts: the largest divisor of the rows that is no more than what is asked for.
int64_t parts_of_rows(int64_t rows, int64_t wanted) {
  int64_t parts = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(rows, 1));
  while (rows % parts != 0) --parts;
  return parts;
}

ByValue<char> state_values(const Program& program) {
  ByValue<char> out(program.values.size(), 0);
  for (const StateSlot& slot : program.state) {
    if (slot.start != kNone) out[slot.start] = 1;
    if (slot.end != kNone) out[slot.end] = 1;
  }
  return out;
}
// Whether what it says of a value is so of an operand or a result.
template <class Says> bool any_of(const Node& node, const Says& says) {
  const auto any = [&](const std::vector<ValueId>& values) {
    return std::any_of(values.begin(), values.end(),
                       [&](ValueId v) { return v != kNone && says(v); });
  };
  return any(node.in) || any(node.out);
}

}  // namespace

TensorSpec with_rows(TensorSpec spec, int64_t rows) {
  spec.shape = spec.shape.without(0).with_front(rows);
  return spec;
}

SplitNodes::SplitNodes(const Program& program, int64_t wanted)
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

// A map of this batch that everyone takes by rows.
bool SplitNodes::can_split(ValueId v) const { return examples_[v] == done_.examples; }

// Of the maps that everyone takes by rows the largest at the node that touches most, since that
// is what bounds the step; where it has none, the largest of all, for the report; kNone: there is
// none.
ValueId SplitNodes::largest_map(const ByNode<int64_t>& touched) const {
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
ValueId SplitNodes::larger(ValueId a, ValueId b) const {
  if (b == kNone || examples_[b] < 2) return a;
  return a == kNone || p_.value(b).spec.bytes() > p_.value(a).spec.bytes() ? b : a;
}

// The most that a node with such maps touches, and a node without.
void SplitNodes::weigh(const ByNode<int64_t>& touched) {
  for (const NodeId n : p_.nodes.ids()) {
    const bool can = any_of(p_.node(n), [&](ValueId v) { return can_split(v); });
    int64_t& most = can ? done_.most : done_.most_else;
    most = std::max(most, touched[n]);
  }
}

// The maps of more bytes, with the nodes that make or read them.
void SplitNodes::split_above(int64_t bytes) {
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

ByNode<int64_t> SplitNodes::bytes_touched() const {
  ByNode<int64_t> out;
  for (const Node& node : p_.nodes) out.push_back(maps_of(node));
  return out;
}
// Bytes of the maps that the node makes and reads. A view touches nothing, and what ranks
// exchange is of gradients.
int64_t SplitNodes::maps_of(const Node& node) const {
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
ByValue<int64_t> SplitNodes::examples_of_maps() const {
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
int64_t SplitNodes::examples_of(NodeId n) const {
  const Node& node = p_.node(n);
  if (!node.op->rows || node.op->collective || node.op->writes_state) return 0;
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
bool SplitNodes::takes_a_row(const Node& node, const Rows& rows) const {
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

}  // namespace pal
