// Finds, for each 16-bit copy of weights, the products that make logits of it, and all that reads
// the copy, the logits and their gradients: every node has to be one that takes wider rows.
#include "memory/passes/even_rows.h"

#include <algorithm>
#include <vector>

#include "core/op.h"
#include "ops/losses/cross_entropy.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/casts.h"
#include "ops/tensors/embedding.h"
#include "ops/tensors/views.h"

namespace pal {
namespace {

int64_t even(int64_t columns) { return (columns + kEvenColumns - 1) / kEvenColumns * kEvenColumns; }

ValueId operand(const Node& node, size_t k) { return k < node.in.size() ? node.in[k] : kNone; }

// All that changes with one copy of weights; false from any function: something does not fit.
class Widening {
 public:
  Widening(const Program& program, const Readers& readers, const ByValue<char>& stays)
      : p_(program), readers_(readers), stays_(stays) {}

  // `copy`: a node that makes a 16-bit copy of a matrix.
  bool widen(NodeId copy) {
    const Node& node = p_.node(copy);
    weights_ = node.out[0];
    const TensorSpec& spec = p_.value(weights_).spec;
    const std::optional<bool> transposed = orientation();
    if (!transposed || stays_[weights_]) return false;
    by_row_ = *transposed;
    columns_ = spec.shape[by_row_ ? 0 : 1];
    if (columns_ % kEvenColumns == 0) return false;
    out_ = p_;
    for (const NodeId reader : readers_[weights_]) {
      if (is_logits(p_.node(reader)) && !widen_logits(reader)) return false;
    }
    if (most_ < kFewLogits) return false;
    for (const NodeId reader : readers_[weights_]) {
      if (!takes_weights(p_.node(reader))) return false;
    }
    CastAttrs attrs = node.attrs.as<CastAttrs>();
    (by_row_ ? attrs.rows : attrs.columns) = even(columns_);
    out_.node(copy).attrs = attrs;
    out_.value(weights_).spec.shape[by_row_ ? 0 : 1] = even(columns_);
    return true;
  }
  Program take() { return std::move(out_); }
  int64_t columns() const { return columns_; }

 private:
  // Whether the weights' rows are classes, by the first product whose result a loss reads.
  std::optional<bool> orientation() const {
    for (const NodeId reader : readers_[weights_]) {
      const Node& node = p_.node(reader);
      if (node.op != &matmul_op || operand(node, 1) != weights_) continue;
      for (const NodeId behind : readers_[node.out[0]]) {
        const OpDef* op = p_.node(behind).op;
        const bool biased = op == &add_broadcast_op && feeds_loss(p_.node(behind).out[0]);
        if (op == &cross_entropy_op || biased) return node.attrs.as<MatmulAttrs>().tb;
      }
    }
    return {};
  }
  bool feeds_loss(ValueId value) const {
    const auto all = readers_[value];
    return std::any_of(all.begin(), all.end(), [&](NodeId n) {
      return p_.node(n).op == &cross_entropy_op && p_.node(n).in[0] == value;
    });
  }
  // x·w or x·wᵀ, with the classes in the result's columns.
  bool is_logits(const Node& node) const {
    if (node.op != &matmul_op || operand(node, 1) != weights_ || node.in[0] == weights_) {
      return false;
    }
    auto& attrs = node.attrs.as<MatmulAttrs>();
    return !attrs.ta && attrs.tb == by_row_;
  }

  bool widen_logits(NodeId product) {
    const Node& node = p_.node(product);
    const ValueId logits = node.out[0];
    const TensorSpec& spec = p_.value(logits).spec;
    MatmulAttrs attrs = node.attrs.as<MatmulAttrs>();
    if (spec.shape.rank() != 2 || bits(spec.dtype) != 16 || operand(node, 2) != kNone) return false;
    most_ = std::max(most_, spec.numel());
    ValueId bias = operand(node, 3), read = logits;
    const auto behind = readers_[logits];
    if (behind.size() == 1 && p_.node(behind[0]).op == &add_broadcast_op) {
      const Node& add = p_.node(behind[0]);
      if (bias != kNone || add.in[0] != logits || add.in[1] == logits) return false;
      bias = add.in[1], read = add.out[0];
      const Value& added = p_.value(bias);
      const bool there = added.producer == kNone || added.producer < product;
      if (!there || added.spec != TensorSpec{{columns_}} || stays_[logits]) return false;
      Node& view = out_.node(behind[0]);
      view.op = &reshape_op, view.in = {logits};
      view.attrs = ReshapeAttrs{{spec.shape[0], even(columns_)}};
    }
    if (!widen_readers(read)) return false;
    widen_value(logits);
    if (read != logits) widen_value(read);
    if (bias == kNone) return true;
    attrs.biased = columns_;
    out_.node(product).attrs = attrs;
    out_.node(product).in.resize(4, kNone);
    out_.node(product).in[3] = bias;
    return true;
  }

