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

std::vector<Share> shares_of(const OpDef& op, size_t operands) {
  if (!op.group_in) return op.shares;
  std::vector<Share> shares;
  for (int g = 0; g < int(operands) / op.group_in; ++g) {
    for (Share s : op.shares) {
      shares.push_back({s.output + g * op.group_out, s.operand + g * op.group_in});
    }
  }
  return shares;
}

int written_operand(const OpDef& op, int output) {
  const int group = op.group_out ? output / op.group_out : 0;
  for (Share s : op.shares) {
    if (s.output == output - group * op.group_out) return s.operand + group * op.group_in;
  }
  throw ProgramError("[" + std::string(op.name) + "] output " + std::to_string(output) +
                     " of an update must share bytes with the state that it writes");
}

void require(bool ok, const char* op_name, const std::string& what) {
  if (!ok) throw ProgramError("[" + std::string(op_name) + "] " + what);
}

}  // namespace pal
