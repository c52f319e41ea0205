// Random networks that are deep rather than wide, so that feature maps that wait for their
// gradients are what a step's bytes go to.
#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "autograd/differentiate.h"
#include "autograd/optimizer.h"
#include "core/builder.h"
#include "core/scalars.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/elementwise/dropout.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"

namespace pal::test {

struct ChainOptions {
  int layers = 10;
  int64_t batch = 64, width = 16;
  bool predicates = true;  // relu, dropout: gradients that bits will do for
};

// Products, activations, sums with a value three layers before; a loss, its gradients, gradient
// descent. Deterministic in the seed. Inputs "scalars", "x"; output "loss".
inline Program chain_network(uint64_t seed, const ChainOptions& o = {}) {
  std::mt19937_64 random(seed);
  Builder b;
  const Val scalars = b.input("scalars", scalars_spec());
  std::vector<Val> weights, values{b.input("x", {{o.batch, o.width}})};
  for (int i = 0; i < o.layers; ++i) {
    const Val x = values.back();
    const Val before = values[values.size() - std::min<size_t>(values.size(), 3)];
    switch (random() % (o.predicates ? 8 : 6)) {
      case 0: values.push_back(tanh(x)); break;
      case 1: values.push_back(sigmoid(x)); break;
      case 2: values.push_back(i > 1 ? add(x, before) : scale(x, 0.5f)); break;
      case 3: values.push_back(i > 1 ? mul(x, before) : tanh(x)); break;
      case 6: values.push_back(relu(x)); break;
      case 7: values.push_back(dropout(x, scalars, 0.25f)); break;
      default:
        weights.push_back(b.state("w" + std::to_string(i), {{o.width, o.width}}, Role::weight));
        values.push_back(matmul(x, weights.back()));
    }
  }
  if (weights.empty()) {
    weights.push_back(b.state("w", {{o.width, o.width}}, Role::weight));
    values.push_back(matmul(values.back(), weights.back()));
  }
  const Val loss = sum_all(tanh(values.back()));
  b.output("loss", loss);
  apply_optimizer(b, {.kind = OptimizerSpec::Kind::sgd}, weights, differentiate(b, loss, weights),
                  scalars, {});
  return b.take();
}

}  // namespace pal::test
