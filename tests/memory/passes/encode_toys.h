// Small steps with maps that can be encoded, and what to count in them.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "autograd/differentiate.h"
#include "ops/convolution/conv2d.h"
#include "ops/convolution/max_pool.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/norms/batch_norm.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"

namespace pal::test {

inline constexpr double kHeavy = 12;  // below the small products of these programs

inline constexpr int64_t kRows = 64, kWide = 256;  // products of this size are compute-heavy

// Ends the forward phase with something large, as a vocabulary's scores would be, so that the peak
// lies where all stashes are alive; then the gradients.
inline Program finished(Builder& b, Val loss, const std::vector<Val>& wrt) {
  loss = add(loss, sum_all(scale(b.input("scores", {{32, kRows, kWide}}), 1)));
  b.output("loss", loss);
  const std::vector<Val> d = differentiate(b, loss, wrt);
  for (size_t i = 0; i < d.size(); ++i) b.output("d" + std::to_string(i), d[i]);
  return b.take();
}

// x, weights w0, w1, .. (kWide, kWide); f makes a (kRows, kWide) of them; the loss weighs it.
inline Program step_of(int weights, const std::function<Val(Val x, const std::vector<Val>& w)>& f) {
  Builder b;
  Val x = b.input("x", {{kRows, kWide}}), c = b.input("c", {{kRows, kWide}});
  std::vector<Val> w;
  for (int i = 0; i < weights; ++i) {
    w.push_back(b.state("w" + std::to_string(i), {{kWide, kWide}}, Role::weight));
  }
  return finished(b, sum_all(mul(f(x, w), c)), w);
}

inline int times(const std::string& text, const std::string& word) {
  int count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

// Two blocks of convolution, batch norm and ReLU, then pooling.
inline Program convolutional(bool norm) {
  Builder b;
  Val y = b.input("x", {{4, 16, 16, 32}});
  std::vector<Val> w;
  auto weight = [&](const std::string& name, Shape shape) {
    w.push_back(b.state(name, {shape}, Role::weight));
    return w.back();
  };
  for (const std::string n : {"0", "1"}) {
    y = conv2d(y, weight("w" + n, {32, 3, 3, 32}), conv2d_attrs(1, 1));
    if (norm) y = batch_norm(y, weight("gamma" + n, {32}), weight("beta" + n, {32})).y;
    y = relu(y);
  }
  y = max_pool(y, max_pool_attrs(2, 2)).y;
  return finished(b, sum_all(mul(y, b.input("c", {{4, 8, 8, 32}}))), w);
}

// Two products with an activation between: its output is read by the second one's weight gradient,
// and by its own gradient.
inline Program two_products(Val (*activation)(Val), float factor = 1) {
  return step_of(
      2, [&](Val x, auto& w) { return matmul(activation(scale(matmul(x, w[0]), factor)), w[1]); });
}

}  // namespace pal::test
