// What an operator's gradient is handed, and where it puts its results.
#pragma once
#include <span>
#include <vector>

#include "core/builder.h"
#include "core/op.h"

namespace pal {

// An operand's gradient is the sum of what all its readers give. An operator that can add onto the
// sum so far for less than a separate `add` takes it (take_sum) and gives the new sum. To what the
// others give, differentiate adds the sum.
class GradientArgs {
 public:
  Builder& builder;
  const Node node;  // a copy: emitting grows the list

  // `gradients`: of every value, the sum so far (null: none yet). `wanted`, also by value.
  GradientArgs(Builder& builder, NodeId node, std::span<const Val> gradients,
               std::span<const char> wanted);

  Val in(int i) const { return {&builder, node.in[size_t(i)]}; }
  Val out(int i) const { return {&builder, node.out[size_t(i)]}; }
  template <class A> const A& attrs() const { return node.attrs.as<A>(); }

  Val dy(int i = 0) const { return dy_[size_t(i)]; }  // null: output i is not part of the loss
  const std::vector<Val>& all_dy() const { return dy_; }
  bool wants(int k) const { return size_t(k) < operands_.size() && operands_[size_t(k)].wanted; }
  // The type that operand k's gradient is wanted in: f32 for a weight, also where it is read as a
  // copy in 16 bits (Builder::read_weights_as), the operand's own for anything else.
  DType type(int k) const;

  // The gradient of operand k so far, which what is given has to contain. Null when this node is
  // the first to give one, or when none is wanted; then there is nothing to add to.
  Val take_sum(int k);
  // Ignored where no gradient of operand k is wanted.
  void give(int k, Val gradient);
  // Of operands 0, 1, ..
  void give_all(const std::vector<Val>& gradients) {
    for (size_t k = 0; k < gradients.size(); ++k) give(int(k), gradients[k]);
  }

  // For differentiate: what was given for operand k (null: nothing), and whether it contains the
  // sum. ProgramError when the sum was taken and nothing was given.
  Val given(int k) const;
  bool has_sum(int k) const { return operands_[size_t(k)].taken; }

 private:
  struct Operand {
    bool wanted = false, taken = false;
    Val sum, given;
  };
  std::vector<Val> dy_;            // by output
  std::vector<Operand> operands_;  // by operand
};

}  // namespace pal
