// Defaults of the operator contract.
#include "core/op.h"

#include "core/error.h"

namespace pal {

Cost cost_of(const OpDef& op, SpecSpan in, SpecSpan out, const Attrs& attrs) {
  if (op.cost) return op.cost(in, out, attrs);
  Cost cost;
  for (auto& spec : in)
    cost.bytes += double(spec.shape.rank() || spec.dtype != DType::f32 ? spec.bytes() : 0);
  for (auto& spec : out) cost.bytes += double(spec.bytes()), cost.flops += double(spec.numel());
  return cost;
}

Reads reads_of(const OpDef& op, int operand, const Attrs& attrs) {
  return op.reads ? op.reads(operand, attrs) : reads_values();
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

void require(bool ok, const std::string& what) {
  if (!ok) throw Misfit(what);
}

void require(bool ok, const char* op_name, const std::string& what) {
  if (!ok) throw ProgramError("[" + std::string(op_name) + "] " + what);
}

}  // namespace pal
