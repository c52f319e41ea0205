// Recording, running and comparing recurrent layers.
#include "tests/support/recurrent_programs.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "autograd/differentiate.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/products/matmul.h"
#include "ops/recurrent/gru.h"
#include "ops/recurrent/lstm.h"
#include "ops/recurrent/recurrent_layer.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/casts.h"
#include "ops/tensors/fill.h"
#include "ops/tensors/views.h"

namespace pal::test {
namespace {

// Weights of either cell; an LSTM has no bias_h.
struct Layer {
  Val x, wx, wh, bias, bias_h, lengths;
};

LstmState next(const LayerCase& c, const Layer& in, Val input, const LstmState& before, int64_t t) {
  if (c.cell == RecurrentCell::gru) {
    return {gru_cell(input, linear(before.h, in.wh, in.bias_h), before.h, in.lengths, t), {}};
  }
  const Val gates = matmul(before.h, in.wh, false, false, input);
  return in.lengths ? lstm_cell(gates, before, in.lengths, t) : lstm_cell(gates, before.c);
}

// As models/deepspeech2.cc has it.
Val unrolled(const LayerCase& c, const Layer& in) {
  const std::vector<Val> inputs = unbind(linear(in.x, in.wx, in.bias));
  const auto zero = [&] { return fill(*in.x.builder, {{c.B, c.H}, c.type}, 0); };
  LstmState state{zero(), c.cell == RecurrentCell::lstm ? zero() : Val{}};
  std::vector<Val> out(static_cast<size_t>(c.T));
  for (int64_t i = 0; i < c.T; ++i) {
    const int64_t t = c.backwards ? c.T - 1 - i : i;
    state = next(c, in, inputs[size_t(t)], state, t);
    out[size_t(t)] = state.h;
  }
  return stack(out);
}

Val as_one(const LayerCase& c, const Layer& in) {
  if (c.cell == RecurrentCell::lstm) {
    return lstm_layer({in.x, in.wx, in.wh, in.bias, in.lengths}, c.backwards);
  }
  return gru_layer({in.x, in.wx, in.wh, in.bias, in.bias_h, in.lengths}, c.backwards);
}

}  // namespace

std::string describe(const LayerCase& c) {
  return (c.cell == RecurrentCell::lstm ? "lstm " : "gru ") +
         to_string(TensorSpec{{c.T, c.B, c.I}, c.type}) + " to " + std::to_string(c.H) +
         (c.backwards ? " backwards" : "") + (c.lengths.empty() ? "" : " with lengths");
}

Program layer_program(const LayerCase& c, bool whole) {
  Builder b;
  const bool gru = c.cell == RecurrentCell::gru;
  const int64_t width = (gru ? 3 : 4) * c.H;
  const Layer in{.x = b.input("x", {{c.T, c.B, c.I}, c.type}),
                 .wx = b.input("wx", {{c.I, width}, c.type}),
                 .wh = b.input("wh", {{c.H, width}, c.type}),
                 .bias = b.input("bias", {{width}}),
                 .bias_h = gru ? b.input("bias_h", {{width}}) : Val{},
                 .lengths = c.lengths.empty() ? Val{} : b.input("lengths", {{c.B}, DType::i32})};
  const Val y = whole ? as_one(c, in) : unrolled(c, in);
  const Val loss = sum_all(mul(cast(y, DType::f32), b.input("c", {{c.T, c.B, c.H}})));
  std::vector<Val> of{in.x, in.wx, in.wh, in.bias};
  if (gru) of.push_back(in.bias_h);
  const auto g = differentiate(b, loss, of);
  b.output(kLayerOutputs[0], y);
  for (size_t i = 0; i < g.size(); ++i) b.output(kLayerOutputs[1 + i], g[i]);
  return b.take();
}

std::vector<std::vector<float>> run_layer(const LayerCase& c, Program program, KernelCache* cache) {
  Evaluator eval(std::move(program), {.cache = cache});
  const bool gru = c.cell == RecurrentCell::gru;
  unsigned seed = 1;
  for (const char* name : {"x", "wx", "wh", "bias", "bias_h", "c"}) {
    std::mt19937 rng(seed++);
    if (!gru && name == std::string("bias_h")) continue;
    const ValueId id = eval.find(name);
    std::vector<float> x(size_t(eval.program().value(id).spec.numel()));
    for (float& v : x) v = std::uniform_real_distribution<float>(-0.7f, 0.7f)(rng);
    eval.set(id, x);
  }
  if (!c.lengths.empty()) eval.set("lengths", c.lengths);
  eval.run();
  std::vector<std::vector<float>> out;
  for (const char* name : kLayerOutputs) {
    if (gru || name != std::string("dbias_h")) out.push_back(eval.floats(name));
  }
  return out;
}

double layer_difference(const std::vector<std::vector<float>>& a,
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
