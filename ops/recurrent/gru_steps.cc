// Forward: the product of all inputs at once, then for each step h wh + bias_h and the cell.
// Backward: for each step the cell's gradient and its product with wh^T; then the weights'
// gradients, each as one product over all steps.
#include "ops/recurrent/gru_steps.h"

#include "ops/kernels/operands.h"
#include "ops/products/matmul.h"
#include "ops/recurrent/gru.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/casts.h"
#include "ops/tensors/fill.h"
#include "ops/tensors/reorder.h"

namespace pal {
namespace {

std::vector<Attrs> cell_attrs(int64_t steps) {
  std::vector<Attrs> out;
  out.reserve(size_t(steps));
  for (int64_t t = 0; t < steps; ++t) out.emplace_back(GruAttrs{t});
  return out;
}
FillAttrs zeros_of(const TensorSpec& spec) { return {spec.shape, spec.dtype, 0}; }

int64_t gates_bytes(const GruLayerShape& s) { return 3 * s.state_bytes(); }  // of one step
int64_t y_n_at(const GruLayerShape& s) { return align_up(s.T * gates_bytes(s)); }

TensorSpec lengths_spec(const GruLayerShape& s) {
  return s.has_lengths ? TensorSpec{{s.B}, DType::i32} : TensorSpec{};
}

int64_t most_workspace(std::initializer_list<const InnerKernel*> kernels) {
  int64_t bytes = 0;
  for (const InnerKernel* kernel : kernels) bytes = std::max(bytes, kernel->workspace());
  return bytes;
}

}  // namespace

int64_t GruSteps::reserve_bytes(const GruLayerShape& s) {
  return y_n_at(s) + s.T * s.state_bytes();
}

GruSteps::GruSteps(const Device& device, const GruLayerShape& s, WorkspaceParts& parts)
    : shape_(s), step_(cell_attrs(s.T)) {
  const TensorSpec state{{s.B, s.H}, s.type}, gates{{s.B, 3 * s.H}, s.type};
  const TensorSpec wx{{s.I, 3 * s.H}, s.type}, bias{{3 * s.H}};
  TensorSpec wh{{s.H, 3 * s.H}, s.type}, bias_h = bias;
  const MatmulAttrs product{.dtype = s.type};
  zero_ = {device, fill_op, {}, zeros_of(state)};
  inputs_ = {device, matmul_op, {{{s.T, s.B, s.I}, s.type}, wx, {}, bias}, product};
  // A card reads the bias in its own type: rounded once, and not in each step.
  if (device.kind == DeviceKind::cuda) {
    bias_h.dtype = matmul_card_type(3, Specs{state, wh, {}, bias}, product);
  }
  if (bias_h.dtype != DType::f32) cast_ = {device, cast_op, {bias}, CastAttrs{bias_h.dtype}};
  states_ = {device, matmul_op, {state, wh, {}, bias_h}, product};
  // All steps read the same weights: packed once where the product would like that.
  if (const Layout packed = states_.preferred(1); packed && s.T > 1) {
    pack_ = {device, reorder_op, {wh}, ReorderAttrs{packed}};
    wh.layout = packed;
    states_ = {device, matmul_op, {state, wh, {}, bias_h}, product};
  }
  cell_ = {device, gru_cell_op, {gates, gates, state, lengths_spec(s)}, step_[0]};
  zero_at_ = parts.add(state.bytes()), of_state_at_ = parts.add(gates.bytes());
  if (pack_) packed_at_ = parts.add(wh.bytes());
  if (cast_) bias_at_ = parts.add(bias_h.bytes());
  scratch_at_ = parts.add(most_workspace({&zero_, &inputs_, &pack_, &states_, &cell_, &cast_}));
}

void GruSteps::run(const KernelArgs& a, const In& in, std::byte* y, std::byte* reserve) const {
  const GruLayerShape& s = shape_;
  std::byte* const scratch = a.workspace + scratch_at_;
  std::byte* const zero = a.workspace + zero_at_;
  std::byte* const of_state = a.workspace + of_state_at_;
  const void *wh = in.wh, *bias_h = in.bias_h;
  if (pack_) pack_.run(a, {wh}, {a.workspace + packed_at_}, scratch), wh = a.workspace + packed_at_;
  if (cast_) {
    cast_.run(a, {bias_h}, {a.workspace + bias_at_}, scratch);
    bias_h = a.workspace + bias_at_;
  }
  zero_.run(a, {}, {zero}, scratch);
  inputs_.run(a, {in.x, in.wx, nullptr, in.bias}, {reserve}, scratch);
  const std::byte* before = zero;
  for (int64_t i = 0; i < s.T; ++i) {
    const int64_t t = s.backwards ? s.T - 1 - i : i;
    std::byte* const gates = reserve + t * gates_bytes(s);
    std::byte* const state = y + t * s.state_bytes();
    states_.run(a, {before, wh, nullptr, bias_h}, {of_state}, scratch);
    cell_.run(a, {gates, of_state, before, in.lengths},
              {state, gates, reserve + y_n_at(s) + t * s.state_bytes()}, scratch,
              &step_[size_t(t)]);
    before = state;
  }
}

GruStepsGrad::GruStepsGrad(const Device& device, const GruLayerShape& s,
                           const GruLayerGradAttrs& attrs, SpecSpan out, WorkspaceParts& parts)
    : shape_(s), step_(cell_attrs(s.T)) {
  using G = GruLayerGrad;
  const TensorSpec state{{s.B, s.H}, s.type}, gates{{s.B, 3 * s.H}, s.type};
  const TensorSpec wx{{s.I, 3 * s.H}, s.type}, wh{{s.H, 3 * s.H}, s.type};
  const TensorSpec all{{s.T, s.B, 3 * s.H}, s.type}, x{{s.T, s.B, s.I}, s.type};
  const TensorSpec lengths = lengths_spec(s);
  zero_ = {device, fill_op, {}, zeros_of(state)};
  first_cell_ = {device, gru_cell_grad_op, {gates, state, state, state, lengths, {}}, step_[0]};
  cell_ = {device, gru_cell_grad_op, {gates, state, state, state, lengths, state}, step_[0]};
  carry_ = {device, matmul_op, {gates, wh, state}, MatmulAttrs{.tb = true, .dtype = s.type}};
  if (present(out[G::kDx])) {
    dx_ = {device, matmul_op, {all, wx, {}}, MatmulAttrs{.tb = true, .dtype = s.type}};
  }
  if (present(out[G::kDwx])) {
    dwx_ = {device, matmul_op, {x, all, {}}, MatmulAttrs{.ta = true, .dtype = attrs.dwx}};
  }
  if (present(out[G::kDwh]) && s.T > 1) {
    const TensorSpec before{{s.T - 1, s.B, s.H}, s.type}, d{{s.T - 1, s.B, 3 * s.H}, s.type};
    dwh_ = {device, matmul_op, {before, d, {}}, MatmulAttrs{.ta = true, .dtype = attrs.dwh}};
  } else if (present(out[G::kDwh])) {
    zero_dwh_ = {device, fill_op, {}, zeros_of(out[G::kDwh])};
  }
  if (present(out[G::kDbias]) || present(out[G::kDbiasH])) {
    dbias_ = {device, sum_leading_op, {all, {}}, SumLeadingAttrs{2, DType::f32}};
  }
  zero_at_ = parts.add(state.bytes()), carry_at_ = parts.add(state.bytes());
  dgates_at_ = parts.add(all.bytes()), dstate_at_ = parts.add(all.bytes());
  scratch_at_ = parts.add(most_workspace(
      {&zero_, &first_cell_, &cell_, &carry_, &dx_, &dwx_, &dwh_, &zero_dwh_, &dbias_}));
}

// Step i of the layer's order, from the last to the first: what comes in is dy where i is the last,
// else what the step behind it left in `carry`, which holds dy of this step already.
void GruStepsGrad::run_step(const KernelArgs& a, const std::byte* reserve, int64_t i) const {
  using G = GruLayerGrad;
  const GruLayerShape& s = shape_;
  const int64_t state = s.state_bytes(), t = s.backwards ? s.T - 1 - i : i;
  const int64_t before = s.backwards ? t + 1 : t - 1;
  const auto *y = a.input<std::byte>(G::kY), *dy = a.input<std::byte>(G::kDy);
  const void* lengths = input_if_present(a, G::kLengths);
  std::byte* const carry = a.workspace + carry_at_;
  std::byte* const d_gates = a.workspace + dgates_at_ + t * gates_bytes(s);
  std::byte* const d_state = a.workspace + dstate_at_ + t * gates_bytes(s);
  std::byte* const scratch = a.workspace + scratch_at_;
  const void* gates = reserve + t * gates_bytes(s);
  const void* y_n = reserve + y_n_at(s) + t * state;
  const void* dh = i == s.T - 1 ? dy + t * state : carry;
  if (i == 0) {  // nobody wants the gradient of the zeros before it
    first_cell_.run(a, {gates, y_n, a.workspace + zero_at_, dh, lengths, nullptr},
                    {d_gates, d_state, nullptr}, scratch, &step_[size_t(t)]);
    return;
  }
  cell_.run(a, {gates, y_n, y + before * state, dh, lengths, dy + before * state},
            {d_gates, d_state, carry}, scratch, &step_[size_t(t)]);
  carry_.run(a, {d_state, a.in[G::kWh], carry}, {carry}, scratch);
}

void GruStepsGrad::run(const KernelArgs& a, const std::byte* reserve) const {
  using G = GruLayerGrad;
  const GruLayerShape& s = shape_;
  std::byte* const scratch = a.workspace + scratch_at_;
  zero_.run(a, {}, {a.workspace + zero_at_}, scratch);
  for (int64_t i = s.T - 1; i >= 0; --i) run_step(a, reserve, i);

  const std::byte* const d_gates = a.workspace + dgates_at_;
  const std::byte* const d_state = a.workspace + dstate_at_;
  if (dx_) dx_.run(a, {d_gates, a.in[G::kWx], nullptr}, {a.out[G::kDx]}, scratch);
  if (dwx_) dwx_.run(a, {a.in[G::kX], d_gates, nullptr}, {a.out[G::kDwx]}, scratch);
  if (dwh_) {  // each step's gates by the state before it
    const auto* y = a.input<std::byte>(G::kY);
    const std::byte* from = s.backwards ? y + s.state_bytes() : y;
    const std::byte* by = s.backwards ? d_state : d_state + gates_bytes(s);
    dwh_.run(a, {from, by, nullptr}, {a.out[G::kDwh]}, scratch);
  }
  if (zero_dwh_) zero_dwh_.run(a, {}, {a.out[G::kDwh]}, scratch);
  if (a.out[G::kDbias]) dbias_.run(a, {d_gates, nullptr}, {a.out[G::kDbias]}, scratch);
  if (a.out[G::kDbiasH]) dbias_.run(a, {d_state, nullptr}, {a.out[G::kDbiasH]}, scratch);
}

}  // namespace pal
