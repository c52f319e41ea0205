// cuDNN's GRU layer, read off its descriptors as the manual says: one layer in one direction from
// zero, two biases, in f64. What the library would keep to itself is checked: the reserve is
// known by a sum over all of it, and is of one layer, one forward call and one set of weights; data
// gradients turn it into what weight gradients want, and nothing else may change it. Weights and
// their gradients lie behind gaps that only the library knows of, rows apart.
//   r = sigmoid(W_r x + b_r + R_r h + c_r), z likewise, q = R_n h + c_n, n = tanh(W_n x + b_n + r
//   q) h' = (1 - z) n + z h
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "ops/kernels/element_types.h"
#include "tests/emulation/counting.h"
#include "tests/emulation/cudnn_problem.h"
#include "tests/emulation/emulation.h"
#include "tests/emulation/memory.h"

struct EmulatedDropout {
  float dropout = -1;  // not set
};
struct EmulatedRnn {
  cudnnDataType_t type{};
  cudnnMathType_t math{};
  int64_t inputs = 0, hidden = 0;
  bool taken = false;  // it is such a layer as is computed here
};
struct EmulatedRnnData {
  cudnnDataType_t type{};
  int64_t steps = 0, batch = 0, width = 0;
  int64_t elements() const { return steps * batch * width; }
};

namespace {

using pal::emulation::element_bytes;
using pal::emulation::load_element;
using pal::emulation::store_element;
using Numbers = std::vector<double>;

int64_t calls = 0;

constexpr int64_t kGap = 24;  // elements before each part of the weights
enum : uint64_t { kForwardDone = 0x666f7277, kDataDone = 0x64617461 };

struct Head {  // of a reserve
  uint64_t stage, weights, inputs, sum;
};

uint64_t mix(uint64_t h, const void* p, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    h = (h ^ static_cast<const unsigned char*>(p)[i]) * 0x100000001b3ull;
  }
  return h;
}

struct Layer {
  cudnnDataType_t type;
  cudnnMathType_t math;
  int64_t T, B, I, H;

  size_t bytes(int64_t elements) const { return size_t(elements) * element_bytes(type); }
  int64_t width(int part) const { return part < 3 ? I : H; }
  // Where a part begins: all matrices, then all biases. A bias's elements lie side by side.
  int64_t matrix_at(int part) const {
    int64_t at = kGap;
    for (int i = 0; i < part; ++i) at += H * width(i) + kGap;
    return at;
  }
  int64_t bias_at(int part) const { return matrix_at(6) + part * (H + kGap); }
  size_t weight_bytes() const { return bytes(bias_at(6)); }
  size_t workspace_bytes() const { return 64 + bytes(B * H); }
  size_t reserve_bytes() const {
    return sizeof(Head) + bytes(pal::emulation::settings().cudnn_reserve * T * B * H);
  }

  Numbers read(const void* p, int64_t n, bool factors = false) const {
    Numbers out(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
      const float v = load_element(p, type, i);
      out[size_t(i)] = factors ? factor(v) : double(v);
    }
    return out;
  }
  void write(void* p, const Numbers& from) const {
    for (size_t i = 0; i < from.size(); ++i) store_element(p, type, int64_t(i), float(from[i]));
  }
  // As f32 is multiplied: TF32 has 10 bits behind the first.
  double factor(float v) const {
    if (type != CUDNN_DATA_FLOAT || math == CUDNN_FMA_MATH) return double(v);
    return double(pal::bits_float((pal::float_bits(v) + 0x1000u) & ~0x1fffu));
  }
  // The parts without the gaps, which may hold anything.
  uint64_t weight_sum(const void* weights) const {
    uint64_t h = 0xcbf29ce484222325ull;
    const auto* p = static_cast<const unsigned char*>(weights);
    for (int i = 0; i < 6; ++i) {
      h = mix(h, p + bytes(matrix_at(i)), bytes(H * width(i)));
      h = mix(h, p + bytes(bias_at(i)), bytes(H));
    }
    return h;
  }
  uint64_t input_sum(const void* x) const { return mix(1, x, bytes(T * B * I)); }
};

