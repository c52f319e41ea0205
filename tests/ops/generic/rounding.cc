// Storage of 16 bits against f32: the same arithmetic on the same values, rounded when it is
// stored.
#include <cmath>

#include "core/error.h"
#include "tests/ops/generic/record.h"

namespace pal::test {

bool widen(const Case& c, Case& wide) {
  Example example = c.example;
  bool any = false;
  for (auto& operand : example.operands) {
    if (!is_float(operand.spec) || operand.spec.dtype == DType::f32) continue;
    operand.spec.dtype = DType::f32, any = true;
  }
  if (!any) return false;
  try {
    wide = make_case(*c.op, example, c.seed);
  } catch (const ProgramError&) {
    return false;
  }
  for (size_t k = 0; k < c.in.size(); ++k) {
    if (c.in[k] == kNone) continue;
    // What is encoded in a layout of its own is the same bytes, whatever they decode to.
    wide.values[k] =
        is_float(c.example.operands[k].spec) && !c.example.operands[k].spec.layout
            ? encode(wide.example.operands[k].spec, decode(c.example.operands[k].spec, c.values[k]))
            : c.values[k];
  }
  return true;
}

Problems check_rounding(const Case& c) {
  Problems problems;
  Case wide;
  if (!widen(c, wide)) return problems;
  const auto want = evaluate(wide, {}, problems), got = evaluate(c, {}, problems);
  for (size_t i = 0; i < c.out.size(); ++i) {
    if (c.out[i] == kNone) continue;
    const TensorSpec& spec = c.program.value(c.out[i]).spec;
    const TensorSpec& wide_spec = wide.program.value(wide.out[i]).spec;
    if (spec.layout && spec.bytes() == wide_spec.bytes()) {
      // Encoded from the same values. Bytes of other sizes hold elements, whose decoding is tested.
      if (want[i] != got[i])
        problems.push_back("output " + std::to_string(i) + " is encoded otherwise than from f32");
      continue;
    }
    if (spec.layout) continue;
    const Floats exact = decode(wide_spec, want[i]);
    const Floats expected = decode(spec, encode(spec, exact)), found = decode(spec, got[i]);
    // Two units in the last place: a node that does the work of several rounds between them. Of
    // f32, another order of a sum.
    const float unit = spec.dtype == DType::bf16  ? 0x1p-7f
                       : spec.dtype == DType::f16 ? 0x1p-10f
                       : is_float(spec)           ? 1e-5f
                                                  : 0;
    const float scale = float(rms(exact));
    for (size_t j = 0; j < found.size(); ++j) {
      const float a = expected[j], b = found[j];
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      if (std::fabs(a - b) <= unit * (std::fabs(a) + scale)) continue;
      problems.push_back("output " + std::to_string(i) + " element " + std::to_string(j) + ": " +
                         print_float(double(b)) + " in 16 bits, rounded from f32 " +
                         print_float(double(a)));
      break;
    }
  }
  return problems;
}

}  // namespace pal::test
