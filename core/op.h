// The operator contract: everything a pass, the runner or a test may ask of an operator.
// An operator is one plain OpDef; its file holds every fact about it (docs/operators.md).
#pragma once
#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/program.h"
#include "core/text.h"

namespace pal {

using Specs = std::vector<TensorSpec>;
using SpecSpan = std::span<const TensorSpec>;

// What a kernel needs to know of an operand. A value all of whose backward readers need the same
// predicate can be kept as one bit per element (Gist's Binarize, Echo's layer specifics).
struct Reads {
  enum class Kind : uint8_t {
    values,
    shape,
    predicate,  // lo < x && x < hi
    exact  // values, of which rounded ones would not do: they meet a statistic of the exact ones
           // where small errors grow (e^(x - log sum e^x))
  } kind = Kind::values;
  float lo = 0, hi = 0;
  bool operator==(const Reads&) const = default;
  bool takes_values() const { return kind == Kind::values || kind == Kind::exact; }
};
inline Reads reads_values() { return {}; }
inline Reads reads_exact() { return {Reads::Kind::exact}; }
inline Reads reads_shape() { return {Reads::Kind::shape}; }
inline Reads reads_predicate(float lo, float hi = std::numeric_limits<float>::infinity()) {
  return {Reads::Kind::predicate, lo, hi};
}

// How many of what it writes is zero (the bits of +0), as far as that can be told from the operator
// alone. A guess at densities goes by it while a step is planned; what a run counted is better.
enum class Zeros : uint8_t {
  few,      // or nobody knows
  makes,    // many, whatever its operands are (relu)
  keeps,    // many where operand 0 has many; all where that is all zeros (a view, a maximum)
  gathers,  // likewise, of all operands that are there (a stack)
};
inline Zeros makes_zeros(const Attrs&) { return Zeros::makes; }
inline Zeros keeps_zeros(const Attrs&) { return Zeros::keeps; }
inline Zeros gathers_zeros(const Attrs&) { return Zeros::gathers; }

// How what a node makes follows its operands' leading axis (a batch's examples): what running it on
// some rows at a time needs (memory/passes/batch_parts.h).
struct Rows {
  // Bit i set: of operand i it reads the rows that it makes; of other operands all. Operand 0 has
  // two axes or more. No bit: it looks at the batch as a whole.
  uint32_t operands = 0;
  // Its one result is a sum over these rows, added onto this operand where that is there; -1: each
  // result has as many rows, in their order.
  int sum = -1;
  bool reads(size_t operand) const { return (operands >> std::min<size_t>(operand, 31) & 1) != 0; }
};
inline Rows rows_of_each(const Attrs&) { return {.operands = ~0u}; }
inline Rows rows_of_first(const Attrs&) { return {.operands = 1}; }

struct Share {
  int output, operand;
};  // the output may be written over the operand, byte for byte

// The output and the operand share bytes. Of::operand: the output is a window of the operand, which
// is the larger one (a view). Of::output: the operand is a window of the output (a gathering op).
// The kernel must still copy when the pointers say that the bytes are elsewhere.
struct Window {
  enum class Of : uint8_t { operand, output } of;
  int output, operand;
  int64_t offset;  // bytes, from the start of the larger one
};

struct Cost {
  double flops = 0, bytes = 0;
  double link = 0;  // bytes that a rank sends to others
  // Where these are of its own machine alone, or of other machines alone: how many exchange them;
  // and whether every rank sends to every other, whichever machine that is on.
  int64_t inside = 0, between = 0;
  bool to_each = false;
};

struct Queue;  // where a kernel runs: on the CPU a thread with its number of workers

// What a kernel is handed. It allocates nothing and keeps no pointer.
struct KernelArgs {
  std::span<void* const> in;   // null where an optional operand is absent
  std::span<void* const> out;  // null where the output is not read
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
  // By whose code it runs, where that was a choice ("cuDNN's graph"); empty: by its own kernels.
  std::string by = {};
};

struct Device;

// One backend of an operator. prepare runs once per distinct (op, attrs, specs), at compile time;
// run is not called where no output is read, so that the kernel of a single output finds it there.
// The header of an operator declares its CUDA backend weakly, [[gnu::weak]]: a build without CUDA
// does not define it, and its address is null.
struct Backend {
  void (*run)(const KernelArgs&) = nullptr;
  Prepared (*prepare)(const Device&, SpecSpan in, SpecSpan out, const Attrs&) = nullptr;
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

class GradientArgs;   // core/gradient.h
struct FusedPattern;  // core/rewrite.h

struct OpDef {
  const char* name;
  const char* formula;  // one line for the printer's legend and the docs