// Four numbers a step, row and unit behind a reserve's head; the rest is filled with what its sum
// knows.
class Reserve {
 public:
  Reserve(const Layer& layer, void* p) : layer_(layer), p_(static_cast<unsigned char*>(p)) {}

  void close(uint64_t stage, const void* weights, const void* x, const Numbers& four) {
    Head head{stage, layer_.weight_sum(weights), layer_.input_sum(x), 0};
    std::memset(p_, 0xA7, layer_.reserve_bytes());
    put(head, four);
  }
  void turn(const Numbers& four) {
    Head head = this->head();
    head.stage = kDataDone;
    put(head, four);
  }
  // std::runtime_error unless a call left it so.
  void check(uint64_t stage) const {
    const Head head = this->head();
    if (head.stage != stage) {
      throw std::runtime_error("cuDNN: a reserve that no such call has made");
    }
    if (head.sum != sum(head)) throw std::runtime_error("cuDNN: a reserve that was changed");
  }
  void check_weights(const void* weights) const {
    if (head().weights != layer_.weight_sum(weights)) {
      throw std::runtime_error("cuDNN: a reserve of other weights");
    }
  }
  void check_inputs(const void* x) const {
    if (head().inputs != layer_.input_sum(x)) {
      throw std::runtime_error("cuDNN: a reserve of other inputs");
    }
  }
  Numbers four() const {
    return layer_.read(p_ + sizeof(Head), 4 * layer_.T * layer_.B * layer_.H);
  }

 private:
  Head head() const {
    Head head;
    std::memcpy(&head, p_, sizeof head);
    return head;
  }
  uint64_t sum(Head head) const {
    head.sum = 0;
    return mix(mix(2, &head, sizeof head), p_ + sizeof head, layer_.reserve_bytes() - sizeof head);
  }
  void put(Head head, const Numbers& four) {
    layer_.write(p_ + sizeof head, four);
    head.sum = sum(head);
    std::memcpy(p_, &head, sizeof head);
  }

  const Layer& layer_;
  unsigned char* p_;
};

double sigmoid64(double x) { return 1 / (1 + std::exp(-x)); }

// Row i of a part's product with v, one number of a step and row.
double row_product(const Numbers& w, int64_t row, const Numbers& v, int64_t at, int64_t width) {
  double sum = 0;
  for (int64_t k = 0; k < width; ++k) sum += w[size_t(row * width + k)] * v[size_t(at + k)];
  return sum;
}

struct Weights {
  Numbers matrix[6], bias[6];
  Weights(const Layer& l, const void* weights) {
    const auto* p = static_cast<const unsigned char*>(weights);
    for (int i = 0; i < 6; ++i) {
      matrix[i] = l.read(p + l.bytes(l.matrix_at(i)), l.H * l.width(i), true);
      bias[i] = l.read(p + l.bytes(l.bias_at(i)), l.H);
    }
  }
};

