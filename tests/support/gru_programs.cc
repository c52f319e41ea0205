// Recording, running and comparing GRU layers.
#include "tests/support/gru_programs.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "autograd/differentiate.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/products/matmul.h"
#include "ops/recurrent/gru.h"
#include "ops/recurrent/gru_layer.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/casts.h"
#include "ops/tensors/fill.h"
#include "ops/tensors/views.h"

namespace pal::test {
namespace {

// As models/deepspeech2.cc has it.
Val unrolled(const GruCase& c, const GruLayerOperands& in) {
  const std::vector<Val> inputs = unbind(linear(in.x, in.wx, in.bias));
  Val h = fill(*in.x.builder, {{c.B, c.H}, c.type}, 0);
  std::vector<Val> out(static_cast<size_t>(c.T));
  for (int64_t i = 0; i < c.T; ++i) {
    const int64_t t = c.backwards ? c.T - 1 - i : i;
    h = gru_cell(inputs[size_t(t)], linear(h, in.wh, in.bias_h), h, in.lengths, t);
    out[size_t(t)] = h;
  }
  return stack(out);
}

}  // namespace

std::string describe(const GruCase& c) {
  return to_string(TensorSpec{{c.T, c.B, c.I}, c.type}) + " to " + std::to_string(c.H) +
         (c.backwards ? " backwards" : "") + (c.lengths.empty() ? "" : " with lengths");
}

Program gru_program(const GruCase& c, bool whole) {
  Builder b;
  const TensorSpec bias{{3 * c.H}};
  const GruLayerOperands in{
      .x = b.input("x", {{c.T, c.B, c.I}, c.type}),
      .wx = b.input("wx", {{c.I, 3 * c.H}, c.type}),
      .wh = b.input("wh", {{c.H, 3 * c.H}, c.type}),
      .bias = b.input("bias", bias),
      .bias_h = b.input("bias_h", bias),
      .lengths = c.lengths.empty() ? Val{} : b.input("lengths", {{c.B}, DType::i32})};
  const Val y = whole ? gru_layer(in, c.backwards) : unrolled(c, in);
  const Val loss = sum_all(mul(cast(y, DType::f32), b.input("c", {{c.T, c.B, c.H}})));
  const auto g = differentiate(b, loss, {in.x, in.wx, in.wh, in.bias, in.bias_h});
  b.output(kGruOutputs[0], y);
  for (size_t i = 0; i < g.size(); ++i) b.output(kGruOutputs[1 + i], g[i]);
  return b.take();
}

std::vector<std::vector<float>> run_gru(const GruCase& c, Program program, KernelCache* cache) {
  Evaluator eval(std::move(program), {.cache = cache});
  unsigned seed = 1;
  for (const char* name : {"x", "wx", "wh", "bias", "bias_h", "c"}) {
    std::mt19937 rng(seed++);
    const ValueId id = eval.find(name);
    std::vector<float> x(size_t(eval.program().value(id).spec.numel()));
    for (float& v : x) v = std::uniform_real_distribution<float>(-0.7f, 0.7f)(rng);
    eval.set(id, x);
  }
  if (!c.lengths.empty()) eval.set("lengths", c.lengths);
  eval.run();
  std::vector<std::vector<float>> out;
  for (const char* name : kGruOutputs) out.push_back(eval.floats(name));
  return out;
}

double gru_difference(const std::vector<std::vector<float>>& a,
                      const std::vector<std::vector<float>>& b, size_t i) {
  double most = 0, scale = 1e-30;
  for (size_t e = 0; e < a[i].size(); ++e) {
    const double difference = std::fabs(double(a[i][e]) - double(b[i][e]));
    most = difference <= most ? most : difference;  // a NaN is the most
    scale = std::max(scale, std::fabs(double(a[i][e])));
  }
  return most / scale;
}

}  // namespace pal::test