  // Shapes and types of the outputs; throws by require() where operands do not fit. Called by
  // infer_specs alone.
  Specs (*infer)(SpecSpan in, const Attrs&);
  void (*gradient)(GradientArgs&) = nullptr;  // null: not differentiable

  // Operands from this one on may be absent.
  int optional_from = std::numeric_limits<int>::max();
  // Of an operator that takes several weights (or other tensors) at once: the operands of one, its
  // group. A node has any number of groups, one after the other, and shares and optional operands
  // repeat with each. 0: all operands are one group.
  int arity = 0;
  std::vector<Share> shares = {};
  Reads (*reads)(int operand, const Attrs&) = nullptr;  // null: values of every operand
  // An operand whose values the CPU kernel makes from its codes (ops/encodings) itself, a part at a
  // time, where it is given those; -1: none.
  int reads_codes = -1;
  Zeros (*zeros)(const Attrs&) = nullptr;  // of its floats; null: few
  Rows (*rows)(const Attrs&) = nullptr;    // null: it looks at the batch as a whole
  // The type that a card's kernel reads an f32 operand in. It makes a copy each time, unless it is
  // handed one (memory/passes/card_copies.h). Null: every operand's own.
  DType (*card_type)(size_t operand, SpecSpan in, const Attrs&) = nullptr;
  std::vector<Window> (*windows)(SpecSpan in, SpecSpan out, const Attrs&) = nullptr;
  Cost (*cost)(SpecSpan in, SpecSpan out,
               const Attrs&) = nullptr;  // null: one flop an output element, none of a window
  // Ranks exchange bytes in it: every rank runs the same of them in the same order, so none may be
  // run again, dropped or moved past another.
  bool collective = false;
  // Of an operator that looks at a batch as a whole: the nodes that do its work where each of so
  // many ranks has a part of the batch (memory/passes/over_ranks.h). Null: it does not.
  FusedPattern (*over_ranks)(SpecSpan in, const Attrs&, int64_t ranks) = nullptr;
  bool writes_state = false;  // an update: output i is the next value of the state that operand
                              // shares[i].operand holds

  Backend cpu;
  const Backend* cuda = nullptr;

  std::vector<Example> examples = {};
};

// Every operator that the program can contain, for the tests that meet all of them.
std::span<const OpDef* const> all_ops();

// Specs of a node's operands and outputs; absent ones are empty.
Specs specs_of(const Program& program, const std::vector<ValueId>& values);
// The same for one node after the other, without a list for each.
class SpecList {
 public:
  SpecSpan of(const Program& program, const std::vector<ValueId>& values);  // until the next call

 private:
  Specs specs_;
};
// cost, with the default for operators that declare none: all bytes in and out, a flop an
// element (of windows none: they are moved at most).
Cost cost_of(const OpDef& op, SpecSpan in, SpecSpan out, const Attrs& attrs);
Cost cost_of(const Program& program, const Node& node);
Reads reads_of(const OpDef& op, int operand, const Attrs& attrs);
// The values of a program that have many zeros, as far as their makers tell.
ByValue<char> values_with_zeros(const Program& program);
// Whether nodes of it may be made one, of all their groups: none exchanges anything.
inline bool takes_groups(const OpDef& op) { return op.arity > 0 && !op.collective; }
// The place of an operand in its group.
int place_in_group(const OpDef& op, size_t operand);
// The pairs that may share bytes in a node with this number of operands: those of every group.
std::vector<Share> shares_of(const OpDef& op, size_t operands);
// A node's windows, of values that are both there.
struct NodeWindow {
  ValueId small, large;
  int64_t offset;  // bytes, of the small one in the large one
  bool is_view;    // the small one is an output, else an operand
  int output;      // of the node: the small one, or the large one
};
std::vector<NodeWindow> windows_of(const Program& program, const Node& node);
// The operand whose state output i of an update writes.
int written_operand(const OpDef& op, int output);

// Shapes and types of the outputs; ProgramError("[name] ...") where operands do not fit.
Specs infer_specs(const OpDef& op, SpecSpan in, const Attrs& attrs);

[[noreturn]] void misfit(const std::string& what);
[[noreturn]] void misfit(const OpDef& op, const std::string& what);
// In an operator's inference: an error unless ok. infer_specs puts the operator's name before it.
// `parts` make its text one after the other; numbers, shapes, specs are printed only then, since a
// step's verification infers every node. Where a part costs something, it is a function that gives
// the text.
template <class... Parts> void require(bool ok, const Parts&... parts) {
  if (!ok) misfit(join_parts(parts...));
}
// Anywhere: ProgramError("[name] ...") unless ok.
template <class... Parts> void require_of(const OpDef& op, bool ok, const Parts&... parts) {
  if (!ok) misfit(op, join_parts(parts...));
}

}  // namespace pal