void compute_forward(const Layer& l, const void* x_at, const void* weights, void* y_at,
                     void* reserve) {
  const Weights w(l, weights);
  const Numbers x = l.read(x_at, l.T * l.B * l.I, true);
  const int64_t rows = l.B * l.H;
  Numbers y(size_t(l.T * rows)), four(size_t(4 * l.T * rows));
  for (int64_t t = 0; t < l.T; ++t) {
    Numbers h(static_cast<size_t>(rows), 0.0), hf = h;  // the state before, and as a factor
    for (int64_t i = 0; t > 0 && i < rows; ++i) {
      // What is stored is what the next step reads.
      const float stored = load_element(y_at, l.type, (t - 1) * rows + i);
      h[size_t(i)] = double(stored), hf[size_t(i)] = l.factor(stored);
    }
    for (int64_t b = 0; b < l.B; ++b) {
      for (int64_t j = 0; j < l.H; ++j) {
        double of_x[3], of_h[3];
        for (int g = 0; g < 3; ++g) {
          of_x[g] = w.bias[g][size_t(j)] + row_product(w.matrix[g], j, x, (t * l.B + b) * l.I, l.I);
          of_h[g] = w.bias[3 + g][size_t(j)] + row_product(w.matrix[3 + g], j, hf, b * l.H, l.H);
        }
        const double r = sigmoid64(of_x[0] + of_h[0]), z = sigmoid64(of_x[1] + of_h[1]);
        const double n = std::tanh(of_x[2] + r * of_h[2]);
        const int64_t at = t * rows + b * l.H + j;
        store_element(y_at, l.type, at, float((1 - z) * n + z * h[size_t(b * l.H + j)]));
        const double kept[] = {r, z, n, of_h[2]};
        for (int k = 0; k < 4; ++k) four[size_t(4 * at + k)] = kept[k];
      }
    }
  }
  if (reserve) Reserve(l, reserve).close(kForwardDone, weights, x_at, four);
}

// The reserve's four become the gradients of r, z and n before their activations, and of q.
void compute_data_grad(const Layer& l, const void* y_at, const void* dy_at, const void* weights,
                       void* dx_at, void* reserve) {
  Reserve kept(l, reserve);
  kept.check(kForwardDone);
  kept.check_weights(weights);
  const Weights w(l, weights);
  const int64_t rows = l.B * l.H;
  const Numbers y = l.read(y_at, l.T * rows), dy = l.read(dy_at, l.T * rows);
  Numbers four = kept.four(), dx(size_t(l.T * l.B * l.I), 0.0), dh(size_t(rows), 0.0);
  for (int64_t t = l.T - 1; t >= 0; --t) {
    Numbers before(static_cast<size_t>(rows), 0.0);
    for (int64_t i = 0; i < rows; ++i) {
      double* g = &four[size_t(4 * (t * rows + i))];
      const double r = g[0], z = g[1], n = g[2], q = g[3];
      const double h = t ? y[size_t((t - 1) * rows + i)] : 0;
      const double d = dh[size_t(i)] + dy[size_t(t * rows + i)];
      const double dn = d * (1 - z) * (1 - n * n);
      g[0] = dn * q * r * (1 - r), g[1] = d * (h - n) * z * (1 - z), g[2] = dn, g[3] = dn * r;
      before[size_t(i)] = d * z;
    }
    for (int64_t b = 0; b < l.B; ++b) {
      for (int64_t j = 0; j < l.H; ++j) {
        const double* g = &four[size_t(4 * (t * rows + b * l.H + j))];
        const double by[] = {g[0], g[1], g[2], g[0], g[1], g[3]};
        for (int part = 0; part < 6; ++part) {
          Numbers& to = part < 3 ? dx : before;
          const int64_t width = l.width(part), at = part < 3 ? (t * l.B + b) * l.I : b * l.H;
          const double factor = l.factor(float(by[part]));
          for (int64_t k = 0; k < width; ++k) {
            to[size_t(at + k)] += factor * w.matrix[part][size_t(j * width + k)];
          }
        }
      }
    }
    dh = before;
  }
  l.write(dx_at, dx);
  kept.turn(four);
}

