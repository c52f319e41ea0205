// A recurrent layer and its gradient as cuDNN's (layer_on_cudnn.h), or else step by step
// (recurrent_steps.h).
#include <optional>

#include "ops/kernels/cuda_elements.h"
#include "ops/recurrent/layer_on_cudnn.h"
#include "ops/recurrent/recurrent_layer.h"
#include "ops/recurrent/recurrent_steps.h"

namespace pal {
namespace {

using GpuOperands = RecurrentOperands;
using G = RecurrentGradients;

const char* by(const LayerOnCudnn& layer) { return layer ? "cuDNN" : "products and cells"; }

struct LayerOnGpu {
  WorkspaceParts parts;
  LayerOnCudnn cudnn;
  std::optional<RecurrentSteps> steps;
  int64_t x_at = 0, y_at = 0, reserve_at = 0;

  // Whether the outputs are read: if not, they lie in the workspace.
  LayerOnGpu(const Device& device, const RecurrentShape& s, bool has_y, bool has_reserve)
      : cudnn(device, s, parts) {
    if (!cudnn) {
      steps.emplace(device, s, parts);
      if (!has_reserve) reserve_at = parts.add(RecurrentSteps::reserve_bytes(s));
    } else {
      if (!has_reserve || !cudnn.keeps_reserve) reserve_at = parts.add(cudnn.reserve_bytes());
      if (cudnn.turns()) x_at = parts.add(cudnn.inputs());
    }
    if (!has_y || cudnn.turns()) y_at = parts.add(cudnn.states());
  }
};

template <RecurrentCell cell>
Prepared prepare_layer_cuda(const Device& device, SpecSpan in, SpecSpan out, const Attrs& attrs) {
  const RecurrentShape s =
      recurrent_shape(cell, in, attrs.as<RecurrentAttrs>().backwards, GpuOperands::of_layer(cell));
  auto state = std::make_shared<LayerOnGpu>(device, s, present(out[0]), present(out[1]));
  return {.state = state, .workspace = state->parts.bytes(), .by = by(state->cudnn)};
}

void run_layer_cuda(const KernelArgs& a) {
  const LayerOnGpu& s = *static_cast<const LayerOnGpu*>(a.state);
  const LayerOnCudnn& c = s.cudnn;
  const GpuOperands at = GpuOperands::of_layer(c.shape.cell);
  const auto* lengths = input_if_present<int32_t>(a, at.lengths);
  std::byte* const own_y = a.workspace + s.y_at;
  std::byte* const y = a.out[0] ? a.output<std::byte>(0) : own_y;
  std::byte* reserve = c ? c.reserve(a, s.reserve_at) : a.workspace + s.reserve_at;
  if (a.out[1] && (!c || c.keeps_reserve)) reserve = a.output<std::byte>(1);
  if (!c) return s.steps->run(a, {a, c.shape.cell, at}, y, reserve);
  c.lay_weights(a);
  const void* x = a.in[at.kX];
  if (c.turns()) c.turn(a, a.workspace + s.x_at, x, c.shape.I, lengths), x = a.workspace + s.x_at;
  c.rnn->forward(a.queue, x, c.weights(a), c.turns() ? own_y : y, reserve,
                 a.workspace + c.workspace_at);
  if (c.turns() && a.out[0]) c.turn(a, y, own_y, c.shape.H, lengths);
  if (c.holds() && a.out[0]) c.hold(a, y, lengths);
}

struct LayerGradOnGpu {
  WorkspaceParts parts;
  LayerOnCudnn cudnn;
  std::optional<RecurrentStepsGrad> steps;
  std::optional<RecurrentSteps> again;  // where there is no reserve
  bool has_reserve;
  int64_t x_at = 0, y_at = 0, dy_at = 0, dx_at = 0, reserve_at = 0, again_at = 0;

