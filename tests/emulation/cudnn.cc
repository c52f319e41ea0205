// cuDNN's convolutions, read off their descriptors as its manual says: extents in the order N, C,
// space, wherever the strides put them; y[n,o,p] = sum over taps and channels of o's group of
// x[n, c, p stride - pad + tap dilation] w[o, c, tap], result = alpha that + beta result. It
// refuses what the manual does, and throws where an algorithm that gives other bits each time is
// asked for.
#include "core/cuda/cudnn.h"

#include <stdexcept>
#include <vector>

#include "tests/emulation/counting.h"
#include "tests/emulation/cudnn_problem.h"
#include "tests/emulation/emulation.h"
#include "tests/emulation/memory.h"

int64_t EmulatedTensor::elements() const {
  int64_t n = 1;
  for (int i = 0; i < rank; ++i) n *= extent[size_t(i)];
  return n;
}

namespace {

using pal::ConvKind;
using pal::emulation::channels_last;
using pal::emulation::DnnCall;
using pal::emulation::DnnProblem;
using pal::emulation::element_bytes;
using pal::emulation::load_element;
using pal::emulation::store_element;

int64_t convolutions = 0;

// Calls f(place) for every place below `extents`, the last one fastest.
template <class F> void each_place(const EmulatedTensor& t, F f) {
  DnnPlace at{};
  const size_t axes = size_t(t.rank) - 2;
  for (;;) {
    f(at);
    size_t i = axes;
    while (i-- > 0) {
      if (++at[i] < t.extent[i + 2]) break;
      at[i] = 0;
    }
    if (i == size_t(-1)) return;
  }
}
int64_t index_of(const EmulatedTensor& t, int64_t n, int64_t c, const DnnPlace& at) {
  int64_t i = n * t.stride[0] + c * t.stride[1];
  for (size_t k = 0; k + 2 < size_t(t.rank); ++k) i += at[k] * t.stride[k + 2];
  return i;
}

// Calls f(x's element, w's element, y's element) for every product of the convolution.
template <class F> void each_product(const DnnProblem& p, F f) {
  const int64_t outputs = p.y.extent[1] / p.windows.groups, channels = p.w.extent[1];
  for (int64_t n = 0; n < p.x.extent[0]; ++n) {
    each_place(p.y, [&](const DnnPlace& to) {
      each_place(p.w, [&](const DnnPlace& tap) {
        DnnPlace from{};
        for (size_t i = 0; i < size_t(p.windows.axes); ++i) {
          from[i] = to[i] * p.windows.stride[i] - p.windows.pad[i] + tap[i] * p.windows.dilation[i];
          if (from[i] < 0 || from[i] >= p.x.extent[i + 2]) return;
        }
        for (int64_t o = 0; o < p.y.extent[1]; ++o) {
          for (int64_t c = 0; c < channels; ++c) {
            f(index_of(p.x, n, o / outputs * channels + c, from), index_of(p.w, o, c, tap),
              index_of(p.y, n, o, to));
          }
        }
      });
    });
  }
}

// `scales`: what alpha and beta are.
void compute(ConvKind kind, const DnnProblem& p, const DnnCall& call,
             std::pair<float, float> scales, const void* a, const void* b, void* out) {
  const auto [alpha, beta] = scales;
  const bool forward = kind == ConvKind::forward, data = kind == ConvKind::data_grad;
  const auto parts = size_t(call.parts);
  std::vector<double> sums(parts * size_t(forward ? p.y.elements()
                                          : data  ? p.x.elements()
                                                  : p.w.elements()));
  each_product(p, [&](int64_t x, int64_t w, int64_t y) {
    const int64_t i = data ? y : x, j = forward || data ? w : y;
    sums[parts * size_t(forward ? y
                        : data  ? x
                                : w) +
         size_t(y / p.y.extent[1]) % parts] +=
        p.factor(load_element(a, p.x.type, i)) *
        p.factor(load_element(b, forward || data ? p.w.type : p.y.type, j));
  });
  for (size_t i = 0; parts > 1 && i < sums.size() / parts; ++i) {
    float sum = 0;
    for (size_t part = 0; part < parts; ++part) sum += float(sums[i * parts + part]);
    sums[i] = double(sum);
  }
  sums.resize(sums.size() / parts);
  const cudnnDataType_t type = forward ? p.y.type : data ? p.x.type : p.w.type;
  for (int64_t i = 0; i < int64_t(sums.size()); ++i) {
    float value = alpha * float(sums[size_t(i)]);
    if (beta != 0) value += beta * load_element(out, type, i);
    if (call.bias) value += load_element(call.bias, call.bias_type, i % p.y.extent[1]);
    if (call.relu) value = value > 0 ? value : 0;  // of NaN too
    store_element(out, type, i, value);
  }
}

void count(ConvKind kind, const DnnProblem& p, const DnnCall& call, bool adds) {
  const bool forward = kind == ConvKind::forward, data = kind == ConvKind::data_grad;
  auto bytes = [](const EmulatedTensor& t) {
    return double(t.elements()) * double(element_bytes(t.type));
  };
  const double out = forward ? bytes(p.y) : data ? bytes(p.x) : bytes(p.w);
  const double bias = call.bias ? double(p.y.extent[1]) * double(element_bytes(call.bias_type)) : 0;
  pal::emulation::count_library(
      "cuDNN", bytes(p.x) + bytes(p.w) + bytes(p.y) + bias - out + (adds ? out : 0), out,
      2 * double(p.y.elements()) * double(p.w.elements()) / double(p.w.extent[0]));
}

}  // namespace

