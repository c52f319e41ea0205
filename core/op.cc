// Defaults of the operator contract.
#include "core/op.h"

#include <algorithm>

#include "core/error.h"

namespace pal {

Specs specs_of(const Program& program, const std::vector<ValueId>& values) {
  Specs specs;
  specs.reserve(values.size());
  for (ValueId v : values) specs.push_back(v == kNone ? TensorSpec{} : program.value(v).spec);
  return specs;
}

SpecSpan SpecList::of(const Program& program, const std::vector<ValueId>& values) {
  if (specs_.size() < values.size()) specs_.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    specs_[i] = values[i] == kNone ? TensorSpec{} : program.value(values[i]).spec;
  }
  return {specs_.data(), values.size()};
}

Cost cost_of(const OpDef& op, SpecSpan in, SpecSpan out, const Attrs& attrs) {
  if (op.cost) return op.cost(in, out, attrs);
  Cost cost;
  for (auto& spec : in)
    cost.bytes += double(spec.shape.rank() || spec.dtype != DType::f32 ? spec.bytes() : 0);
  for (auto& spec : out) {
    cost.bytes += double(spec.bytes());
    if (!op.windows) cost.flops += double(spec.numel());
  }
  return cost;
}

Cost cost_of(const Program& program, const Node& node) {
  return cost_of(*node.op, specs_of(program, node.in), specs_of(program, node.out), node.attrs);
}

Reads reads_of(const OpDef& op, int operand, const Attrs& attrs) {
  return op.reads ? op.reads(operand, attrs) : reads_values();
}

ByValue<char> values_with_zeros(const Program& program) {
  ByValue<char> out(program.values.size(), 0);
  auto has = [&](ValueId v) { return v == kNone || out[v]; };
  for (const Node& node : program.nodes) {
    const Zeros zeros = node.op->zeros ? node.op->zeros(node.attrs) : Zeros::few;
    bool many = zeros == Zeros::makes;
    if (zeros == Zeros::keeps) many = has(node.in[0]);
    if (zeros == Zeros::gathers) many = std::all_of(node.in.begin(), node.in.end(), has);
    for (ValueId v : present(node.out)) {
      const DType type = program.value(v).spec.dtype;
      out[v] = many && (type == DType::f32 || type == DType::bf16 || type == DType::f16);
    }
  }
  return out;
}

int place_in_group(const OpDef& op, size_t operand) {
  return op.arity ? int(operand) % op.arity : int(operand);
}

// A group has as many outputs as states to write: one for each share.
std::vector<Share> shares_of(const OpDef& op, size_t operands) {
  if (!op.arity) return op.shares;
  const int outputs = int(op.shares.size());
  std::vector<Share> shares;
  for (int g = 0; g < int(operands) / op.arity; ++g) {
    for (Share s : op.shares) {
      shares.push_back({s.output + g * outputs, s.operand + g * op.arity});
    }
  }
  return shares;
}

std::vector<NodeWindow> windows_of(const Program& program, const Node& node) {
  std::vector<NodeWindow> out;
  if (!node.op->windows) return out;
  const Specs in = specs_of(program, node.in), made = specs_of(program, node.out);
  for (const Window& w : node.op->windows(in, made, node.attrs)) {
    const bool is_view = w.of == Window::Of::operand;
    const ValueId operand = node.in[size_t(w.operand)], output = node.out[size_t(w.output)];
    if (operand == kNone || output == kNone) continue;
    out.push_back({.small = is_view ? output : operand,
                   .large = is_view ? operand : output,
                   .offset = w.offset,
                   .is_view = is_view,
                   .output = w.output});
  }
  return out;
}

int written_operand(const OpDef& op, int output) {
  const int outputs = int(op.shares.size());
  const int group = op.arity ? output / outputs : 0;
  for (Share s : op.shares) {
    if (s.output == output - group * outputs) return s.operand + group * op.arity;
  }
  throw ProgramError("[" + std::string(op.name) + "] output " + std::to_string(output) +
                     " of an update must share bytes with the state that it writes");
}

namespace {

struct Misfit : ProgramError {
  using ProgramError::ProgramError;
};

}  // namespace

Specs infer_specs(const OpDef& op, SpecSpan in, const Attrs& attrs) {
  try {
    return op.infer(in, attrs);
  } catch (const Misfit& error) {
    throw ProgramError("[" + std::string(op.name) + "] " + error.what());
  }
}

void misfit(const std::string& what) { throw Misfit(what); }

void misfit(const OpDef& op, const std::string& what) {
  throw ProgramError("[" + std::string(op.name) + "] " + what);
}

}  // namespace pal