  // Losses, and the gradients that these give.
  bool widen_readers(ValueId logits) {
    if (stays_[logits]) return false;
    for (const NodeId n : readers_[logits]) {
      const Node& node = p_.node(n);
      const size_t at = node.op == &cross_entropy_grad_op ? 1 : 0;
      const bool loss = node.op == &cross_entropy_op || node.op == &cross_entropy_grad_op;
      if (!loss || std::count(node.in.begin(), node.in.end(), logits) != 1 ||
          node.in[at] != logits) {
        return false;
      }
      CrossEntropyAttrs attrs = node.attrs.as<CrossEntropyAttrs>();
      if (attrs.classes) return false;
      attrs.classes = columns_;
      out_.node(n).attrs = attrs;
      if (node.op != &cross_entropy_grad_op) continue;
      gradients_.push_back(node.out[0]);
      if (!widen_gradient(node.out[0])) return false;
    }
    return true;
  }

  bool widen_gradient(ValueId gradient) {
    if (stays_[gradient]) return false;
    for (const NodeId n : readers_[gradient]) {
      const Node& node = p_.node(n);
      if (std::count(node.in.begin(), node.in.end(), gradient) != 1) return false;
      const bool first = node.in[0] == gradient;
      if (node.op == &sum_leading_op) {
        SumLeadingAttrs attrs = node.attrs.as<SumLeadingAttrs>();
        if (!first || attrs.columns) return false;
        attrs.columns = columns_;
        out_.node(n).attrs = attrs;
        continue;
      }
      if (node.op != &matmul_op || (!first && node.in[1] != gradient)) return false;
      MatmulAttrs attrs = node.attrs.as<MatmulAttrs>();
      if (!attrs.ta) {  // of x: takes_weights() sees to it
        if (first && node.in[1] == weights_) continue;
        return false;
      }
      if (attrs.tb) return false;
      (first ? attrs.a_columns : attrs.b_columns) = columns_;
      out_.node(n).attrs = attrs;
    }
    widen_value(gradient);
    return true;
  }
  void widen_value(ValueId value) { out_.value(value).spec.shape[1] = even(columns_); }

  // Products with logits or their gradients, whose classes have zeros behind them too, and tables.
  bool takes_weights(const Node& node) const {
    if (std::count(node.in.begin(), node.in.end(), weights_) != 1) return false;
    if (is_logits(node)) return true;
    if (node.op == &embedding_op) return by_row_ && node.in[0] == weights_;
    if (node.op != &matmul_op || operand(node, 1) != weights_) return false;
    auto& attrs = node.attrs.as<MatmulAttrs>();
    return !attrs.ta && attrs.tb != by_row_ &&
           std::count(gradients_.begin(), gradients_.end(), node.in[0]) == 1;
  }

  const Program& p_;
  const Readers& readers_;
  const ByValue<char>& stays_;
  Program out_;
  ValueId weights_ = kNone;
  bool by_row_ = false;  // a class is a row of the weights
  int64_t columns_ = 0, most_ = 0;
  std::vector<ValueId> gradients_;
};

bool is_copy_of_matrix(const Program& p, const Node& node) {
  if (node.op != &cast_op || node.in.size() != 1 || node.out[0] == kNone) return false;
  auto& attrs = node.attrs.as<CastAttrs>();
  const TensorSpec& spec = p.value(node.out[0]).spec;
  return bits(attrs.to) == 16 && !attrs.rows && !attrs.columns && spec.shape.rank() == 2 &&
         !spec.layout;
}

// What is read or written from outside.
ByValue<char> values_that_stay(const Program& p) {
  ByValue<char> stays(p.values.size(), 0);
  for (const NamedValue& output : p.outputs) stays[output.value] = 1;
  for (const NamedValue& input : p.inputs) stays[input.value] = 1;
  for (const StateSlot& slot : p.state) stays[slot.start] = stays[slot.end] = 1;
  return stays;
}

}  // namespace

std::optional<Program> even_rows(const Program& program, std::string* note) {
  std::optional<Program> out;
  const Readers readers(program);
  const ByValue<char> stays = values_that_stay(program);
  for (const NodeId n : program.nodes.ids()) {
    if (!is_copy_of_matrix(program, program.node(n))) continue;
    // What one copy changes, another does not touch.
    Widening widening(out ? *out : program, readers, stays);
    if (!widening.widen(n)) continue;
    if (note) {
      *note += (note->empty() ? "" : ", ") + std::to_string(widening.columns()) + " classes as " +
               std::to_string(even(widening.columns()));
    }
    out = widening.take();
  }
  return out;
}

}  // namespace pal