  LayerGradOnGpu(const Device& device, const RecurrentShape& s, const RecurrentGradAttrs& attrs,
                 SpecSpan out, bool reserve)
      : cudnn(device, s, parts), has_reserve(reserve) {
    if (!cudnn) {
      steps.emplace(device, s, attrs, out, parts);
      if (reserve) return;
      again.emplace(device, s, parts);
      reserve_at = parts.add(RecurrentSteps::reserve_bytes(s)),
      again_at = parts.add(cudnn.states());
      return;
    }
    has_reserve = reserve && cudnn.keeps_reserve;
    reserve_at = parts.add(cudnn.reserve_bytes());  // which the library changes
    if (cudnn.turns()) x_at = parts.add(cudnn.inputs());
    if (cudnn.turns()) y_at = parts.add(cudnn.states());
    if (!has_reserve) again_at = parts.add(cudnn.states());
    if (cudnn.turns() || cudnn.holds()) dy_at = parts.add(cudnn.states());
    if (cudnn.turns() || !present(out[G::kDx])) dx_at = parts.add(cudnn.inputs());
  }
};

template <RecurrentCell cell>
Prepared prepare_layer_grad_cuda(const Device& device, SpecSpan in, SpecSpan out,
                                 const Attrs& attrs) {
  constexpr GpuOperands at = GpuOperands::of_gradient(cell);
  const auto& its = attrs.as<RecurrentGradAttrs>();
  const RecurrentShape s = recurrent_shape(cell, in, its.backwards, at);
  auto state = std::make_shared<LayerGradOnGpu>(device, s, its, out, present(in[at.reserve]));
  return {.state = state, .workspace = state->parts.bytes(), .by = by(state->cudnn)};
}

void run_grad_steps(const KernelArgs& a, const LayerGradOnGpu& s, const GpuOperands& at) {
  const std::byte* reserve = a.input<std::byte>(at.reserve);
  if (s.again) {
    std::byte* const made = a.workspace + s.reserve_at;
    s.again->run(a, {a, s.cudnn.shape.cell, at}, a.workspace + s.again_at, made);
    reserve = made;
  }
  s.steps->run(a, reserve);
}

void run_layer_grad_cuda(const KernelArgs& a) {
  const LayerGradOnGpu& s = *static_cast<const LayerGradOnGpu*>(a.state);
  const LayerOnCudnn& c = s.cudnn;
  const GpuOperands at = GpuOperands::of_gradient(c.shape.cell);
  const auto* lengths = input_if_present<int32_t>(a, at.lengths);
  if (!c) return run_grad_steps(a, s, at);
  const int64_t I = c.shape.I, H = c.shape.H;
  std::byte* const weights = c.weights(a);
  std::byte* const workspace = a.workspace + c.workspace_at;
  std::byte* const reserve = c.reserve(a, s.reserve_at);
  std::byte* const own_y = a.workspace + s.y_at;
  const void *x = a.in[at.kX], *y = a.in[at.y], *dy = a.in[at.dy];
  void* const dx = c.turns() || !a.out[G::kDx] ? a.workspace + s.dx_at : a.out[G::kDx];
  c.lay_weights(a);
  if (c.turns()) {
    c.turn(a, a.workspace + s.x_at, x, I, lengths), x = a.workspace + s.x_at;
    c.turn(a, a.workspace + s.dy_at, dy, H, lengths), dy = a.workspace + s.dy_at;
    c.turn(a, own_y, y, H, lengths), y = own_y;
  } else if (c.holds()) {
    c.unhold(a, a.workspace + s.dy_at, dy, lengths), dy = a.workspace + s.dy_at;
  }
  if (s.has_reserve) {
    copy_async(a, reserve, a.in[at.reserve], c.rnn->reserve());
  } else {
    // The states that it makes are y again, but for what lies behind a row's end.
    c.rnn->forward(a.queue, x, weights, a.workspace + s.again_at, reserve, workspace);
  }
  c.rnn->data_grad(a.queue, y, dy, weights, dx, reserve, workspace);
  if (c.turns() && a.out[G::kDx]) c.turn(a, a.out[G::kDx], dx, I, lengths);
  bool wanted = false;
  for (size_t k = G::kDwx; k < a.out.size(); ++k) wanted |= a.out[k] != nullptr;
  if (!wanted) return;
  zero_async(a, weights, c.rnn->weights());  // their gradients lie there from here on
  c.rnn->weight_grad(a.queue, x, y, weights, reserve, workspace);
  c.give_weight_gradients(a);
}

}  // namespace

const Backend gru_layer_cuda{.run = run_layer_cuda,
                             .prepare = prepare_layer_cuda<RecurrentCell::gru>};
const Backend gru_layer_grad_cuda{.run = run_layer_grad_cuda,
                                  .prepare = prepare_layer_grad_cuda<RecurrentCell::gru>};
const Backend lstm_layer_cuda{.run = run_layer_cuda,
                              .prepare = prepare_layer_cuda<RecurrentCell::lstm>};
const Backend lstm_layer_grad_cuda{.run = run_layer_grad_cuda,
                                   .prepare = prepare_layer_grad_cuda<RecurrentCell::lstm>};

}  // namespace pal