void compute_weight_grad(const Layer& l, const void* x_at, const void* y_at, void* gradients,
                         void* reserve) {
  const Reserve kept(l, reserve);
  kept.check(kDataDone);
  kept.check_inputs(x_at);
  const int64_t rows = l.B * l.H;
  const Numbers x = l.read(x_at, l.T * l.B * l.I, true), y = l.read(y_at, l.T * rows, true);
  const Numbers four = kept.four();
  auto* p = static_cast<unsigned char*>(gradients);
  for (int part = 0; part < 6; ++part) {
    void* const matrix_at = p + l.bytes(l.matrix_at(part));
    void* const bias_at = p + l.bytes(l.bias_at(part));
    const int64_t width = l.width(part);
    Numbers matrix = l.read(matrix_at, l.H * width), bias = l.read(bias_at, l.H);
    for (int64_t t = 0; t < l.T; ++t) {
      for (int64_t b = 0; b < l.B; ++b) {
        for (int64_t j = 0; j < l.H; ++j) {
          const double* g = &four[size_t(4 * (t * rows + b * l.H + j))];
          const double d = part == 5 ? g[3] : g[part % 3];
          bias[size_t(j)] += d;
          if (part >= 3 && t == 0) continue;
          const Numbers& by = part < 3 ? x : y;
          const int64_t at = part < 3 ? (t * l.B + b) * l.I : ((t - 1) * l.B + b) * l.H;
          const double factor = l.factor(float(d));
          for (int64_t k = 0; k < width; ++k) {
            matrix[size_t(j * width + k)] += factor * by[size_t(at + k)];
          }
        }
      }
    }
    l.write(matrix_at, matrix), l.write(bias_at, bias);
  }
}

// What every call is told: the layer, its data, states that are zero, and memory.
struct Call {
  cudnnHandle_t handle;
  cudnnRNNDescriptor_t layer;
  const int32_t* lengths;
  cudnnRNNDataDescriptor_t x, y;
  cudnnTensorDescriptor_t h;
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
  const EmulatedTensor& h = *c.h;
  return h.rank == 3 && h.type == c.layer->type && h.extent[0] == 1 && h.extent[1] == c.x->batch &&
         h.extent[2] == c.layer->hidden && h.stride[2] == 1 && h.stride[1] == h.extent[2];
}

