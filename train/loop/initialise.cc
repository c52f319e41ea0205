// Drawing initial weights.
#include "train/loop/initialise.h"

#include <Eigen/QR>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "core/error.h"
#include "core/philox.h"

namespace pal {
namespace {

uint64_t fnv1a(const std::string& text) {
  uint64_t h = 14695981039346656037ull;
  for (unsigned char c : text) h = (h ^ c) * 1099511628211ull;
  return h;
}

// An endless row of numbers for one slot.
class SlotDraws {
 public:
  SlotDraws(uint64_t seed, const std::string& name) : seed_(seed), name_(fnv1a(name)) {}

  float uniform() {  // [0, 1)
    if (at_ == 4) {
      // The stream marks initialisation: no step of the training draws from it.
      block_ = draw({seed_, uint32_t(name_), uint32_t(name_ >> 32), 0x1417u}, next_++);
      at_ = 0;
    }
    return uniform01(block_.x[at_++]);
  }
  float normal() {  // Box and Muller
    const double u = 1.0 - double(uniform()), v = double(uniform());
    return float(std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v));
  }

 private:
  uint64_t seed_, name_, next_ = 0;
  Philox4 block_{};
  int at_ = 4;
};

// (rows, columns), rows >= columns, with orthonormal columns; the sign of R's diagonal is folded
// in, so that the distribution is uniform over such matrices.
Eigen::MatrixXd orthonormal(int64_t rows, int64_t columns, SlotDraws& draws) {
  Eigen::MatrixXd a(rows, columns);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) a(r, c) = double(draws.normal());
  }
  Eigen::HouseholderQR<Eigen::MatrixXd> qr(a);
  Eigen::MatrixXd q = qr.householderQ() * Eigen::MatrixXd::Identity(rows, columns);
  for (int64_t c = 0; c < columns; ++c) {
    if (qr.matrixQR()(c, c) < 0) q.col(c) = -q.col(c);
  }
  return q;
}

void orthogonal(float gain, const Shape& shape, SlotDraws& draws, float* out) {
  if (shape.rank() != 2)
    throw ProgramError("an orthogonal weight is a matrix, not " + to_string(shape));
  const int64_t rows = shape[0], columns = shape[1];
  auto put = [&](const Eigen::MatrixXd& m, int64_t first) {
    for (int64_t r = 0; r < m.rows(); ++r) {
      for (int64_t c = 0; c < m.cols(); ++c) out[r * columns + first + c] = gain * float(m(r, c));
    }
  };
  if (columns % rows == 0) {
    for (int64_t first = 0; first < columns; first += rows)
      put(orthonormal(rows, rows, draws), first);
  } else if (rows > columns) {
    put(orthonormal(rows, columns, draws), 0);
  } else {
    put(orthonormal(columns, rows, draws).transpose(), 0);
  }
}

}  // namespace

void draw_initial(const Init& init, const Shape& shape, uint64_t seed, const std::string& name,
                  float* out) {
  SlotDraws draws(seed, name);
  const int64_t n = shape.numel();
  switch (init.kind) {
    case Init::Kind::constant:
      for (int64_t i = 0; i < n; ++i) out[i] = init.a;
      break;
    case Init::Kind::uniform:
      for (int64_t i = 0; i < n; ++i) out[i] = init.a * (2 * draws.uniform() - 1);
      break;
    case Init::Kind::normal:
      for (int64_t i = 0; i < n; ++i) out[i] = init.a * draws.normal();
      break;
    case Init::Kind::lstm_bias:
      for (int64_t i = 0; i < n; ++i) out[i] = i / (n / 4) == 1 ? init.a : 0;
      break;
    case Init::Kind::orthogonal: orthogonal(init.a, shape, draws, out); break;
  }
}

void initialise(ProgramSet& programs, uint64_t seed, const ShardedState& sharded) {
  for (const StateTensor& slot : programs.state()) {
    if (sharded.is_piece(slot) && slot.spec.dtype == DType::f32) {
      const TensorSpec& spec = sharded.whole(slot);
      std::vector<float> whole(size_t(spec.numel()));
      draw_initial(slot.init, spec.shape, seed, slot.name, whole.data());
      sharded.take_own(slot, reinterpret_cast<const std::byte*>(whole.data()));
    } else if (slot.spec.dtype == DType::f32) {
      draw_initial(slot.init, slot.spec.shape, seed, slot.name,
                   reinterpret_cast<float*>(slot.data));
    } else if (slot.init.kind == Init::Kind::constant && slot.init.a == 0) {
      std::memset(slot.data, 0, size_t(slot.spec.bytes()));
    } else {
      throw ProgramError("state " + slot.name + " is " + to_string(slot.spec) +
                         "; only f32 state is drawn");
    }
  }
}

}  // namespace pal
