// The operator contract: everything a pass, the runner or a test may ask of an operator.
// An operator is one plain OpDef; its file holds every fact about it (DESIGN section 3).
#pragma once
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "core/builder.h"
#include "core/program.h"

namespace pal {

using Specs = std::vector<TensorSpec>;
using SpecSpan = std::span<const TensorSpec>;

// What a kernel needs to know of an operand. A value all of whose backward readers need the same
// predicate can be kept as one bit per element (Gist's Binarize, Echo's layer specifics).
struct Reads {
  enum class Kind : uint8_t { values, shape, predicate } kind = Kind::values;
  // predicate: lo < x && x < hi
  float lo = 0, hi = 0;
  bool operator==(const Reads&) const = default;
};
inline Reads reads_values() { return {}; }
inline Reads reads_shape() { return {Reads::Kind::shape}; }
inline Reads reads_predicate(float lo, float hi = std::numeric_limits<float>::infinity()) {
  return {Reads::Kind::predicate, lo, hi};
}

struct Share {
  int output, operand;
};  // the output may be written over the operand, byte for byte

// The first is a window of the second: `offset` bytes into it. A view op's output is a window of
// its operand; a gathering op's operands are windows of its output. The kernel must still copy when
// the pointers say that the bytes are elsewhere.
struct Window {
  enum class Of : uint8_t { operand, output } of;  // what the large one is
  int output, operand;
  int64_t offset;
};

struct Cost {
  double flops = 0, bytes = 0;
};

struct Queue;  // where a kernel runs: on the CPU a thread with its number of workers

// What a kernel is handed. It allocates nothing and keeps no pointer.
struct KernelArgs {
  std::span<void* const> in;   // null where an optional operand is absent
  std::span<void* const> out;  // null where nobody reads the output
  SpecSpan in_spec, out_spec;  // of absent operands: shape {}, never read
  const Attrs& attrs;
  void* state;           // what prepare returned
  std::byte* workspace;  // as many bytes as prepare asked for
  Queue& queue;

  template <class T = float> const T* input(size_t i) const {
    return i < in.size() ? static_cast<const T*>(in[i]) : nullptr;
  }
  template <class T = float> T* output(size_t i) const { return static_cast<T*>(out[i]); }
};

struct Prepared {
  std::shared_ptr<void> state;
  int64_t workspace = 0;               // bytes
  std::vector<Layout> preferred = {};  // per operand, null: plain is as good; empty: all plain
};

struct Device;

// One backend of an operator. prepare runs once per distinct (op, attrs, specs), at compile time.
struct Backend {
  void (*run)(const KernelArgs&) = nullptr;
  Prepared (*prepare)(const Device&, SpecSpan in, SpecSpan out, const Attrs&) = nullptr;
};

// What a gradient is given, and where it puts its results. `sum(k)` is the gradient of operand k as
// other readers left it (null when this node is the first): an operator that can add onto it for
// less than a separate `add` folds it in and says give_total (also when the sum was null); the
// others give, and differentiate adds.
class GradientArgs {
 public:
  Builder& builder;
  const Node node;  // a copy: emitting grows the list

  Val in(int i) const { return {&builder, node.in[i]}; }
  Val out(int i) const { return {&builder, node.out[i]}; }
  Val dy(int i = 0) const { return dy_[i]; }  // null: output i is not part of the loss
  bool wants(int k) const { return wants_[k]; }
  Val sum(int k) const { return sum_[k]; }
  // The type that operand k's gradient is wanted in: f32 for a weight, also where it is read as a
  // copy in 16 bits (Builder::read_weights_as), the operand's own for anything else.
  DType type(int k) const {
    return builder.program().value(node.in[k]).role == Role::weight ? DType::f32
                                                                    : in(k).spec().dtype;
  }
  void give(int k, Val gradient) { given_[k] = gradient; }
  void give_total(int k, Val total) { given_[k] = total, total_[k] = true; }
  template <class A> const A& attrs() const { return node.attrs.as<A>(); }