// Later work(layer), unless an argument is not as the manual has it. `read`, `written`: elements.
template <class F>
cudnnStatus_t start(const Call& c, std::initializer_list<const void*> operands, double read,
                    double written, double products, F work) {
  // "In cuDNN 8.9.1 and later, devSeqLengths should be NULL."
  if (c.lengths || !consistent(c)) return CUDNN_STATUS_BAD_PARAM;
  const Layer l{c.layer->type, c.layer->math,   c.x->steps,
                c.x->batch,    c.layer->inputs, c.layer->hidden};
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
  const double flops = products * 6 * double(l.T * l.B * l.H) * double(l.I + l.H);
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
  return 3 * double(d->hidden) * double(d->inputs + d->hidden + 2);
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
  if (!pal::emulation::settings().cudnn_layers || mode != CUDNN_GRU ||
      bias != CUDNN_RNN_DOUBLE_BIAS || direction != CUDNN_UNIDIRECTIONAL ||
      input != CUDNN_LINEAR_INPUT || math_type != CUDNN_DATA_FLOAT ||
      flags != CUDNN_RNN_PADDED_IO_ENABLED ||
      (wide ? math != CUDNN_FMA_MATH && math != CUDNN_DEFAULT_MATH
            : math != CUDNN_TENSOR_OP_MATH)) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  *d = {data, math, inputs, hidden, true};
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
  const Layer l{d->type, d->math, x->steps, x->batch, d->inputs, d->hidden};
  *workspace = l.workspace_bytes();
  *reserve = mode == CUDNN_FWD_MODE_TRAINING ? l.reserve_bytes() : 0;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t, cudnnRNNDescriptor_t d, size_t* bytes) {
  if (!d->taken) return CUDNN_STATUS_BAD_PARAM;
  *bytes = Layer{d->type, d->math, 0, 0, d->inputs, d->hidden}.weight_bytes();
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t, cudnnRNNDescriptor_t d, int32_t layer,
                                      size_t bytes, const void* weights, int32_t part,
                                      cudnnTensorDescriptor_t matrix, void** matrix_at,
                                      cudnnTensorDescriptor_t bias, void** bias_at) {
  if (!d->taken || layer != 0 || part < 0 || part > 5 || !weights) return CUDNN_STATUS_BAD_PARAM;
  const Layer l{d->type, d->math, 0, 0, d->inputs, d->hidden};
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
                              const void* hx, void* hy, cudnnTensorDescriptor_t, const void* cx,
                              void* cy, size_t weight_bytes, const void* weights,
                              size_t workspace_bytes, void* workspace, size_t reserve_bytes,
                              void* reserve) {
  if (hx || hy || cx || cy) return CUDNN_STATUS_NOT_SUPPORTED;
  const bool training = mode == CUDNN_FWD_MODE_TRAINING;
  if (training && !reserve) return CUDNN_STATUS_BAD_PARAM;
  if (!training) reserve = nullptr;
  const Call call{handle,          d,         lengths,       dx,     dy, dh, weight_bytes,
                  workspace_bytes, workspace, reserve_bytes, reserve};
  const double kept = training ? kept_elements(dy) : 0;
  return start(call, {x, y, weights}, double(dx->elements()) + weight_elements(d),
               double(dy->elements()) + kept, 1,
               [=](const Layer& l) { compute_forward(l, x, weights, y, reserve); });
}
cudnnStatus_t cudnnRNNBackwardData_v8(
    cudnnHandle_t handle, cudnnRNNDescriptor_t d, const int32_t lengths[],
    cudnnRNNDataDescriptor_t y_desc, const void* y, const void* dy, cudnnRNNDataDescriptor_t x_desc,
    void* dx, cudnnTensorDescriptor_t h_desc, const void* hx, const void* dhy, void* dhx,
    cudnnTensorDescriptor_t, const void* cx, const void* dcy, void* dcx, size_t weight_bytes,
    const void* weights, size_t workspace_bytes, void* workspace, size_t reserve_bytes,
    void* reserve) {
  if (hx || dhy || dhx || cx || dcy || dcx) return CUDNN_STATUS_NOT_SUPPORTED;
  if (!reserve) return CUDNN_STATUS_BAD_PARAM;
  const Call call{handle,          d,         lengths,       x_desc, y_desc, h_desc, weight_bytes,
                  workspace_bytes, workspace, reserve_bytes, reserve};
  const double kept = kept_elements(y_desc);
  return start(call, {y, dy, dx, weights},
               2 * double(y_desc->elements()) + weight_elements(d) + kept,
               double(x_desc->elements()) + kept, 1,
               [=](const Layer& l) { compute_data_grad(l, y, dy, weights, dx, reserve); });
}
cudnnStatus_t cudnnRNNBackwardWeights_v8(
    cudnnHandle_t handle, cudnnRNNDescriptor_t d, cudnnWgradMode_t mode, const int32_t lengths[],
    cudnnRNNDataDescriptor_t x_desc, const void* x, cudnnTensorDescriptor_t h_desc, const void* hx,
    cudnnRNNDataDescriptor_t y_desc, const void* y, size_t weight_bytes, void* gradients,
    size_t workspace_bytes, void* workspace, size_t reserve_bytes, void* reserve) {
  if (hx || mode != CUDNN_WGRAD_MODE_ADD) return CUDNN_STATUS_NOT_SUPPORTED;
  if (!reserve) return CUDNN_STATUS_BAD_PARAM;
  const Call call{handle,          d,         lengths,       x_desc, y_desc, h_desc, weight_bytes,
                  workspace_bytes, workspace, reserve_bytes, reserve};
  const double n = weight_elements(d);
  return start(call, {x, y, gradients},
               double(x_desc->elements() + y_desc->elements()) + kept_elements(y_desc) + n, n, 1,
               [=](const Layer& l) { compute_weight_grad(l, x, y, gradients, reserve); });
}
