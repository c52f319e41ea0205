// A GRU layer as cuDNN's (ops/libraries/cudnn_gru.h), or else step by step (gru_steps.h). cuDNN
// runs all rows to the last step; what lengths ask for is done around it. Forwards, the states
// behind a row's end are its last one, and what their gradients ask for goes to that one.
// Backwards, each row is turned round up to its end, so that what lies behind it comes last.
#include <optional>

#include "ops/kernels/cuda_elements.h"
#include "ops/kernels/operands.h"
#include "ops/libraries/cudnn_gru.h"
#include "ops/libraries/library_scratch.h"
#include "ops/recurrent/gru_layer.h"
#include "ops/recurrent/gru_steps.h"

namespace pal {
namespace {

using G = GruLayerGrad;
constexpr size_t kLayerLengths = 5;  // operand of gru_layer

// The layer's weights where cuDNN wants them, or their gradients where it puts them.
struct GruWeights {
  CudnnGruParts parts;
  DType type;
  int64_t inputs, hidden;
  Stored w[2], bias[2];  // (I, 3H) and (H, 3H); (3H) each

  PAL_HD int64_t matrix(int side) const { return 3 * hidden * (side ? hidden : inputs); }
  PAL_HD int64_t all() const { return matrix(0) + matrix(1) + 6 * hidden; }
};
// A thread an element of both. `give`: from cuDNN's to ours, of which some may be absent.
__global__ void move_gru_weights_kernel(GruWeights a, bool give) {
  int64_t i = thread_number();
  if (i >= a.all()) return;
  for (int side = 0; side < 2; ++side) {
    const bool is_matrix = i < a.matrix(side);
    if (!is_matrix) {
      i -= a.matrix(side);
      if (i >= 3 * a.hidden) {
        i -= 3 * a.hidden;
        continue;
      }
    }
    // Ours: element i of (width, 3H), or of (3H).
    const int64_t column = is_matrix ? divide(i, 3 * a.hidden) : 0;
    const int64_t across = i - column * 3 * a.hidden, gate = divide(across, a.hidden);
    const int64_t row = across - gate * a.hidden;
    const size_t k = size_t(3 * side + gate);
    const CudnnGruPart part = is_matrix ? a.parts.matrix[k] : a.parts.bias[k];
    const Stored ours = is_matrix ? a.w[side] : a.bias[side];
    const Stored theirs{.data = part.at, .type = a.type};
    const int64_t at = row * part.row_stride + column * part.column_stride;
    if (!give)
      store1(theirs, at, load1(ours, i));
    else if (ours.data)
      store1(ours, i, load1(theirs, at));
    return;
  }
}

// (T, B, width), eight columns of a row a thread.
struct LayerRows {
  Stored to, from;
  int64_t steps, batch, width;
  const int32_t* lengths;  // null: all are as long as the layer

  __device__ int64_t length(int64_t b) const {
    const int64_t n = lengths ? lengths[b] : steps;
    return n < 0 ? 0 : n < steps ? n : steps;
  }
};
// Each row's steps in the other order up to its end; zeros behind it.
__global__ void turn_rows_kernel(LayerRows a) {
  const RowGroup p = row_group(a.steps * a.batch, a.width);
  if (p.n == 0) return;
  const int64_t t = divide(p.row, a.batch), b = p.row - t * a.batch, end = a.length(b);
  float v[kGroup] = {};
  if (t < end) load8(a.from, ((end - 1 - t) * a.batch + b) * a.width + p.column, p.n, v);
  store8(a.to, p.at, p.n, v);
}
// Behind a row's end its last state, or zeros where it has no step; over `to` in place.
__global__ void hold_rows_kernel(LayerRows a) {
  const RowGroup p = row_group(a.steps * a.batch, a.width);
  if (p.n == 0) return;
  const int64_t t = divide(p.row, a.batch), b = p.row - t * a.batch, end = a.length(b);
  if (t < end) return;
  float v[kGroup] = {};
  if (end > 0) load8(a.to, ((end - 1) * a.batch + b) * a.width + p.column, p.n, v);
  store8(a.to, p.at, p.n, v);
}
// The gradient of that: a row's last step gets what all behind it had, from the last of them on. A
// thread has all steps of its columns.
__global__ void unhold_rows_kernel(LayerRows a) {
  const RowGroup p = row_group(a.batch, a.width);
  if (p.n == 0) return;
  const int64_t end = a.length(p.row), step = a.batch * a.width;
  float sum[kGroup] = {};
  for (int64_t t = a.steps - 1; t >= 0; --t) {
    float v[kGroup];
    load8(a.from, p.at + t * step, p.n, v);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      if (t >= end - 1) sum[k] = t == a.steps - 1 ? v[k] : v[k] + sum[k];
      v[k] = t >= end ? 0 : t == end - 1 ? sum[k] : v[k];
    }
    store8(a.to, p.at + t * step, p.n, v);
  }
}

// A layer on cuDNN, and the parts of a workspace that every call has.
struct LayerOnCudnn {
  std::unique_ptr<CudnnGru> gru;
  GruLayerShape shape;
  bool keeps_reserve = false;  // it fits into the tensor
  int64_t weights_at = 0, workspace_at = 0;

