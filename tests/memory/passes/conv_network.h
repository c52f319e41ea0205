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
#include "memory/compile.h"
#include "ops/convolution/conv2d.h"
#include "ops/convolution/max_pool.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/casts.h"
#include "tests/memory/bits.h"
#include "tests/memory/compiled_bits.h"
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

// Its numbers with one kind of NaN: of two NaNs a sum has the sign of either, as the compiler and
// the processor like.
inline std::vector<std::byte> with_one_nan(const TensorSpec& spec,
                                           const std::vector<std::byte>& bytes) {
  std::vector<float> elements = decode(spec, bytes);
  for (float& x : elements) x = std::isnan(x) ? NAN : x;
  return encode(spec, elements);
}

// On values that make(count, seed) gives, by the lengths of the inputs' names. `any_nan`: NaNs need
// not have the same bits.
inline void expect_same_bits(const Program& p, const Program& out, bool any_nan = false,
                             std::vector<float> (*make)(int64_t, uint32_t) = awkward) {
  std::vector<Evaluator> both;
  for (const Program* each : {&p, &out}) {
    both.emplace_back(*each);
    for (auto& in : p.inputs) {
      both.back().set(in.value, make(p.value(in.value).spec.numel(), uint32_t(in.name.size())));
    }
    both.back().run();
  }
  for (auto& o : p.outputs) {
    const TensorSpec& spec = p.value(o.value).spec;
    std::vector<std::byte> before = both[0].bytes(o.value);
    std::vector<std::byte> after = both[1].bytes(out.output(o.name));
    if (any_nan) before = with_one_nan(spec, before), after = with_one_nan(spec, after);
    EXPECT_EQ(first_difference(spec, before, after), "") << o.name;
  }
}

// A step over convolutions with relu behind them, whose weights are read as `type`.
class ConvStep {
 public:
  explicit ConvStep(DType type) {
    if (type != DType::f32) b_.read_weights_as(type, cast);
  }
  Val input(const TensorSpec& spec) { return b_.input("x", spec); }
  Val conv(Val x, int64_t to) {
    const std::string name = "w" + std::to_string(w_.size());
    Val read = b_.state(name, {{to, 3, 3, x.shape()[3]}}, Role::weight);
    w_.push_back({&b_, b_.program().find_state(name)->start});
    return relu(conv2d(x, read, conv2d_attrs(1, 1)));
  }
  // The loss, and the gradients of all weights.
  Program take(Val loss) {
    b_.output("loss", loss);
    const std::vector<Val> d = differentiate(b_, loss, w_);
    for (size_t i = 0; i < d.size(); ++i) b_.output("d" + std::to_string(i), d[i]);
    return b_.take();
  }

 private:
  Builder b_;
  std::vector<Val> w_;
};

// Convolutions, ReLU and pools; one ReLU's result is read by a convolution as well.
inline Program conv_network(const MaxPoolAttrs& window, DType type) {
  ConvStep step(type);
  Val x = max_pool(step.conv(step.input({{6, 35, 33, 3}}), 17), window).y;
  x = max_pool(step.conv(x, 19), window).y;
  Val both = step.conv(x, 8);
  Val pooled = max_pool(both, max_pool_attrs(3, 1, 1)).y;
  return step.take(sum_all(mul(step.conv(both, 8), pooled)));
}

// Calls f(options, where) for every way to plan such a step that epilogues meet: f sets
// fuse_epilogues. `where` names the options.
template <class F> void each_plan_of_epilogues(F f) {
  for (const Recompute method : {Recompute::none, Recompute::sqrt, Recompute::echo}) {
    for (int bits = 0; bits < 8; ++bits) {
      CompileOptions options{.inplace = bool(bits & 1),
                             .recompute = method,
                             .schedule = bits & 2 ? Schedule::lifetime : Schedule::program};
      if (bits & 4) options.encode = kBits;
      f(options, std::string(to_string(method)) + " " + std::to_string(bits));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// f(options, step planned apart, and with epilogues, where) for each: the same bits, and a peak
// that is no higher.
template <class F> void each_pair_of_epilogues(const Program& step, F f) {
  KernelCache cache{Device{}};
  const StateLayout layout(step);
  each_plan_of_epilogues([&](CompileOptions options, const std::string& where) {
    options.fuse_epilogues = false;
    const Compiled apart = compile(step, cache, layout, options);
    options.fuse_epilogues = true;
    const Compiled fused = compile(step, cache, layout, options);
    ASSERT_EQ(difference_of(step, bits_of(apart), bits_of(fused)), "") << where;
    ASSERT_LE(fused.plan.device().lower_bound, apart.plan.device().lower_bound) << where;
    f(options, apart, fused, where);
  });
}

inline int bits_made(const Program& p) {
  return int(std::count_if(p.values.begin(), p.values.end(), [](const Value& value) {
    return value.spec.dtype == DType::bit && value.producer != kNone;
  }));
}

}  // namespace pal::test