namespace pal::emulation {

DnnExtents channels_last(const EmulatedTensor& t) {
  DnnExtents out{};
  int64_t step = out[1] = 1;
  step *= t.extent[1];
  for (size_t i = size_t(t.rank); i-- > 2;) out[i] = step, step *= t.extent[i];
  out[0] = step;
  return out;
}

bool DnnProblem::consistent() const {
  const int rank = windows.axes + 2;
  if (rank < 4 || rank > kMostRank) return false;
  if (x.rank != rank || y.rank != rank || w.rank != rank) return false;
  if (x.extent[0] != y.extent[0] || x.extent[1] != w.extent[1] * windows.groups) return false;
  if (y.extent[1] != w.extent[0] || w.extent[0] % windows.groups) return false;
  for (size_t i = 0; i < size_t(windows.axes); ++i) {
    const int64_t reach = (w.extent[i + 2] - 1) * windows.dilation[i] + 1;
    const int64_t room = x.extent[i + 2] + 2 * windows.pad[i] - reach;
    if (room < 0 || y.extent[i + 2] != room / windows.stride[i] + 1) return false;
  }
  return x.type == y.type;
}
bool DnnProblem::supported() const {
  return windows.mode == CUDNN_CROSS_CORRELATION && windows.compute == CUDNN_DATA_FLOAT &&
         w.format == CUDNN_TENSOR_NHWC && x.stride == channels_last(x) &&
         y.stride == channels_last(y) && windows.math != CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
}
bool DnnProblem::has(cudnnConvolutionFwdAlgo_t algorithm) const {
  bool dilated = false;
  for (int64_t by : windows.dilation) dilated |= by > 1;
  return algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM || !dilated;
}
double DnnProblem::factor(float v) const { return dnn_factor(x.type, windows.math, v); }

cudnnStatus_t ask(const DnnProblem& p, size_t* bytes) {
  *bytes = 0;
  if (!p.consistent()) return CUDNN_STATUS_BAD_PARAM;
  if (!p.supported()) return CUDNN_STATUS_NOT_SUPPORTED;
  *bytes = p.workspace();
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t run(ConvKind kind, const DnnProblem& p, const DnnCall& call, const void* a,
                  const void* b, void* out) {
  size_t needed = 0;
  if (const cudnnStatus_t status = ask(p, &needed); status != CUDNN_STATUS_SUCCESS) return status;
  if (!a || !b || !out || !call.workspace || call.bytes < needed) return CUDNN_STATUS_BAD_PARAM;
  for (const void* operand : {a, b, static_cast<const void*>(out)}) {
    if (reinterpret_cast<uintptr_t>(operand) % element_bytes(p.x.type)) {
      return CUDNN_STATUS_BAD_PARAM;
    }
    pal::emulation::require_reachable(operand, "what cuDNN is given");
  }
  if (call.bias) pal::emulation::require_reachable(call.bias, "the bias that cuDNN is given");
  ++convolutions;
  // As the library does, what the descriptors say is read now and the operands later.
  const float alpha = *static_cast<const float*>(call.alpha);
  const float beta = *static_cast<const float*>(call.beta);
  const cudaError_t status = pal::emulation::enqueue(call.handle->stream, [=] {
    if (pal::emulation::counting()) return count(kind, p, call, beta != 0);
    pal::emulation::advance(call.ms);
    std::memset(call.workspace, 0xFF, needed);  // it is the library's
    compute(kind, p, call, {alpha, beta}, a, b, out);
  });
  return status == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

}  // namespace pal::emulation

namespace {

// This API's convolutions have one type throughout.
cudnnStatus_t ask_of_one_type(const DnnProblem& p, size_t* bytes) {
  return p.x.type == p.w.type ? pal::emulation::ask(p, bytes) : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t run_of_one_type(ConvKind kind, const DnnProblem& p, const DnnCall& call,
                              const void* a, const void* b, void* out) {
  return p.x.type == p.w.type ? pal::emulation::run(kind, p, call, a, b, out)
                              : CUDNN_STATUS_BAD_PARAM;
}

void require_deterministic(bool deterministic) {
  if (!deterministic) {
    throw std::runtime_error("cuDNN: an algorithm that gives other bits each time");
  }
}

cudnnStatus_t fill(EmulatedTensor* t, cudnnDataType_t type, int rank, const int extents[]) {
  if (rank > kMostRank) return CUDNN_STATUS_NOT_SUPPORTED;
  if (rank < 3) return CUDNN_STATUS_BAD_PARAM;
  t->type = type, t->rank = rank;
  for (int i = 0; i < rank; ++i) {
    if (extents[i] <= 0) return CUDNN_STATUS_BAD_PARAM;
    t->extent[size_t(i)] = extents[i];
  }
  return t->elements() > 0x7fffffff ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
}

}  // namespace

size_t cudnnGetVersion() { return 91900; }
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_BAD_PARAM       ? "CUDNN_STATUS_BAD_PARAM"
         : status == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
                                                : "CUDNN_STATUS_EXECUTION_FAILED";
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* h) {
  *h = new EmulatedDnn;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t h) {
  delete h;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t stream) {
  h->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* t) {
  *t = new EmulatedTensor{};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t t) {
  delete t;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t t, cudnnDataType_t type, int rank,
                                         const int extents[], const int strides[]) {
  const cudnnStatus_t status = fill(t, type, rank, extents);
  for (int i = 0; i < t->rank; ++i) t->stride[size_t(i)] = strides[i];
  return status;
}
cudnnStatus_t cudnnGetTensorNdDescriptor(cudnnTensorDescriptor_t t, int requested,
                                         cudnnDataType_t* type, int* rank, int extents[],
                                         int strides[]) {
  *type = t->type, *rank = t->rank;
  for (int i = 0; i < t->rank && i < requested; ++i) {
    extents[i] = int(t->extent[size_t(i)]), strides[i] = int(t->stride[size_t(i)]);
  }
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* f) {
  *f = new EmulatedFilter{};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t f) {
  delete f;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t f, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int rank,
                                         const int extents[]) {
  const cudnnStatus_t status = fill(f, type, rank, extents);
  f->format = format;
  f->stride = channels_last(*f);
  return status;
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* c) {
  *c = new EmulatedConvolution{};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t c) {
  delete c;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t c, int axes,
                                              const int pad[], const int stride[],
                                              const int dilation[], cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  if (axes < 1 || axes > 3) return CUDNN_STATUS_NOT_SUPPORTED;
  c->axes = axes, c->mode = mode, c->compute = compute;
  for (int i = 0; i < axes; ++i) {
    if (pad[i] < 0 || stride[i] <= 0 || dilation[i] <= 0) return CUDNN_STATUS_BAD_PARAM;
    c->pad[size_t(i)] = pad[i], c->stride[size_t(i)] = stride[i];
    c->dilation[size_t(i)] = dilation[i];
  }
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t c, int groups) {
  c->groups = groups;
  return groups > 0 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t c, cudnnMathType_t math) {
  c->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                      cudnnFilterDescriptor_t w,
                                                      cudnnConvolutionDescriptor_t c,
                                                      cudnnTensorDescriptor_t y,
                                                      cudnnConvolutionFwdAlgo_t algorithm,
                                                      size_t* bytes) {
  const DnnProblem p{*x, *y, *w, *c};
  return p.has(algorithm) ? ask_of_one_type(p, bytes) : CUDNN_STATUS_NOT_SUPPORTED;
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t, cudnnFilterDescriptor_t w,
                                                           cudnnTensorDescriptor_t dy,
                                                           cudnnConvolutionDescriptor_t c,
                                                           cudnnTensorDescriptor_t dx,
                                                           cudnnConvolutionBwdDataAlgo_t algorithm,
                                                           size_t* bytes) {
  require_deterministic(algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1);
  return ask_of_one_type({*dx, *dy, *w, *c}, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t c, cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
  require_deterministic(algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1);
  return ask_of_one_type({*x, *dy, *dw, *c}, bytes);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t h, const void* alpha,
                                      cudnnTensorDescriptor_t dx, const void* x,
                                      cudnnFilterDescriptor_t dw, const void* w,
                                      cudnnConvolutionDescriptor_t c,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* workspace,
                                      size_t bytes, const void* beta, cudnnTensorDescriptor_t dy,
                                      void* y) {
  const DnnProblem p{*dx, *dy, *dw, *c};
  if (!p.has(algorithm)) return CUDNN_STATUS_NOT_SUPPORTED;
  return run_of_one_type(ConvKind::forward, p, {h, alpha, beta, workspace, bytes}, x, w, y);
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t h, const void* alpha,
                                           cudnnFilterDescriptor_t fw, const void* w,
                                           cudnnTensorDescriptor_t ty, const void* dy,
                                           cudnnConvolutionDescriptor_t c,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                           size_t bytes, const void* beta,
                                           cudnnTensorDescriptor_t tx, void* dx) {
  require_deterministic(algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1);
  return run_of_one_type(ConvKind::data_grad, {*tx, *ty, *fw, *c},
                         {h, alpha, beta, workspace, bytes}, dy, w, dx);
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t h, const void* alpha,
                                             cudnnTensorDescriptor_t tx, const void* x,
                                             cudnnTensorDescriptor_t ty, const void* dy,
                                             cudnnConvolutionDescriptor_t c,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm,
                                             void* workspace, size_t bytes, const void* beta,
                                             cudnnFilterDescriptor_t fw, void* dw) {
  require_deterministic(algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1);
  return run_of_one_type(ConvKind::weight_grad, {*tx, *ty, *fw, *c},
                         {h, alpha, beta, workspace, bytes}, x, dy, dw);
}

int64_t pal::emulation::convolutions_run() { return convolutions; }

const pal::Cudnn* pal::cudnn_library() {
  static const Cudnn table{.version = cudnnGetVersion,
                           .error_string = cudnnGetErrorString,
                           .create = cudnnCreate,
                           .destroy = cudnnDestroy,
                           .set_stream = cudnnSetStream,
                           .tensor_create = cudnnCreateTensorDescriptor,
                           .tensor_destroy = cudnnDestroyTensorDescriptor,
                           .tensor_set = cudnnSetTensorNdDescriptor,
                           .filter_create = cudnnCreateFilterDescriptor,
                           .filter_destroy = cudnnDestroyFilterDescriptor,
                           .filter_set = cudnnSetFilterNdDescriptor,
                           .convolution_create = cudnnCreateConvolutionDescriptor,
                           .convolution_destroy = cudnnDestroyConvolutionDescriptor,
                           .convolution_set = cudnnSetConvolutionNdDescriptor,
                           .convolution_groups = cudnnSetConvolutionGroupCount,
                           .convolution_math = cudnnSetConvolutionMathType,
                           .forward_workspace = cudnnGetConvolutionForwardWorkspaceSize,
                           .data_grad_workspace = cudnnGetConvolutionBackwardDataWorkspaceSize,
                           .weight_grad_workspace = cudnnGetConvolutionBackwardFilterWorkspaceSize,
                           .forward = cudnnConvolutionForward,
                           .data_grad = cudnnConvolutionBackwardData,
                           .weight_grad = cudnnConvolutionBackwardFilter,
                           .backend_create = cudnnBackendCreateDescriptor,
                           .backend_destroy = cudnnBackendDestroyDescriptor,
                           .backend_set = cudnnBackendSetAttribute,
                           .backend_finalize = cudnnBackendFinalize,
                           .backend_get = cudnnBackendGetAttribute,
                           .backend_execute = cudnnBackendExecute,
                           .tensor_get = cudnnGetTensorNdDescriptor,
                           .dropout_create = cudnnCreateDropoutDescriptor,
                           .dropout_destroy = cudnnDestroyDropoutDescriptor,
                           .dropout_set = cudnnSetDropoutDescriptor,
                           .rnn_create = cudnnCreateRNNDescriptor,
                           .rnn_destroy = cudnnDestroyRNNDescriptor,
                           .rnn_set = cudnnSetRNNDescriptor_v8,
                           .rnn_data_create = cudnnCreateRNNDataDescriptor,
                           .rnn_data_destroy = cudnnDestroyRNNDataDescriptor,
                           .rnn_data_set = cudnnSetRNNDataDescriptor,
                           .rnn_spaces = cudnnGetRNNTempSpaceSizes,
                           .rnn_weight_space = cudnnGetRNNWeightSpaceSize,
                           .rnn_weight_place = cudnnGetRNNWeightParams,
                           .rnn_forward = cudnnRNNForward,
                           .rnn_data_grad = cudnnRNNBackwardData_v8,
                           .rnn_weight_grad = cudnnRNNBackwardWeights_v8};
  return emulation::settings().cudnn ? &table : nullptr;
}