  explicit operator bool() const { return gru != nullptr; }
  bool turns() const { return shape.backwards; }
  bool holds() const { return shape.has_lengths && !shape.backwards; }
  int64_t states() const { return shape.T * shape.state_bytes(); }
  int64_t inputs() const { return shape.T * shape.input_bytes(); }

  LayerOnCudnn(const Device& device, const GruLayerShape& s, WorkspaceParts& parts) : shape(s) {
    if (cudnn_gru) gru = cudnn_gru(device, {s.T, s.B, s.I, s.H, s.type});
    if (!gru) return;
    keeps_reserve = gru->reserve() <= gru_reserve_spec(s).bytes();
    weights_at = parts.add(library_workspace(gru->weights()));
    workspace_at = parts.add(gru->workspace());
  }
  std::byte* weights(const KernelArgs& a) const {
    return library_scratch(a.workspace + weights_at, gru->weights());
  }
  int64_t reserve_bytes() const { return library_workspace(gru->reserve()); }
  std::byte* reserve(const KernelArgs& a, int64_t at) const {
    return library_scratch(a.workspace + at, gru->reserve());
  }

  // From operands 1 to 4 of either operator.
  void lay_weights(const KernelArgs& a) const {
    GruWeights w = places(a);
    for (size_t k = 0; k < 2; ++k) {
      w.w[k] = stored(a.in[1 + k], a.in_spec[1 + k]);
      w.bias[k] = stored(a.in[3 + k], a.in_spec[3 + k]);
    }
    launch(move_gru_weights_kernel, {blocks_of(w.all(), kThreads)}, a, w, false);
  }
  void give_weight_gradients(const KernelArgs& a) const {
    GruWeights w = places(a);
    for (size_t k = 0; k < 2; ++k) {
      w.w[k] = stored(a.out[G::kDwx + k], a.out_spec[G::kDwx + k]);
      w.bias[k] = stored(a.out[G::kDbias + k], a.out_spec[G::kDbias + k]);
    }
    launch(move_gru_weights_kernel, {blocks_of(w.all(), kThreads)}, a, w, true);
  }

  LayerRows rows(const void* to, const void* from, int64_t width, const int32_t* lengths) const {
    const TensorSpec spec{{shape.T, shape.B, width}, shape.type};
    return {stored(to, spec, width), stored(from, spec, width), shape.T, shape.B, width, lengths};
  }
  void turn(const KernelArgs& a, void* to, const void* from, int64_t width,
            const int32_t* lengths) const {
    launch(turn_rows_kernel, grid_of_groups(shape.T * shape.B * groups_of(width)), a,
           rows(to, from, width, lengths));
  }
  void hold(const KernelArgs& a, void* y, const int32_t* lengths) const {
    launch(hold_rows_kernel, grid_of_groups(shape.T * shape.B * groups_of(shape.H)), a,
           rows(y, nullptr, shape.H, lengths));
  }
  void unhold(const KernelArgs& a, void* to, const void* dy, const int32_t* lengths) const {
    launch(unhold_rows_kernel, grid_of_groups(shape.B * groups_of(shape.H)), a,
           rows(to, dy, shape.H, lengths));
  }

 private:
  GruWeights places(const KernelArgs& a) const {
    return {
        .parts = gru->parts(weights(a)), .type = shape.type, .inputs = shape.I, .hidden = shape.H};
  }
};

const char* by(const LayerOnCudnn& layer) { return layer ? "cuDNN" : "products and cells"; }

struct LayerOnGpu {
  WorkspaceParts parts;
  LayerOnCudnn cudnn;
  std::optional<GruSteps> steps;
  int64_t x_at = 0, y_at = 0, reserve_at = 0;