  std::vector<Val> dy_, sum_, given_;
  std::vector<char> wants_, total_;
};

// Inputs from which the generic tests build a case: a spec per operand (an empty optional is
// absent), with the range that values are drawn from.
struct ExampleOperand {
  TensorSpec spec;
  float lo = -2, hi = 2;  // floats uniform in [lo, hi), i32 in [lo, hi], bits by x > 0
  bool absent = false;
  bool differentiable = true;  // finite differences are taken with respect to it
};
struct Example {
  std::vector<ExampleOperand> operands;
  Attrs attrs;
  std::vector<char> unread = {};  // outputs to leave unread (null), 1 each; empty: all are read
};

// Nodes whose work one node of another operator does, with the same arithmetic in the same order,
// so that the results are the same bits. Written as a small program: recompute nodes of it stand
// for clones, backward ones for gradients, forward ones for nodes of any phase.
struct FusedPattern {
  Program program;
  std::vector<ValueId> in, out;  // of `program`, as the fused node has them; kNone: absent, unread
  Attrs attrs;                   // the fused node's
};
struct FusedForm {
  const OpDef* anchor = nullptr;  // an operator that the patterns contain, where the search begins
  // The patterns around an anchor with these operands and attributes; the first that fits is taken.
  std::vector<FusedPattern> (*patterns)(SpecSpan in, const Attrs&) = nullptr;
  // Whether something is recomputed or not (fuse_epilogues of memory/passes/fuse_recompute.h).
  // Nobody else may then read what the nodes hand to each other, so that nothing is made twice.
  bool always = false;
};

struct OpDef {
  const char* name;
  const char* formula;  // one line for the printer's legend and the docs

  // Shapes and types of the outputs; throws ProgramError("[name] ...") on operands that do not fit.
  Specs (*infer)(SpecSpan in, const Attrs&);
  void (*gradient)(GradientArgs&) = nullptr;  // null: not differentiable

  // Operands from this one on may be absent.
  int optional_from = std::numeric_limits<int>::max();
  std::vector<Share> shares = {};
  Reads (*reads)(int operand, const Attrs&) = nullptr;  // null: values of every operand
  std::vector<Window> (*windows)(SpecSpan in, SpecSpan out, const Attrs&) = nullptr;
  Cost (*cost)(SpecSpan in, SpecSpan out,
               const Attrs&) = nullptr;  // null: one flop an output element
  bool writes_state = false;  // an update: output i is the next value of the state that operand
                              // shares[i].operand holds
  bool gate = false;          // its output decides whether and how updates are applied

  // The same operator over the operands of several nodes, one node's after the other's: what
  // adjacent nodes with equal attributes are fused to after scheduling (multi-tensor updates).
  const OpDef* batched = nullptr;
  int group_in = 0, group_out = 0;  // of a batched operator: operands and outputs per node, after
                                    // which shares and optional operands repeat

  // What it can stand for where forward nodes were recomputed (memory/passes/fuse_recompute.h), or
  // always.
  FusedForm fuses = {};
  // The same work as several nodes, to the bit: where something is recomputed, a clone of the last
  // may do (memory/passes/parts.h). Null: it is one.
  FusedPattern (*parts)(SpecSpan in, const Attrs&) = nullptr;
  // Multiplies by random numbers that it draws again in the backward pass: a framework that cannot
  // replay them keeps one f32 for every element (memory/price/baselines.h).
  bool replays_random = false;
  // cuDNN's gradient reads operand 0 and output 0, so that a framework that calls it keeps both.
  bool cudnn_keeps_both = false;

  Backend cpu;
  const Backend* cuda = nullptr;

  std::vector<Example> (*examples)() = nullptr;
};

// Every operator that the program can contain, for the tests that meet all of them.
std::span<const OpDef* const> all_ops();

// cost, with the default for operators that declare none: all bytes in and out, a flop an element.
Cost cost_of(const OpDef& op, SpecSpan in, SpecSpan out, const Attrs& attrs);
Reads reads_of(const OpDef& op, int operand, const Attrs& attrs);
// The pairs that may share bytes in a node with so many operands: those of every group.
std::vector<Share> shares_of(const OpDef& op, size_t operands);
// The operand whose state output i of an update writes.
int written_operand(const OpDef& op, int output);

// ProgramError("[name] " + what) unless ok.
void require(bool ok, const char* op_name, const std::string& what);

}  // namespace pal
