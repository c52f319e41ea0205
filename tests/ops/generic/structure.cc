// The checks of what an operator says of itself: inference, attributes, cost; and of updates.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "core/error.h"
#include "core/scalars.h"
#include "ops/kernels/gate.h"
#include "ops/kernels/tiles.h"
#include "tests/ops/generic/checks.h"

namespace pal::test {
namespace {

bool names_op(const std::string& message, const OpDef& op) {
  return message.find("[" + std::string(op.name) + "]") != std::string::npos;
}

// Specs near one that is right: other ranks, extents and types.
std::vector<TensorSpec> neighbours(const TensorSpec& spec) {
  std::vector<TensorSpec> out;
  auto with_shape = [&](Shape shape) { out.push_back({shape, spec.dtype}); };
  with_shape(Shape{});
  if (spec.shape.rank() < Shape::kMaxRank) {
    with_shape(spec.shape.with_front(1)), with_shape(spec.shape.with_front(3));
    Shape longer = spec.shape;
    longer.append(2);
    with_shape(longer);
  }
  for (int axis = 0; axis < spec.shape.rank(); ++axis) {
    with_shape(spec.shape.without(axis));
    for (int64_t extent : {int64_t(0), int64_t(1), spec.shape[axis] - 1, spec.shape[axis] + 1,
                           2 * spec.shape[axis]}) {
      Shape other = spec.shape;
      other[axis] = extent;
      if (!(other == spec.shape)) with_shape(other);
    }
  }
  for (DType type :
       {DType::f32, DType::bf16, DType::f16, DType::i32, DType::u8, DType::u4, DType::bit}) {
    if (type != spec.dtype) out.push_back({spec.shape, type});
  }
  return out;
}

// Whether a kernel can be run on these operands without indices that point nowhere.
bool safe_to_run(const Example& example) {
  int64_t elements = 0;
  for (auto& operand : example.operands) {
    if (operand.absent) continue;
    const DType type = operand.spec.dtype;
    const bool index = type == DType::i32 || type == DType::u8 || type == DType::u4;
    if (operand.spec.numel() == 0 || (index && !(operand.spec == scalars_spec()))) return false;
    elements += operand.spec.numel();
  }
  return elements < 4096;
}

// Infers, and where that is accepted runs the example: ProgramError that names the operator, or a
// kernel that handles it.
void refused_or_handled(const OpDef& op, const Example& example, uint64_t seed, bool runs,
                        const std::string& what, Problems& problems) {
  try {
    Case other = make_case(op, example, seed);
    if (!runs || !safe_to_run(example)) return;
    for (auto& p : check_writes(other)) problems.push_back(what + " is accepted, but: " + p);
  } catch (const ProgramError& error) {
    if (!names_op(error.what(), op)) {
      problems.push_back(what + ": the error does not name the operator: " + error.what());
    }
  } catch (const std::exception& error) {
    problems.push_back(what + " throws something else than ProgramError: " + error.what());
  }
}

// The operand that holds the gate (ops/kernels/gate.h), kNone where an update has none.
int gate_operand(const Case& c) {
  std::vector<char> written(c.in.size(), 0);
  for (Share s : shares_of(*c.op, c.in.size())) written[size_t(s.operand)] = 1;
  for (size_t k = c.in.size(); k-- > 0;) {
    const int position = place_in_group(*c.op, k);
    if (c.in[k] != kNone && !written[k] && position >= c.op->optional_from &&
        c.example.operands[k].spec == gate_spec()) {
      return int(k);
    }
  }
  return kNone;
}

// With every gate shut and NaN for gradients, states keep their bits.
void check_shut_gate(const Case& c, Problems& problems) {
  Case shut = c;
  const int gate = gate_operand(c), group = c.op->arity ? c.op->arity : int(c.in.size());
  std::vector<char> written(c.in.size(), 0);
  for (Share s : shares_of(*c.op, c.in.size())) written[size_t(s.operand)] = 1;
  for (size_t k = 0; k < c.in.size(); ++k) {
    if (c.in[k] == kNone || written[k] || c.example.operands[k].spec == scalars_spec()) continue;
    if (int(k) % group == gate % group) {
      shut.values[k] = encode(gate_spec(), {1, 0, 1, 0});
    } else if (c.example.operands[k].spec.dtype == DType::f32) {
      shut.values[k].assign(shut.values[k].size(), std::byte{0xFF});
    }
  }
  for (bool in_place : {false, true}) {
    auto out = evaluate(shut, {.updates_in_place = in_place}, problems);
    for (size_t i = 0; i < out.size(); ++i) {
      if (c.out[i] == kNone || out[i] == c.values[size_t(written_operand(*c.op, int(i)))]) continue;
      problems.push_back("output " + std::to_string(i) +
                         " is not the old state when the gate is shut");
    }
  }
}

}  // namespace

bool has_gate(const Case& c) { return gate_operand(c) != kNone; }

Problems check_infer(const Case& c) {
  Problems problems;
  const bool runs = safe_to_run(c.example);
  for (size_t k = 0; k < c.example.operands.size(); ++k) {
    if (c.in[k] == kNone) continue;
    for (const TensorSpec& spec : neighbours(c.example.operands[k].spec)) {
      Example example = c.example;
      example.operands[k].spec = spec;
      refused_or_handled(*c.op, example, c.seed, runs,
                         "operand " + std::to_string(k) + " as " + to_string(spec), problems);
    }
    const int position = place_in_group(*c.op, k);
    if (position < c.op->optional_from) continue;
    Example example = c.example;
    example.operands[k].absent = true;
    refused_or_handled(*c.op, example, c.seed, runs, "operand " + std::to_string(k) + " absent",
                       problems);
  }
  return problems;
}

Problems check_optional(const std::vector<Case>& cases) {
  if (cases.empty() || cases[0].op->optional_from == std::numeric_limits<int>::max()) return {};
  const OpDef& op = *cases[0].op;
  const auto takes = [&](const Case& c, bool behind) {
    Specs in = specs_of(c.program, c.in);
    for (size_t k = 0; k < in.size(); ++k) {
      const int place = place_in_group(op, k);
      if (place == op.optional_from || (behind && place > op.optional_from)) in[k] = {};
    }
    try {
      infer_specs(op, in, c.example.attrs);
    } catch (const ProgramError&) {
      return false;
    }
    return true;
  };
  for (const Case& c : cases) {
    if (takes(c, false) || takes(c, true)) return {};
  }
  return {"operand " + std::to_string(op.optional_from) + " is optional, but never may be absent"};
}

Problems check_update(const Case& c) {
  Problems problems;
  if (!c.op->writes_state) return problems;
  auto elsewhere = evaluate(c, {.updates_in_place = false}, problems);
  auto in_place = evaluate(c, {.updates_in_place = true}, problems);
  bool changes = false;
  for (size_t i = 0; i < c.out.size(); ++i) {
    const size_t k = size_t(written_operand(*c.op, int(i)));
    if (c.out[i] == kNone) continue;
    if (!(c.program.value(c.out[i]).spec == c.program.value(c.in[k]).spec)) {
      problems.push_back("output " + std::to_string(i) + " has another spec than the state");
      continue;
    }
    const std::string difference =
        first_difference(c.program.value(c.out[i]).spec, elsewhere[i], in_place[i]);
    if (!difference.empty()) {
      problems.push_back("output " + std::to_string(i) + " has other bits in place: " + difference);
    }
    changes |= elsewhere[i] != c.values[k];
  }
  if (!changes) problems.push_back("the update changes nothing");
  if (has_gate(c)) check_shut_gate(c, problems);
  return problems;
}

Problems check_groups(const OpDef& op, const std::vector<Example>& examples,
                      std::shared_ptr<Accelerator> accelerator) {
  Problems problems;
  if (!op.arity) return problems;
  for (size_t first = 0; first < examples.size(); ++first) {
    // The same example with several values, and all others that have its attributes and operands.
    std::vector<Case> apart{make_case(op, examples[first], 1, accelerator),
                            make_case(op, examples[first], 2, accelerator)};
    for (size_t e = 0; e < examples.size(); ++e) {
      if (e != first && examples[e].attrs == examples[first].attrs) {
        apart.push_back(make_case(op, examples[e], 3 + e, accelerator));
      }
    }
    Example joined{.attrs = examples[first].attrs};
    std::vector<Bytes> values, expected;
    for (const Case& one : apart) {
      const size_t groups = one.in.size() / size_t(op.arity);
      const bool fits = op.shares.empty() ? one.out.size() % groups == 0
                                          : one.out.size() == groups * op.shares.size();
      if (one.in.size() % size_t(op.arity) != 0 || !fits) {
        return {"arity or shares do not fit an example's operands and outputs"};
      }
      for (auto& operand : one.example.operands) joined.operands.push_back(operand);
      for (auto& bytes : one.values) values.push_back(bytes);
      for (auto& bytes : evaluate(one, {}, problems)) expected.push_back(bytes);
    }
    Case together = make_case(op, joined, 1, accelerator);
    together.values = values;
    for (int threads : {1, 3}) {
      auto got = evaluate(together, {.threads = threads}, problems);
      if (got.size() != expected.size()) return {"many groups have another number of outputs"};
      for (size_t i = 0; i < got.size(); ++i) {
        if (got[i] != expected[i]) {
          problems.push_back("output " + std::to_string(i) + " has other bits in many groups");
        }
      }
    }
  }
  return problems;
}

Problems check_facts(const Case& c) {
  Problems problems;
  if (!c.op->name || !*c.op->name) problems.push_back("no name");
  if (!c.op->formula || !*c.op->formula) problems.push_back("no formula");
  const Specs in = specs_of(c.program, c.in), out = specs_of(c.program, c.out);
  const Cost cost = cost_of(*c.op, in, out, c.example.attrs);
  if (!std::isfinite(cost.flops) || cost.flops < 0)
    problems.push_back("flops are not a number >= 0");
  if (!std::isfinite(cost.bytes) || cost.bytes < 0)
    problems.push_back("bytes are not a number >= 0");
  if (!c.op->windows && !(cost.flops + cost.bytes > 0)) problems.push_back("it costs nothing");
  // Small tensors beside a large one are not always counted, nor is the step's row of scalars.
  double read = 0, written = 0;
  for (const TensorSpec& spec : in) {
    if (is_float(spec.dtype)) read = std::max(read, double(spec.bytes()));
  }
  for (const TensorSpec& spec : out) written = std::max(written, double(spec.bytes()));
  const std::string_view name = c.op->name ? c.op->name : "";
  const bool of_parts =
      name == "subsample" || name == "embedding_grad" || name == "moments_over_ranks";
  if (!c.op->windows && !of_parts && cost.bytes < 0.7 * (read + written)) {
    problems.push_back("it moves fewer bytes than its largest operand and result have");
  }
  // Inference is a function: twice the same.
  if (!(infer_specs(*c.op, in, c.example.attrs) == infer_specs(*c.op, in, c.example.attrs))) {
    problems.push_back("inference gives other specs the second time");
  }
  for (size_t k = 0; k < c.in.size(); ++k) {
    const Reads reads = reads_of(*c.op, int(k), c.example.attrs);
    if (reads.kind == Reads::Kind::predicate && !(reads.lo < reads.hi)) {
      problems.push_back("the predicate of operand " + std::to_string(k) + " never holds");
    }
  }
  return problems;
}

Problems check_attrs(const std::vector<Example>& examples) {
  Problems problems;
  for (auto& a : examples) {
    for (auto& b : examples) {
      const bool equal = a.attrs == b.attrs;
      if (equal != (a.attrs.print() == b.attrs.print())) {
        problems.push_back("attributes print alike but differ, or the reverse: " + a.attrs.print());
      }
      if (equal && a.attrs.hash() != b.attrs.hash()) {
        problems.push_back("equal attributes with different hashes: " + a.attrs.print());
      }
    }
  }
  return problems;
}

Problems check_listed(const Program& program, std::span<const OpDef* const> also) {
  Problems problems;
  for (const Node& node : program.nodes) {
    const auto ops = all_ops();
    if (std::count(ops.begin(), ops.end(), node.op) ||
        std::count(also.begin(), also.end(), node.op)) {
      continue;
    }
    problems.push_back("[" + std::string(node.op->name) + "] is not in all_ops()");
  }
  return problems;
}

}  // namespace pal::test
