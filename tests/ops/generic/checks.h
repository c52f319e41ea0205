// What every operator must do, as functions that return the problems they find (none: it holds).
// generic_test.cc asks them of all operators; meta_test.cc proves that each can fail.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/op.h"
#include "core/rewrite.h"
#include "tests/support/eval.h"

namespace pal::test {

using Problems = std::vector<std::string>;
using Bytes = std::vector<std::byte>;

// One operator with one of its examples: a program of a single node, and values for its operands.
struct Case {
  const OpDef* op;
  Example example;
  uint64_t seed;
  Program program;
  std::vector<ValueId> in, out;  // kNone where absent or unread
  std::vector<Bytes> values;     // by operand
  // Runs the operator's CUDA kernels there: on the emulated GPU (tests/emulation), or on a real one
  // (tests/gpu). Null: the processor.
  std::shared_ptr<Accelerator> accelerator = nullptr;
  bool cudnn = true;  // of a GPU: what may be cuDNN's is
};

// Draws the operands' values from `seed`. ProgramError when inference refuses the example.
Case make_case(const OpDef& op, const Example& example, uint64_t seed,
               std::shared_ptr<Accelerator> accelerator = nullptr);
// What the case runs on.
Device device_of(const Case& c, int threads);

// The outputs' bytes (empty where unread). Problems found while running go to `problems`.
std::vector<Bytes> evaluate(const Case& c, EvalOptions options, Problems& problems);

// Every byte of every output is written, whatever was there before; nothing else is.
Problems check_writes(const Case& c);
// Each declared share, alone and as many together as go: the same bits as without.
Problems check_shares(const Case& c);
// Each share is met by one of the operator's examples at least.
Problems check_shares_exercised(const std::vector<Case>& cases);
// Each window in place: the same bits as elsewhere.
Problems check_windows(const Case& c);
// An operand read by predicate may hold that predicate, one bit an element.
Problems check_predicates(const Case& c);
// The bytes of an operand that is read by shape do not matter.
Problems check_shape_only(const Case& c);
// OpDef::zeros: of what it makes, one in sixteen is zero at least; what it keeps is nothing else
// where its operands are.
Problems check_zeros(const std::vector<Case>& cases);
// The same bits with 1, 2 and 3 threads.
Problems check_threads(const Case& c);
// The same bits wherever the buffers begin; `on_rows`: wherever windows and views may.
Problems check_alignment(const Case& c, bool on_rows = false);
// The same bits from the same prepared kernels at once, when all have run, and prepared afresh.
Problems check_purity(const std::vector<Case>& cases);
// Leaving outputs unread does not change the others.
Problems check_unread(const Case& c);
// Operands of other ranks, extents and types are refused with a ProgramError that names the
// operator, or else handled.
Problems check_infer(const Case& c);
// The first operand that is said to be optional may be absent, alone or with those behind it.
Problems check_optional(const std::vector<Case>& cases);
// In place or not is the same; with its gate shut an update leaves the state as it was, NaNs or
// not.
Problems check_update(const Case& c);
// Whether the example has a gate among its operands.
bool has_gate(const Case& c);
// A node of many groups gives the bits of nodes of fewer.
Problems check_groups(const OpDef& op, const std::vector<Example>& examples,
                      std::shared_ptr<Accelerator> accelerator = nullptr);
// The operator's parts (Rewrite::When::split), one after the other, give its bits.
Problems check_parts(const Case& c, std::span<const Rewrite* const> rewrites = all_rewrites());
// OpDef::rows: run on some rows after the others, it gives the rows of the whole (of a library's
// kernels all but the last bits), and sums alike but for the order.
Problems check_rows(const Case& c);
// Of each thing that the operator says of rows one example at least is run so.
Problems check_rows_exercised(const std::vector<Case>& cases);
// The same case with all floats stored as f32; false where they are, or where the operator does not
// take them so.
bool widen(const Case& c, Case& wide);
// Storage of 16 bits rounds the results of the same values in f32, and changes no other.
Problems check_rounding(const Case& c);
// Names, formula, cost, attributes.
Problems check_facts(const Case& c);
Problems check_attrs(const std::vector<Example>& examples);
// Every operator of the program is in all_ops(), or in `also`.
Problems check_listed(const Program& program, std::span<const OpDef* const> also = {});

// Gradients against finite differences with random cotangents: of all operands together and each
// alone, through all outputs together and each alone, summed over two readers, added to a start.
// `statistics` are float outputs that no loss reaches (they are left out).
Problems check_gradient(const Case& c, const std::vector<int>& statistics = {});

// The program of the gradient check, for tests that look at its nodes.
Program gradient_program(const Case& c, const std::vector<int>& statistics = {});

}  // namespace pal::test
