// cuDNN's calls for a recurrent layer: what they are told is held against the manual, and queued
// (tests/emulation/cudnn_layer.h).
#include <cstring>
#include <stdexcept>

#include "tests/emulation/counting.h"
#include "tests/emulation/cudnn_layer.h"
#include "tests/emulation/emulation.h"
#include "tests/emulation/memory.h"

struct EmulatedDropout {
  float dropout = -1;  // not set
};
struct EmulatedRnn {
  cudnnRNNMode_t mode{};
  cudnnDataType_t type{};
  cudnnMathType_t math{};
  int64_t inputs = 0, hidden = 0;
  bool taken = false;  // it is such a layer as is computed here

  // Of that many steps and rows.
  pal::emulation::RnnLayer layer(int64_t steps = 0, int64_t batch = 0) const {
    return {mode, type, math, steps, batch, inputs, hidden};
  }
};
struct EmulatedRnnData {
  cudnnDataType_t type{};
  int64_t steps = 0, batch = 0, width = 0;
  int64_t elements() const { return steps * batch * width; }
};

namespace {

using pal::emulation::element_bytes;
using pal::emulation::RnnLayer;

int64_t calls = 0;

// What every call is told: the layer, its data, states that are zero, and memory.
struct Call {
  cudnnHandle_t handle;
  cudnnRNNDescriptor_t layer;
  const int32_t* lengths;
  cudnnRNNDataDescriptor_t x, y;
  cudnnTensorDescriptor_t h, c;  // c: an LSTM's, of calls that take one
  size_t weight_bytes, workspace_bytes;
  void* workspace;
  size_t reserve_bytes;
  void* reserve;
};

bool consistent(const Call& c) {
  if (!c.layer->taken || c.x->width != c.layer->inputs || c.y->width != c.layer->hidden ||
      c.x->steps != c.y->steps || c.x->batch != c.y->batch || c.x->type != c.layer->type ||
      c.y->type != c.layer->type) {
    return false;
  }
  auto is_state = [&](const EmulatedTensor* h) {
    return h && h->rank == 3 && h->type == c.layer->type && h->extent[0] == 1 &&
           h->extent[1] == c.x->batch && h->extent[2] == c.layer->hidden && h->stride[2] == 1 &&
           h->stride[1] == h->extent[2];
  };
  return is_state(c.h) && (c.layer->mode != CUDNN_LSTM || is_state(c.c));
}

// Later work(layer), unless an argument is not as the manual has it. `read`, `written`: elements.
template <class F>
cudnnStatus_t start(const Call& c, std::initializer_list<const void*> operands, double read,
                    double written, double products, F work) {
  // "In cuDNN 8.9.1 and later, devSeqLengths should be NULL."
  if (c.lengths || !consistent(c)) return CUDNN_STATUS_BAD_PARAM;
  const RnnLayer l = c.layer->layer(c.x->steps, c.x->batch);
  if (c.weight_bytes != l.weight_bytes() || c.workspace_bytes < l.workspace_bytes() ||
      !c.workspace || (c.reserve && c.reserve_bytes < l.reserve_bytes())) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  for (const void* operand : operands) {
    if (!operand || reinterpret_cast<uintptr_t>(operand) % element_bytes(l.type)) {
      return CUDNN_STATUS_BAD_PARAM;
    }
    pal::emulation::require_reachable(operand, "what cuDNN is given");
  }
  if (reinterpret_cast<uintptr_t>(c.workspace) % 256) return CUDNN_STATUS_BAD_PARAM;
  ++calls;
  const double size = double(element_bytes(l.type));
  const double flops = products * 2 * l.gates() * double(l.T * l.B * l.H) * double(l.I + l.H);
  const cudaError_t status =
      pal::emulation::enqueue(c.handle->stream, [=, workspace = c.workspace] {
        if (pal::emulation::counting()) {
          return pal::emulation::count_library("cuDNN", read * size, written * size, flops);
        }
        std::memset(workspace, 0xFF, l.workspace_bytes());  // it is the library's
        work(l);
      });
  return status == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

double weight_elements(cudnnRNNDescriptor_t d) {
  return double(d->layer().gates()) * double(d->hidden) * double(d->inputs + d->hidden + 2);
}
// What is kept, in elements.
double kept_elements(cudnnRNNDataDescriptor_t y) {
  return double(pal::emulation::settings().cudnn_reserve) * double(y->elements());
}

}  // namespace

int64_t pal::emulation::layers_run() { return calls; }

cudnnStatus_t cudnnCreateDropoutDescriptor(cudnnDropoutDescriptor_t* d) {
  *d = new EmulatedDropout{};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyDropoutDescriptor(cudnnDropoutDescriptor_t d) {
  delete d;
  return CUDNN_STATUS_SUCCESS;
}
// Without states only the probability is set.
cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t d, cudnnHandle_t, float dropout,
                                        void* states, size_t, unsigned long long) {
  if (states) return CUDNN_STATUS_NOT_SUPPORTED;
  d->dropout = dropout;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateRNNDescriptor(cudnnRNNDescriptor_t* d) {
  *d = new EmulatedRnn{};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyRNNDescriptor(cudnnRNNDescriptor_t d) {
  delete d;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t d, cudnnRNNAlgo_t algorithm,
                                       cudnnRNNMode_t mode, cudnnRNNBiasMode_t bias,
                                       cudnnDirectionMode_t direction, cudnnRNNInputMode_t input,
                                       cudnnDataType_t data, cudnnDataType_t math_type,
                                       cudnnMathType_t math, int32_t inputs, int32_t hidden,
                                       int32_t projected, int32_t layers,
                                       cudnnDropoutDescriptor_t dropout, uint32_t flags) {
  if (algorithm != CUDNN_RNN_ALGO_STANDARD) {
    throw std::runtime_error("cuDNN: an algorithm that may give other bits each time");
  }
  if (inputs <= 0 || hidden <= 0 || projected != hidden || layers != 1 || !dropout ||
      dropout->dropout != 0) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  const bool wide = data == CUDNN_DATA_FLOAT;
  if (!pal::emulation::settings().cudnn_layers || (mode != CUDNN_GRU && mode != CUDNN_LSTM) ||
      bias != CUDNN_RNN_DOUBLE_BIAS || direction != CUDNN_UNIDIRECTIONAL ||
      input != CUDNN_LINEAR_INPUT || math_type != CUDNN_DATA_FLOAT ||
      flags != CUDNN_RNN_PADDED_IO_ENABLED ||
      (wide ? math != CUDNN_FMA_MATH && math != CUDNN_DEFAULT_MATH
            : math != CUDNN_TENSOR_OP_MATH)) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  *d = {mode, data, math, inputs, hidden, true};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateRNNDataDescriptor(cudnnRNNDataDescriptor_t* d) {
  *d = new EmulatedRnnData{};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyRNNDataDescriptor(cudnnRNNDataDescriptor_t d) {
  delete d;
  return CUDNN_STATUS_SUCCESS;
}
// Rows that end earlier than the data are not computed here.
cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t d, cudnnDataType_t type,
                                        cudnnRNNDataLayout_t layout, int steps, int batch,
                                        int width, const int lengths[], void*) {
  if (steps <= 0 || batch <= 0 || width <= 0 || !lengths) return CUDNN_STATUS_BAD_PARAM;
  if (layout != CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED) return CUDNN_STATUS_NOT_SUPPORTED;
  for (int b = 0; b < batch; ++b) {
    if (lengths[b] < 0 || lengths[b] > steps) return CUDNN_STATUS_BAD_PARAM;
    if (lengths[b] != steps) return CUDNN_STATUS_NOT_SUPPORTED;
  }
  *d = {type, steps, batch, width};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t, cudnnRNNDescriptor_t d,
                                        cudnnForwardMode_t mode, cudnnRNNDataDescriptor_t x,
                                        size_t* workspace, size_t* reserve) {
  if (!d->taken || x->width != d->inputs || x->type != d->type) return CUDNN_STATUS_BAD_PARAM;
  const RnnLayer l = d->layer(x->steps, x->batch);
  *workspace = l.workspace_bytes();
  *reserve = mode == CUDNN_FWD_MODE_TRAINING ? l.reserve_bytes() : 0;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t, cudnnRNNDescriptor_t d, size_t* bytes) {
  if (!d->taken) return CUDNN_STATUS_BAD_PARAM;
  *bytes = d->layer().weight_bytes();
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t, cudnnRNNDescriptor_t d, int32_t layer,
                                      size_t bytes, const void* weights, int32_t part,
                                      cudnnTensorDescriptor_t matrix, void** matrix_at,
                                      cudnnTensorDescriptor_t bias, void** bias_at) {
  if (!d->taken || layer != 0 || !weights) return CUDNN_STATUS_BAD_PARAM;
  const RnnLayer l = d->layer();
  if (part < 0 || part >= l.parts()) return CUDNN_STATUS_BAD_PARAM;
  if (bytes != l.weight_bytes()) return CUDNN_STATUS_BAD_PARAM;
  auto* p = static_cast<unsigned char*>(const_cast<void*>(weights));
  const int width = int(l.width(part)), hidden = int(l.H);
  const int extents[] = {1, hidden, width}, strides[] = {hidden * width, width, 1};
  const int bias_extents[] = {1, hidden, 1}, bias_strides[] = {hidden, 1, 1};
  cudnnSetTensorNdDescriptor(matrix, d->type, 3, extents, strides);
  cudnnSetTensorNdDescriptor(bias, d->type, 3, bias_extents, bias_strides);
  *matrix_at = p + l.bytes(l.matrix_at(part)), *bias_at = p + l.bytes(l.bias_at(part));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRNNForward(cudnnHandle_t handle, cudnnRNNDescriptor_t d, cudnnForwardMode_t mode,
                              const int32_t lengths[], cudnnRNNDataDescriptor_t dx, const void* x,
                              cudnnRNNDataDescriptor_t dy, void* y, cudnnTensorDescriptor_t dh,
                              const void* hx, void* hy, cudnnTensorDescriptor_t dc, const void* cx,
                              void* cy, size_t weight_bytes, const void* weights,
                              size_t workspace_bytes, void* workspace, size_t reserve_bytes,
                              void* reserve) {
  if (hx || hy || cx || cy) return CUDNN_STATUS_NOT_SUPPORTED;
  const bool training = mode == CUDNN_FWD_MODE_TRAINING;
  if (training && !reserve) return CUDNN_STATUS_BAD_PARAM;
  if (!training) reserve = nullptr;
  const Call call{handle,          d,         lengths,       dx,     dy, dh, dc, weight_bytes,
                  workspace_bytes, workspace, reserve_bytes, reserve};
  const double kept = training ? kept_elements(dy) : 0;
  return start(call, {x, y, weights}, double(dx->elements()) + weight_elements(d),
               double(dy->elements()) + kept, 1, [=](const RnnLayer& l) {
                 pal::emulation::compute_forward(l, x, weights, y, reserve);
               });
}
cudnnStatus_t cudnnRNNBackwardData_v8(
    cudnnHandle_t handle, cudnnRNNDescriptor_t d, const int32_t lengths[],
    cudnnRNNDataDescriptor_t y_desc, const void* y, const void* dy, cudnnRNNDataDescriptor_t x_desc,
    void* dx, cudnnTensorDescriptor_t h_desc, const void* hx, const void* dhy, void* dhx,
    cudnnTensorDescriptor_t c_desc, const void* cx, const void* dcy, void* dcx, size_t weight_bytes,
    const void* weights, size_t workspace_bytes, void* workspace, size_t reserve_bytes,
    void* reserve) {
  if (hx || dhy || dhx || cx || dcy || dcx) return CUDNN_STATUS_NOT_SUPPORTED;
  if (!reserve) return CUDNN_STATUS_BAD_PARAM;
  const Call call{handle,          d,         lengths,       x_desc,
                  y_desc,          h_desc,    c_desc,        weight_bytes,
                  workspace_bytes, workspace, reserve_bytes, reserve};
  const double kept = kept_elements(y_desc);
  return start(call, {y, dy, dx, weights},
               2 * double(y_desc->elements()) + weight_elements(d) + kept,
               double(x_desc->elements()) + kept, 1, [=](const RnnLayer& l) {
                 pal::emulation::compute_data_grad(l, y, dy, weights, dx, reserve);
               });
}
cudnnStatus_t cudnnRNNBackwardWeights_v8(
    cudnnHandle_t handle, cudnnRNNDescriptor_t d, cudnnWgradMode_t mode, const int32_t lengths[],
    cudnnRNNDataDescriptor_t x_desc, const void* x, cudnnTensorDescriptor_t h_desc, const void* hx,
    cudnnRNNDataDescriptor_t y_desc, const void* y, size_t weight_bytes, void* gradients,
    size_t workspace_bytes, void* workspace, size_t reserve_bytes, void* reserve) {
  if (hx || mode != CUDNN_WGRAD_MODE_ADD) return CUDNN_STATUS_NOT_SUPPORTED;
  if (!reserve) return CUDNN_STATUS_BAD_PARAM;
  const Call call{handle,          d,         lengths,       x_desc,
                  y_desc,          h_desc,    h_desc,        weight_bytes,
                  workspace_bytes, workspace, reserve_bytes, reserve};
  const double n = weight_elements(d);
  return start(
      call, {x, y, gradients},
      double(x_desc->elements() + y_desc->elements()) + kept_elements(y_desc) + n, n, 1,
      [=](const RnnLayer& l) { pal::emulation::compute_weight_grad(l, x, y, gradients, reserve); });
}
