// A small network of convolutions, and programs run on all kinds of numbers, for tests of what is
// fused in such.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "autograd/differentiate.h"
#include "ops/convolution/conv2d.h"
#include "ops/convolution/max_pool.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/casts.h"
#include "tests/memory/bits.h"
#include "tests/support/eval.h"

namespace pal::test {

// Few values, so that windows have ties.
inline std::vector<float> awkward(int64_t n, uint32_t state) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float values[] = {0.0f, -0.0f, 1, 1, 2, -1, -2, kInf, -kInf, NAN, 0.5f, 0x1p-130f};
  std::vector<float> out;
  for (int64_t i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    out.push_back(values[(state >> 16) % std::size(values)]);
  }
  return out;
}

inline void expect_same_bits(const Program& p, const Program& out) {
  std::vector<Evaluator> both;
  for (const Program* each : {&p, &out}) {
    both.emplace_back(*each);
    for (auto& in : p.inputs) {
      both.back().set(in.value, awkward(p.value(in.value).spec.numel(), uint32_t(in.name.size())));
    }
    both.back().run();
  }
  for (auto& o : p.outputs) {
    const TensorSpec& spec = p.value(o.value).spec;
    EXPECT_EQ(first_difference(spec, both[0].bytes(o.value), both[1].bytes(out.output(o.name))), "")
        << o.name;
  }
}

// Convolutions, ReLU and pools; one ReLU's result is read by a convolution as well.
inline Program conv_network(const MaxPoolAttrs& window, DType type) {
  Builder b;
  if (type != DType::f32) b.read_weights_as(type, cast);
  std::vector<Val> w;
  auto conv = [&](Val x, int64_t to) {
    const std::string name = "w" + std::to_string(w.size());
    Val read = b.state(name, {{to, 3, 3, x.shape()[3]}}, Role::weight);
    w.push_back({&b, b.program().find_state(name)->start});
    return relu(conv2d(x, read, conv2d_attrs(1, 1)));
  };
  Val x = max_pool(conv(b.input("x", {{6, 35, 33, 3}}), 17), window).y;
  x = max_pool(conv(x, 19), window).y;
  Val both = conv(x, 8);
  Val pooled = max_pool(both, max_pool_attrs(3, 1, 1)).y;
  Val loss = sum_all(mul(conv(both, 8), pooled));
  b.output("loss", loss);
  const std::vector<Val> d = differentiate(b, loss, w);
  for (size_t i = 0; i < d.size(); ++i) b.output("d" + std::to_string(i), d[i]);
  return b.take();
}

inline int bits_made(const Program& p) {
  return int(std::count_if(p.values.begin(), p.values.end(), [](const Value& value) {
    return value.spec.dtype == DType::bit && value.producer != kNone;
  }));
}

}  // namespace pal::test
