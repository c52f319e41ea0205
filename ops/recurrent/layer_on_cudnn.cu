// A layer's kernels around cuDNN's calls (layer_on_cudnn.h).
#include "ops/kernels/cuda_elements.h"
#include "ops/recurrent/layer_on_cudnn.h"

namespace pal {
namespace {

// The layer's weights where cuDNN wants them, or their gradients where it puts them.
struct LayerWeights {
  CudnnRnnParts parts;
  DType type;
  int64_t inputs, hidden, gates;
  Stored w[2], bias[2];  // (I, gates H) and (H, gates H); (gates H) each

  PAL_HD int64_t width() const { return gates * hidden; }
  PAL_HD int64_t matrix(int side) const { return width() * (side ? hidden : inputs); }
  PAL_HD int64_t all() const { return matrix(0) + matrix(1) + 2 * width(); }
};
// A thread an element of both. `give`: from cuDNN's to ours. Some of ours may be absent: zeros for
// cuDNN.
__global__ void move_layer_weights_kernel(LayerWeights a, bool give) {
  int64_t i = thread_number();
  if (i >= a.all()) return;
  for (int side = 0; side < 2; ++side) {
    const bool is_matrix = i < a.matrix(side);
    if (!is_matrix) {
      i -= a.matrix(side);
      if (i >= a.width()) {
        i -= a.width();
        continue;
      }
    }
    // Ours: element i of (.., gates H), or of (gates H).
    const int64_t column = is_matrix ? divide(i, a.width()) : 0;
    const int64_t across = i - column * a.width(), gate = divide(across, a.hidden);
    const int64_t row = across - gate * a.hidden;
    const size_t k = size_t(a.gates * side + gate);
    const CudnnRnnPart part = is_matrix ? a.parts.matrix[k] : a.parts.bias[k];
    const Stored ours = is_matrix ? a.w[side] : a.bias[side];
    const Stored theirs{.data = part.at, .type = a.type};
    const int64_t at = row * part.row_stride + column * part.column_stride;
    if (!give)
      store1(theirs, at, ours.data ? load1(ours, i) : 0.0f);
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

LayerRows rows_of(const RecurrentShape& s, const void* to, const void* from, int64_t width,
                  const int32_t* lengths) {
  const TensorSpec spec{{s.T, s.B, width}, s.type};
  return {stored(to, spec, width), stored(from, spec, width), s.T, s.B, width, lengths};
}

// The library's parts of the layer's weights, and none of ours.
LayerWeights weights_of(const LayerOnCudnn& layer, const KernelArgs& a) {
  const RecurrentShape& s = layer.shape;
  return {.parts = layer.rnn->parts(layer.weights(a)),
          .type = s.type,
          .inputs = s.I,
          .hidden = s.H,
          .gates = s.gates()};
}

}  // namespace

LayerOnCudnn::LayerOnCudnn(const Device& device, const RecurrentShape& s, WorkspaceParts& parts)
    : shape(s) {
  if (cudnn_rnn) rnn = cudnn_rnn(device, {s.is_lstm(), s.T, s.B, s.I, s.H, s.type});
  if (!rnn) return;
  keeps_reserve = rnn->reserve() <= recurrent_reserve_spec(s).bytes();
  weights_at = parts.add(library_workspace(rnn->weights()));
  workspace_at = parts.add(rnn->workspace());
}

void LayerOnCudnn::lay_weights(const KernelArgs& a) const {
  using R = RecurrentOperands;
  LayerWeights w = weights_of(*this, a);
  for (size_t k = 0; k < 2; ++k) w.w[k] = stored(a.in[R::kWx + k], a.in_spec[R::kWx + k]);
  for (size_t k = 0; k < biases_of(shape.cell); ++k) {
    w.bias[k] = stored(a.in[R::kBias + k], a.in_spec[R::kBias + k]);
  }
  launch(move_layer_weights_kernel, {blocks_of(w.all(), kThreads)}, a, w, false);
}

void LayerOnCudnn::give_weight_gradients(const KernelArgs& a) const {
  using G = RecurrentGradients;
  LayerWeights w = weights_of(*this, a);
  for (size_t k = 0; k < 2; ++k) w.w[k] = stored(a.out[G::kDwx + k], a.out_spec[G::kDwx + k]);
  for (size_t k = 0; k < biases_of(shape.cell); ++k) {
    w.bias[k] = stored(a.out[G::kDbias + k], a.out_spec[G::kDbias + k]);
  }
  launch(move_layer_weights_kernel, {blocks_of(w.all(), kThreads)}, a, w, true);
}

void LayerOnCudnn::turn(const KernelArgs& a, void* to, const void* from, int64_t width,
                        const int32_t* lengths) const {
  launch(turn_rows_kernel, grid_of_groups(shape.T * shape.B * groups_of(width)), a,
         rows_of(shape, to, from, width, lengths));
}

void LayerOnCudnn::hold(const KernelArgs& a, void* y, const int32_t* lengths) const {
  launch(hold_rows_kernel, grid_of_groups(shape.T * shape.B * groups_of(shape.H)), a,
         rows_of(shape, y, nullptr, shape.H, lengths));
}

void LayerOnCudnn::unhold(const KernelArgs& a, void* to, const void* dy,
                          const int32_t* lengths) const {
  launch(unhold_rows_kernel, grid_of_groups(shape.B * groups_of(shape.H)), a,
         rows_of(shape, to, dy, shape.H, lengths));
}

}  // namespace pal