  // Whether the outputs are read: if not, they lie in the workspace.
  LayerOnGpu(const Device& device, const GruLayerShape& s, bool has_y, bool has_reserve)
      : cudnn(device, s, parts) {
    if (!cudnn) {
      steps.emplace(device, s, parts);
      if (!has_reserve) reserve_at = parts.add(GruSteps::reserve_bytes(s));
    } else {
      if (!has_reserve || !cudnn.keeps_reserve) reserve_at = parts.add(cudnn.reserve_bytes());
      if (cudnn.turns()) x_at = parts.add(cudnn.inputs());
    }
    if (!has_y || cudnn.turns()) y_at = parts.add(cudnn.states());
  }
};

Prepared prepare_layer_cuda(const Device& device, SpecSpan in, SpecSpan out, const Attrs& attrs) {
  const GruLayerShape s = gru_layer_shape(in, attrs.as<GruLayerAttrs>().backwards, kLayerLengths);
  auto state = std::make_shared<LayerOnGpu>(device, s, present(out[0]), present(out[1]));
  return {.state = state, .workspace = state->parts.bytes(), .by = by(state->cudnn)};
}

void run_layer_cuda(const KernelArgs& a) {
  const LayerOnGpu& s = *static_cast<const LayerOnGpu*>(a.state);
  const LayerOnCudnn& c = s.cudnn;
  const auto* lengths = input_if_present<int32_t>(a, kLayerLengths);
  std::byte* const own_y = a.workspace + s.y_at;
  std::byte* const y = a.out[0] ? a.output<std::byte>(0) : own_y;
  std::byte* reserve = c ? c.reserve(a, s.reserve_at) : a.workspace + s.reserve_at;
  if (a.out[1] && (!c || c.keeps_reserve)) reserve = a.output<std::byte>(1);
  if (!c) {
    return s.steps->run(a, {a.in[0], a.in[1], a.in[2], a.in[3], a.in[4], lengths}, y, reserve);
  }
  c.lay_weights(a);
  const void* x = a.in[0];
  if (c.turns()) c.turn(a, a.workspace + s.x_at, x, c.shape.I, lengths), x = a.workspace + s.x_at;
  c.gru->forward(a.queue, x, c.weights(a), c.turns() ? own_y : y, reserve,
                 a.workspace + c.workspace_at);
  if (c.turns() && a.out[0]) c.turn(a, y, own_y, c.shape.H, lengths);
  if (c.holds() && a.out[0]) c.hold(a, y, lengths);
}

struct LayerGradOnGpu {
  WorkspaceParts parts;
  LayerOnCudnn cudnn;
  std::optional<GruStepsGrad> steps;
  std::optional<GruSteps> again;  // where there is no reserve
  bool has_reserve;
  int64_t x_at = 0, y_at = 0, dy_at = 0, dx_at = 0, reserve_at = 0, again_at = 0;

  LayerGradOnGpu(const Device& device, const GruLayerShape& s, const GruLayerGradAttrs& attrs,
                 SpecSpan out, bool reserve)
      : cudnn(device, s, parts), has_reserve(reserve) {
    if (!cudnn) {
      steps.emplace(device, s, attrs, out, parts);
      if (reserve) return;
      again.emplace(device, s, parts);
      reserve_at = parts.add(GruSteps::reserve_bytes(s)), again_at = parts.add(cudnn.states());
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

Prepared prepare_layer_grad_cuda(const Device& device, SpecSpan in, SpecSpan out,
                                 const Attrs& attrs) {
  const auto& its = attrs.as<GruLayerGradAttrs>();
  const GruLayerShape s = gru_layer_shape(in, its.backwards, G::kLengths);
  auto state = std::make_shared<LayerGradOnGpu>(device, s, its, out, present(in[G::kReserve]));
  return {.state = state, .workspace = state->parts.bytes(), .by = by(state->cudnn)};
}

void run_grad_steps(const KernelArgs& a, const LayerGradOnGpu& s, const int32_t* lengths) {
  const std::byte* reserve = a.input<std::byte>(G::kReserve);
  if (s.again) {
    std::byte* const made = a.workspace + s.reserve_at;
    s.again->run(
        a, {a.in[G::kX], a.in[G::kWx], a.in[G::kWh], a.in[G::kBias], a.in[G::kBiasH], lengths},
        a.workspace + s.again_at, made);
    reserve = made;
  }
  s.steps->run(a, reserve);
}

void run_layer_grad_cuda(const KernelArgs& a) {
  const LayerGradOnGpu& s = *static_cast<const LayerGradOnGpu*>(a.state);
  const LayerOnCudnn& c = s.cudnn;
  const auto* lengths = input_if_present<int32_t>(a, G::kLengths);
  if (!c) return run_grad_steps(a, s, lengths);
  const int64_t I = c.shape.I, H = c.shape.H;
  std::byte* const weights = c.weights(a);
  std::byte* const workspace = a.workspace + c.workspace_at;
  std::byte* const reserve = c.reserve(a, s.reserve_at);
  std::byte* const own_y = a.workspace + s.y_at;
  const void *x = a.in[G::kX], *y = a.in[G::kY], *dy = a.in[G::kDy];
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
    copy_async(a, reserve, a.in[G::kReserve], c.gru->reserve());
  } else {
    // The states that it makes are y again, but for what lies behind a row's end.
    c.gru->forward(a.queue, x, weights, a.workspace + s.again_at, reserve, workspace);
  }
  c.gru->data_grad(a.queue, y, dy, weights, dx, reserve, workspace);
  if (c.turns() && a.out[G::kDx]) c.turn(a, a.out[G::kDx], dx, I, lengths);
  bool wanted = false;
  for (size_t k = G::kDwx; k < G::kOutputs; ++k) wanted |= a.out[k] != nullptr;
  if (!wanted) return;
  zero_async(a, weights, c.gru->weights());  // their gradients lie there from here on
  c.gru->weight_grad(a.queue, x, y, weights, reserve, workspace);
  c.give_weight_gradients(a);
}

}  // namespace

const Backend gru_layer_cuda{.run = run_layer_cuda, .prepare = prepare_layer_cuda};
const Backend gru_layer_grad_cuda{.run = run_layer_grad_cuda, .prepare = prepare_layer_grad_cuda};

}  // namespace pal
