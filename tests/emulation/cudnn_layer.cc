// A reserve's stages, and the three passes over a layer's steps.
#include "tests/emulation/cudnn_layer.h"

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
uint64_t weight_sum(const RnnLayer& l, const void* weights) {
  uint64_t h = 0xcbf29ce484222325ull;
  const auto* p = static_cast<const unsigned char*>(weights);
  for (int i = 0; i < l.parts(); ++i) {
    h = mix(h, p + l.bytes(l.matrix_at(i)), l.bytes(l.H * l.width(i)));
    h = mix(h, p + l.bytes(l.bias_at(i)), l.bytes(l.H));
  }
  return h;
}
uint64_t input_sum(const RnnLayer& l, const void* x) { return mix(1, x, l.bytes(l.T * l.B * l.I)); }

// What is kept of a step, row and unit lies behind a reserve's head; the rest is filled with what
// its sum knows.
class Reserve {
 public:
  Reserve(const RnnLayer& layer, void* p) : layer_(layer), p_(static_cast<unsigned char*>(p)) {}

  void close(uint64_t stage, const void* weights, const void* x, const Numbers& kept) {
    Head head{stage, weight_sum(layer_, weights), input_sum(layer_, x), 0};
    std::memset(p_, 0xA7, layer_.reserve_bytes());
    put(head, kept);
  }
  void turn(const Numbers& kept) {
    Head head = this->head();
    head.stage = kDataDone;
    put(head, kept);
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
  Numbers kept() const {
    return layer_.read(p_ + sizeof(Head), layer_.kept() * layer_.T * layer_.B * layer_.H);
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
  void put(Head head, const Numbers& kept) {
    layer_.write(p_ + sizeof head, kept);
    head.sum = sum(head);
    std::memcpy(p_, &head, sizeof head);
  }

  const RnnLayer& layer_;
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
  Numbers matrix[8], bias[8];
  Weights(const RnnLayer& l, const void* weights) {
    const auto* p = static_cast<const unsigned char*>(weights);
    for (int i = 0; i < l.parts(); ++i) {
      matrix[i] = l.read(p + l.bytes(l.matrix_at(i)), l.H * l.width(i), true);
      bias[i] = l.read(p + l.bytes(l.bias_at(i)), l.H);
    }
  }
};

// One unit's cell: from each gate's two products with their biases, h and c before. What is kept
// goes to `kept`, of which an LSTM's last is the new c. -> h
double cell(const RnnLayer& l, const double* of_x, const double* of_h, double h, double c,
            double* kept) {
  if (l.lstm()) {
    for (int g = 0; g < 4; ++g) {
      const double sum = of_x[g] + of_h[g];
      kept[g] = g == 2 ? std::tanh(sum) : sigmoid64(sum);
    }
    kept[4] = kept[1] * c + kept[0] * kept[2];
    return kept[3] * std::tanh(kept[4]);
  }
  const double r = sigmoid64(of_x[0] + of_h[0]), z = sigmoid64(of_x[1] + of_h[1]);
  const double n = std::tanh(of_x[2] + r * of_h[2]);
  kept[0] = r, kept[1] = z, kept[2] = n, kept[3] = of_h[2];
  return (1 - z) * n + z * h;
}

// Its gradient: the first four become the gradients of the gates before their activations, a GRU's
// fourth that of q. dc becomes the gradient of c before. -> what h before gets but by the products
double cell_grad(const RnnLayer& l, double* kept, double h, double c, double d, double& dc) {
  if (l.lstm()) {
    const double i = kept[0], f = kept[1], g = kept[2], o = kept[3], tc = std::tanh(kept[4]);
    dc += d * o * (1 - tc * tc);
    kept[0] = dc * g * i * (1 - i), kept[1] = dc * c * f * (1 - f), kept[2] = dc * i * (1 - g * g);
    kept[3] = d * tc * o * (1 - o);
    dc *= f;
    return 0;
  }
  const double r = kept[0], z = kept[1], n = kept[2], q = kept[3];
  const double dn = d * (1 - z) * (1 - n * n);
  kept[0] = dn * q * r * (1 - r), kept[1] = d * (h - n) * z * (1 - z), kept[2] = dn;
  kept[3] = dn * r;
  return d * z;
}

// Which of a unit's gradients is that of a part.
int gradient_of(const RnnLayer& l, int part) {
  return !l.lstm() && part == 5 ? 3 : part % l.gates();
}

}  // namespace

void compute_forward(const RnnLayer& l, const void* x_at, const void* weights, void* y_at,
                     void* reserve) {
  const Weights w(l, weights);
  const Numbers x = l.read(x_at, l.T * l.B * l.I, true);
  const int64_t rows = l.B * l.H;
  Numbers y(size_t(l.T * rows)), all(size_t(l.kept() * l.T * rows)), c(size_t(rows), 0.0);
  for (int64_t t = 0; t < l.T; ++t) {
    Numbers h(static_cast<size_t>(rows), 0.0), hf = h;  // the state before, and as a factor
    for (int64_t i = 0; t > 0 && i < rows; ++i) {
      // What is stored is what the next step reads.
      const float stored = load_element(y_at, l.type, (t - 1) * rows + i);
      h[size_t(i)] = double(stored), hf[size_t(i)] = l.factor(stored);
    }
    for (int64_t b = 0; b < l.B; ++b) {
      for (int64_t j = 0; j < l.H; ++j) {
        double of_x[4], of_h[4];
        for (int g = 0; g < l.gates(); ++g) {
          const int r = l.gates() + g;
          of_x[g] = w.bias[g][size_t(j)] + row_product(w.matrix[g], j, x, (t * l.B + b) * l.I, l.I);
          of_h[g] = w.bias[r][size_t(j)] + row_product(w.matrix[r], j, hf, b * l.H, l.H);
        }
        const int64_t unit = b * l.H + j, at = t * rows + unit;
        double* kept = &all[size_t(l.kept() * at)];
        store_element(y_at, l.type, at,
                      float(cell(l, of_x, of_h, h[size_t(unit)], c[size_t(unit)], kept)));
        c[size_t(unit)] = kept[l.kept() - 1];
      }
    }
  }
  if (reserve) Reserve(l, reserve).close(kForwardDone, weights, x_at, all);
}

void compute_data_grad(const RnnLayer& l, const void* y_at, const void* dy_at, const void* weights,
                       void* dx_at, void* reserve) {
  Reserve in(l, reserve);
  in.check(kForwardDone);
  in.check_weights(weights);
  const Weights w(l, weights);
  const int64_t rows = l.B * l.H;
  const Numbers y = l.read(y_at, l.T * rows), dy = l.read(dy_at, l.T * rows);
  Numbers all = in.kept(), dx(size_t(l.T * l.B * l.I), 0.0), dh(size_t(rows), 0.0), dc = dh;
  auto kept = [&](int64_t at) { return &all[size_t(l.kept() * at)]; };
  for (int64_t t = l.T - 1; t >= 0; --t) {
    Numbers before(static_cast<size_t>(rows), 0.0);
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t at = t * rows + i;
      const double h = t ? y[size_t(at - rows)] : 0;
      const double c = t && l.lstm() ? kept(at - rows)[4] : 0;
      before[size_t(i)] =
          cell_grad(l, kept(at), h, c, dh[size_t(i)] + dy[size_t(at)], dc[size_t(i)]);
    }
    for (int64_t b = 0; b < l.B; ++b) {
      for (int64_t j = 0; j < l.H; ++j) {
        const double* g = kept(t * rows + b * l.H + j);
        for (int part = 0; part < l.parts(); ++part) {
          const bool of_x = part < l.gates();
          Numbers& to = of_x ? dx : before;
          const int64_t width = l.width(part), at = of_x ? (t * l.B + b) * l.I : b * l.H;
          const double factor = l.factor(float(g[gradient_of(l, part)]));
          for (int64_t k = 0; k < width; ++k) {
            to[size_t(at + k)] += factor * w.matrix[part][size_t(j * width + k)];
          }
        }
      }
    }
    dh = before;
  }
  l.write(dx_at, dx);
  in.turn(all);
}

