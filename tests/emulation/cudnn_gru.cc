// A reserve's stages, and the three passes over a layer's steps.
#include "tests/emulation/cudnn_gru.h"

#include <cmath>
#include <cstring>
#include <stdexcept>

namespace pal::emulation {
namespace {

enum : uint64_t { kForwardDone = 0x666f7277, kDataDone = 0x64617461 };

struct Head {  // of a reserve
  uint64_t stage, weights, inputs, sum;
};

static_assert(sizeof(Head) == kReserveHead);

uint64_t mix(uint64_t h, const void* p, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    h = (h ^ static_cast<const unsigned char*>(p)[i]) * 0x100000001b3ull;
  }
  return h;
}

// The parts without the gaps, which may hold anything.
uint64_t weight_sum(const GruLayer& l, const void* weights) {
  uint64_t h = 0xcbf29ce484222325ull;
  const auto* p = static_cast<const unsigned char*>(weights);
  for (int i = 0; i < 6; ++i) {
    h = mix(h, p + l.bytes(l.matrix_at(i)), l.bytes(l.H * l.width(i)));
    h = mix(h, p + l.bytes(l.bias_at(i)), l.bytes(l.H));
  }
  return h;
}
uint64_t input_sum(const GruLayer& l, const void* x) { return mix(1, x, l.bytes(l.T * l.B * l.I)); }

// Four numbers a step, row and unit behind a reserve's head; the rest is filled with what its sum
// knows.
class Reserve {
 public:
  Reserve(const GruLayer& layer, void* p) : layer_(layer), p_(static_cast<unsigned char*>(p)) {}

  void close(uint64_t stage, const void* weights, const void* x, const Numbers& four) {
    Head head{stage, weight_sum(layer_, weights), input_sum(layer_, x), 0};
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
    if (head().weights != weight_sum(layer_, weights)) {
      throw std::runtime_error("cuDNN: a reserve of other weights");
    }
  }
  void check_inputs(const void* x) const {
    if (head().inputs != input_sum(layer_, x)) {
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

  const GruLayer& layer_;
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
  Weights(const GruLayer& l, const void* weights) {
    const auto* p = static_cast<const unsigned char*>(weights);
    for (int i = 0; i < 6; ++i) {
      matrix[i] = l.read(p + l.bytes(l.matrix_at(i)), l.H * l.width(i), true);
      bias[i] = l.read(p + l.bytes(l.bias_at(i)), l.H);
    }
  }
};

}  // namespace

void compute_forward(const GruLayer& l, const void* x_at, const void* weights, void* y_at,
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
void compute_data_grad(const GruLayer& l, const void* y_at, const void* dy_at, const void* weights,
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

void compute_weight_grad(const GruLayer& l, const void* x_at, const void* y_at, void* gradients,
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

}  // namespace pal::emulation
