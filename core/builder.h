// Records nodes: infers their outputs, and stamps them with the current scope, time step and phase.
// Model code and gradients append through here; passes through core/rewriter.h.
#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "core/program.h"
#include "core/val.h"

namespace pal {

class Builder {
 public:
  Builder() = default;
  explicit Builder(Program program) : program_(std::move(program)) {}
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  Val input(const std::string& name, TensorSpec spec, Space space = Space::device);
  // The slot's value at start. A name that exists already gives the same value back (tied
  // weights); ProgramError when its spec differs.
  Val state(const std::string& name, TensorSpec spec, Role role, Init init = {});
  Val weight(const std::string& name, TensorSpec spec, Init init);  // name below the current scope
  void output(const std::string& name, Val value);
  // Mixed precision: from here on f32 inputs and weights of two axes or more are read through one
  // copy in 16 bits each, which `cast` emits (ops/tensors/casts.h). Everything else follows from
  // the types of operands. The weights themselves, vectors, gradients of weights and all sums stay
  // f32.
  void read_weights_as(DType type, Val (*cast)(Val, DType)) { feature_type_ = type, cast_ = cast; }
  DType feature_type() const { return feature_type_; }
  // The node's outputs replace the slots' values at end: called by emit for ops that write state.
  // Where a slot was written already, its readers since then get the newer value.
  std::vector<Val> emit(const OpDef& op, std::vector<Val> in, Attrs attrs = {});
  Val emit1(const OpDef& op, std::vector<Val> in, Attrs attrs = {}) {
    return emit(op, std::move(in), std::move(attrs))[0];
  }

  const Program& program() const { return program_; }
  Program& program() { return program_; }
  Program take() { return std::move(program_); }

  // A stream id for a random operator: distinct in each node that is recorded, equal when the same
  // model is recorded again.
  int64_t next_stream() { return next_stream_++; }

  const std::string& scope() const { return program_.scopes[scope_]; }
  Phase phase() const { return phase_; }
  void set_phase(Phase phase) { phase_ = phase; }
  ScopeId scope_id(const std::string& name);

  // Sets scope, time step or phase for as long as it lives.
  class Within {
   public:
    Within(Builder& builder, const std::string& name, int32_t step = kNone);
    Within(Builder& builder, Phase phase);
    // As the node: same scope and step (a gradient belongs to its layer).
    Within(Builder& builder, const Node& node, Phase phase);
    ~Within();
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;

   private:
    explicit Within(Builder& builder);

    Builder& builder_;
    const ScopeId scope_;
    const int32_t step_;
    const Phase phase_;
  };

 private:
  // The value as model code reads it.
  Val read(Val value);

  Program program_;
  DType feature_type_ = DType::f32;
  Val (*cast_)(Val, DType) = nullptr;
  std::map<ValueId, ValueId> copies_;  // in feature_type_, of inputs and weights
  ScopeId scope_ = 0;
  int32_t step_ = kNone;
  Phase phase_ = Phase::forward;
  int64_t next_stream_ = 1;
  std::map<std::string, ScopeId> scope_ids_{{"", 0}};
};

}  // namespace pal
