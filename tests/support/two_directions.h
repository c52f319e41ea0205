// A training step of a recurrent layer that is read in both directions, a node or three a time
// step: the two do not depend on each other, nor do their gradients.
#pragma once
#include <string>
#include <vector>

#include "autograd/differentiate.h"
#include "autograd/optimizer.h"
#include "core/builder.h"
#include "core/scalars.h"
#include "memory/price/predict.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/transfers.h"
#include "ops/tensors/views.h"

namespace pal::test {

// The inputs are "scalars" and "x", the outputs "loss" and "y".
inline Program two_directions(int64_t steps = 16, int64_t batch = 4, int64_t width = 16,
                              int layers = 2) {
  Builder b;
  const Val scalars = step_scalars(b.input("scalars", scalars_spec(), Space::host));
  Val x = b.input("x", {{steps, batch, width}});
  std::vector<Val> weights;
  const auto weight = [&](const std::string& name) {
    weights.push_back(b.state(name, {{width, width}}, Role::weight));
    return weights.back();
  };
  for (int layer = 0; layer < layers; ++layer) {
    const std::vector<Val> parts = unbind(x);
    Val both;
    for (const bool forwards : {true, false}) {
      const std::string name = std::to_string(layer) + (forwards ? "/fw" : "/bw");
      Builder::Within scope(b, name);
      const Val w = weight(name + "/w"), u = weight(name + "/u");
      std::vector<Val> out(parts.size());
      Val h;
      for (size_t i = 0; i < parts.size(); ++i) {
        const size_t t = forwards ? i : parts.size() - 1 - i;
        const Val in = matmul(parts[t], w);
        h = tanh(h ? add(in, matmul(h, u)) : in);
        out[t] = h;
      }
      const Val stacked = stack(out);
      both = both ? add(both, stacked) : stacked;
    }
    x = both;
  }
  const Val loss = sum_all(mul(x, x));
  b.output("loss", loss), b.output("y", x);
  const std::vector<Val> gradients = differentiate(b, loss, weights);
  apply_optimizer(b, {.kind = OptimizerSpec::Kind::adam}, weights, gradients, scalars, {});
  return b.take();
}

// A card whose launches cost more than a toy's work.
inline DeviceProfile launching_card() {
  DeviceProfile d;
  d.name = "a card that launches", d.f32 = d.vector = 1e12, d.memory = 1e11, d.units = 400;
  d.tile = 64, d.launch = 1e-6, d.link = 1e10;
  return d;
}

}  // namespace pal::test
