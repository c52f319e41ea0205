// Checks of the recurrent cells.
#include "ops/recurrent/cells.h"

#include "ops/kernels/operands.h"
#include "ops/tensors/columns.h"

namespace pal {

void require_gates(const TensorSpec& gates, const TensorSpec& state, int count) {
  require(gates.shape.rank() == 2 && state.shape.rank() == 2 && is_float(gates.dtype) &&
              state.dtype == gates.dtype && gates.shape[0] == state.shape[0] &&
              gates.shape[1] == count * state.shape[1],
          gates, ", ", state, ": want gates (B, ", count, "H) and the state before (B, H)");
}

void require_lengths(const TensorSpec& lengths, const TensorSpec& state) {
  require(!present(lengths) || lengths == TensorSpec{{state.shape[0]}, DType::i32}, lengths,
          ": want lengths i32[B]");
}

std::vector<ExampleOperand> cell_operands(const char* kinds, int count, int64_t batch,
                                          int64_t width, DType type) {
  std::vector<ExampleOperand> operands;
  for (const char* kind = kinds; *kind; ++kind) {
    operands.push_back(*kind == 's'   ? example({batch, width}, type)
                       : *kind == 'g' ? example({batch, count * width}, type)
                       : *kind == 'l' ? example({batch}, DType::i32, 0, 4)
                                      : absent_example());
  }
  return operands;
}

bool lays_first_gate(SpecSpan in, const Attrs& attrs, int count) {
  const auto [width, begin] = attrs.as<ColumnsGradAttrs>();
  const TensorSpec& part = in[0];
  return part.shape.rank() == 2 && part.dtype == DType::f32 && begin == 0 &&
         width == count * part.shape[1] && in.size() > 1 && present(in[1]);
}

}  // namespace pal