void compute_weight_grad(const RnnLayer& l, const void* x_at, const void* y_at, void* gradients,
                         void* reserve) {
  const Reserve in(l, reserve);
  in.check(kDataDone);
  in.check_inputs(x_at);
  const int64_t rows = l.B * l.H;
  const Numbers x = l.read(x_at, l.T * l.B * l.I, true), y = l.read(y_at, l.T * rows, true);
  const Numbers all = in.kept();
  auto* p = static_cast<unsigned char*>(gradients);
  for (int part = 0; part < l.parts(); ++part) {
    void* const matrix_at = p + l.bytes(l.matrix_at(part));
    void* const bias_at = p + l.bytes(l.bias_at(part));
    const bool of_x = part < l.gates();
    const int64_t width = l.width(part);
    Numbers matrix = l.read(matrix_at, l.H * width), bias = l.read(bias_at, l.H);
    for (int64_t t = 0; t < l.T; ++t) {
      for (int64_t b = 0; b < l.B; ++b) {
        for (int64_t j = 0; j < l.H; ++j) {
          const int64_t unit = t * rows + b * l.H + j;
          const double d = all[size_t(l.kept() * unit + gradient_of(l, part))];
          bias[size_t(j)] += d;
          if (!of_x && t == 0) continue;
          const Numbers& by = of_x ? x : y;
          const int64_t at = of_x ? (t * l.B + b) * l.I : ((t - 1) * l.B + b) * l.H;
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
