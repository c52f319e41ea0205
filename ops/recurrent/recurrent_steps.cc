// Forward: the product of all inputs at once, then for each step that of the state with wh, and the
// cell. Backward: for each step the cell's gradient and its product with wh^T; then the weights'
// gradients, each as one product over all steps. A GRU's cell takes both products apart; an LSTM's
// takes their sum, which is made over the inputs' part.
#include "ops/recurrent/recurrent_steps.h"

#include "ops/kernels/operands.h"
#include "ops/products/matmul.h"
#include "ops/recurrent/gru.h"
#include "ops/recurrent/lstm.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/casts.h"
#include "ops/tensors/fill.h"
#include "ops/tensors/reorder.h"

namespace pal {
namespace {

using Operands = RecurrentOperands;
using G = RecurrentGradients;

std::vector<Attrs> cell_attrs(const RecurrentShape& s) {
  std::vector<Attrs> out;
  out.reserve(size_t(s.T));
  for (int64_t t = 0; t < s.T; ++t) {
    out.push_back(s.is_lstm() ? Attrs(LstmAttrs{0, t}) : Attrs(GruAttrs{t}));
  }
  return out;
}
FillAttrs zeros_of(const TensorSpec& spec) { return {spec.shape, spec.dtype, 0}; }

// y_n or c of all steps, in the reserve.
int64_t beside_at(const RecurrentShape& s) { return align_up(s.T * s.gates_bytes()); }

TensorSpec state_spec(const RecurrentShape& s) { return {{s.B, s.H}, s.type}; }
TensorSpec gates_spec(const RecurrentShape& s) { return {{s.B, s.gates() * s.H}, s.type}; }
TensorSpec lengths_spec(const RecurrentShape& s) {
  return s.has_lengths ? TensorSpec{{s.B}, DType::i32} : TensorSpec{};
}

int64_t most_workspace(std::initializer_list<const InnerKernel*> kernels) {
  int64_t bytes = 0;
  for (const InnerKernel* kernel : kernels) bytes = std::max(bytes, kernel->workspace());
  return bytes;
}

}  // namespace

int64_t RecurrentSteps::reserve_bytes(const RecurrentShape& s) {
  return beside_at(s) + s.T * s.state_bytes();
}

RecurrentSteps::In::In(const KernelArgs& a, RecurrentCell cell, const RecurrentOperands& at)
    : x(a.in[at.kX]),
      wx(a.in[at.kWx]),
      wh(a.in[at.kWh]),
      bias(a.in[at.kBias]),
      bias_h(biases_of(cell) > 1 ? a.in[at.kBiasH] : nullptr),
      lengths(input_if_present(a, at.lengths)) {}

RecurrentSteps::RecurrentSteps(const Device& device, const RecurrentShape& s, WorkspaceParts& parts)
    : shape_(s), step_(cell_attrs(s)) {
  const TensorSpec state = state_spec(s), gates = gates_spec(s), lengths = lengths_spec(s);
  const int64_t width = s.gates() * s.H;
  const TensorSpec wx{{s.I, width}, s.type}, bias{{width}};
  TensorSpec wh{{s.H, width}, s.type}, bias_h = bias;
  const MatmulAttrs product{.dtype = s.type};
  zero_ = {device, fill_op, {}, zeros_of(state)};
  inputs_ = {device, matmul_op, {{{s.T, s.B, s.I}, s.type}, wx, {}, bias}, product};
  // A card reads a GRU's bias in its own type: rounded once, and not in each step.
  if (device.kind == DeviceKind::cuda && !s.is_lstm()) {
    bias_h.dtype = matmul_card_type(3, Specs{state, wh, {}, bias}, product);
  }
  if (bias_h.dtype != DType::f32) cast_ = {device, cast_op, {bias}, CastAttrs{bias_h.dtype}};
  const auto of_state = [&] {
    return s.is_lstm() ? InnerKernel(device, matmul_op, {state, wh, gates}, product)
                       : InnerKernel(device, matmul_op, {state, wh, {}, bias_h}, product);
  };
  states_ = of_state();
  // All steps read the same weights: packed once where the product would like that.
  if (const Layout packed = states_.preferred(1); packed && s.T > 1) {
    pack_ = {device, reorder_op, {wh}, ReorderAttrs{packed}};
    wh.layout = packed;
    states_ = of_state();
  }
  if (s.is_lstm()) {
    const TensorSpec held = s.has_lengths ? state : TensorSpec{};
    cell_ = {device, lstm_cell_op, {gates, state, held, lengths}, step_[0]};
  } else {
    cell_ = {device, gru_cell_op, {gates, gates, state, lengths}, step_[0]};
    of_state_at_ = parts.add(gates.bytes());
  }
  zero_at_ = parts.add(state.bytes());
  if (pack_) packed_at_ = parts.add(wh.bytes());
  if (cast_) bias_at_ = parts.add(bias_h.bytes());
  scratch_at_ = parts.add(most_workspace({&zero_, &inputs_, &pack_, &states_, &cell_, &cast_}));
}

void RecurrentSteps::run(const KernelArgs& a, const In& in, std::byte* y,
                         std::byte* reserve) const {
  const RecurrentShape& s = shape_;
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
  const std::byte *before = zero, *c_before = zero;
  for (int64_t i = 0; i < s.T; ++i) {
    const int64_t t = s.backwards ? s.T - 1 - i : i;
    std::byte* const gates = reserve + t * s.gates_bytes();
    std::byte* const beside = reserve + beside_at(s) + t * s.state_bytes();
    std::byte* const state = y + t * s.state_bytes();
    const Attrs* const step = &step_[size_t(t)];
    if (s.is_lstm()) {
      states_.run(a, {before, wh, gates}, {gates}, scratch);
      cell_.run(a, {gates, c_before, before, in.lengths}, {state, beside}, scratch, step);
      c_before = beside;
    } else {
      states_.run(a, {before, wh, nullptr, bias_h}, {of_state}, scratch);
      cell_.run(a, {gates, of_state, before, in.lengths}, {state, gates, beside}, scratch, step);
    }
    before = state;
  }
}

RecurrentStepsGrad::RecurrentStepsGrad(const Device& device, const RecurrentShape& s,
                                       const RecurrentGradAttrs& attrs, SpecSpan out,
                                       WorkspaceParts& parts)
    : shape_(s), at_(Operands::of_gradient(s.cell)), step_(cell_attrs(s)) {
  const int64_t width = s.gates() * s.H;
  const TensorSpec state = state_spec(s), gates = gates_spec(s);
  const TensorSpec wx{{s.I, width}, s.type}, wh{{s.H, width}, s.type};
  const TensorSpec all{{s.T, s.B, width}, s.type}, x{{s.T, s.B, s.I}, s.type};
  zero_ = {device, fill_op, {}, zeros_of(state)};
  prepare_cells(device);
  carry_ = {device, matmul_op, {gates, wh, state}, MatmulAttrs{.tb = true, .dtype = s.type}};
  if (present(out[G::kDx])) {
    dx_ = {device, matmul_op, {all, wx, {}}, MatmulAttrs{.tb = true, .dtype = s.type}};
  }
  if (present(out[G::kDwx])) {
    dwx_ = {device, matmul_op, {x, all, {}}, MatmulAttrs{.ta = true, .dtype = attrs.dwx}};
  }
  if (present(out[G::kDwh]) && s.T > 1) {
    const TensorSpec before{{s.T - 1, s.B, s.H}, s.type}, d{{s.T - 1, s.B, width}, s.type};
    dwh_ = {device, matmul_op, {before, d, {}}, MatmulAttrs{.ta = true, .dtype = attrs.dwh}};
  } else if (present(out[G::kDwh])) {
    zero_dwh_ = {device, fill_op, {}, zeros_of(out[G::kDwh])};
  }
  if (present(out, G::kDbias) || present(out, G::kDbiasH)) {
    dbias_ = {device, sum_leading_op, {all, {}}, SumLeadingAttrs{2, DType::f32}};
  }
  zero_at_ = parts.add(state.bytes()), carry_at_ = parts.add(state.bytes());
  dgates_at_ = parts.add(all.bytes());
  dstate_at_ = s.is_lstm() ? dgates_at_ : parts.add(all.bytes());
  if (s.is_lstm()) dc_at_ = parts.add(state.bytes());
  scratch_at_ = parts.add(most_workspace(
      {&zero_, &first_cell_, &cell_, &carry_, &dx_, &dwx_, &dwh_, &zero_dwh_, &dbias_}));
}

// The layer's first step has zeros before it, whose gradient nobody wants. A later one adds what
// lengths ask for to the gradient of the state before it; without them an LSTM's cell has none.
void RecurrentStepsGrad::prepare_cells(const Device& device) {
  const RecurrentShape& s = shape_;
  const TensorSpec state = state_spec(s), gates = gates_spec(s), lengths = lengths_spec(s);
  if (s.is_lstm()) {
    const TensorSpec sum = s.has_lengths ? state : TensorSpec{};
    first_cell_ = {device, lstm_cell_grad_op, {gates, state, state, state, lengths, {}}, step_[0]};
    cell_ = {device, lstm_cell_grad_op, {gates, state, state, state, lengths, sum}, step_[0]};
  } else {
    first_cell_ = {device, gru_cell_grad_op, {gates, state, state, state, lengths, {}}, step_[0]};
    cell_ = {device, gru_cell_grad_op, {gates, state, state, state, lengths, state}, step_[0]};
  }
}

// Step i of the layer's order, from the last to the first: what comes in is dy where i is the last,
// else what the step behind it left in `carry`, which holds dy of this step already.
void RecurrentStepsGrad::run_step(const KernelArgs& a, const std::byte* reserve, int64_t i) const {
  const RecurrentShape& s = shape_;
  const int64_t state = s.state_bytes(), t = s.backwards ? s.T - 1 - i : i;
  const int64_t before = s.backwards ? t + 1 : t - 1;
  const bool first = i == 0, last = i == s.T - 1;
  const auto *y = a.input<std::byte>(at_.y), *dy = a.input<std::byte>(at_.dy);
  const void* lengths = input_if_present(a, at_.lengths);
  std::byte* const carry = a.workspace + carry_at_;
  std::byte* const d_gates = a.workspace + dgates_at_ + t * s.gates_bytes();
  std::byte* const d_state = a.workspace + dstate_at_ + t * s.gates_bytes();
  std::byte* const dc = a.workspace + dc_at_;
  std::byte* const scratch = a.workspace + scratch_at_;
  const std::byte* const zero = a.workspace + zero_at_;
  const std::byte *gates = reserve + t * s.gates_bytes(), *beside = reserve + beside_at(s);
  const std::byte* dh = last ? dy + t * state : carry;
  const std::byte* sum = first ? nullptr : dy + before * state;
  const InnerKernel& cell = first ? first_cell_ : cell_;
  const Attrs* const step = &step_[size_t(t)];
  if (s.is_lstm()) {
    const std::byte* c_before = first ? zero : beside + before * state;
    cell.run(a, {gates, c_before, dh, last ? zero : dc, lengths, sum},
             {d_gates, first ? nullptr : dc, first ? nullptr : carry}, scratch, step);
    if (s.has_lengths) sum = carry;
  } else {
    cell.run(a, {gates, beside + t * state, first ? zero : y + before * state, dh, lengths, sum},
             {d_gates, d_state, first ? nullptr : carry}, scratch, step);
    sum = carry;
  }
  if (!first) carry_.run(a, {d_state, a.in[at_.kWh], sum}, {carry}, scratch);
}

void RecurrentStepsGrad::run(const KernelArgs& a, const std::byte* reserve) const {
  const RecurrentShape& s = shape_;
  std::byte* const scratch = a.workspace + scratch_at_;
  zero_.run(a, {}, {a.workspace + zero_at_}, scratch);
  for (int64_t i = s.T - 1; i >= 0; --i) run_step(a, reserve, i);

  const std::byte* const d_gates = a.workspace + dgates_at_;
  const std::byte* const d_state = a.workspace + dstate_at_;
  if (dx_) dx_.run(a, {d_gates, a.in[at_.kWx], nullptr}, {a.out[G::kDx]}, scratch);
  if (dwx_) dwx_.run(a, {a.in[at_.kX], d_gates, nullptr}, {a.out[G::kDwx]}, scratch);
  if (dwh_) {  // each step's gates by the state before it
    const auto* y = a.input<std::byte>(at_.y);
    const std::byte* from = s.backwards ? y + s.state_bytes() : y;
    const std::byte* by = s.backwards ? d_state : d_state + s.gates_bytes();
    dwh_.run(a, {from, by, nullptr}, {a.out[G::kDwh]}, scratch);
  }
  if (zero_dwh_) zero_dwh_.run(a, {}, {a.out[G::kDwh]}, scratch);
  if (a.out[G::kDbias]) dbias_.run(a, {d_gates, nullptr}, {a.out[G::kDbias]}, scratch);
  if (!s.is_lstm() && a.out[G::kDbiasH]) {
    dbias_.run(a, {d_state, nullptr}, {a.out[G::kDbiasH]}, scratch);
  }
}

}  // namespace pal
