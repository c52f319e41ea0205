// The recording of gradient programs.
#include "tests/ops/generic/record.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "autograd/differentiate.h"
#include "core/gradient.h"

namespace pal::test {
namespace {

// w * dy, of w's type: the cotangent of an output whose weights in the loss are w.
const OpDef seed_op{
    .name = "test_seed",
    .formula = "dy w",
    .infer = [](SpecSpan in, const Attrs&) { return Specs{in[1]}; },
    .cpu = {.run =
                [](const KernelArgs& a) {
                  std::vector<float> w = decode(
                      a.in_spec[1],
                      {static_cast<const std::byte*>(a.in[1]), size_t(a.in_spec[1].bytes())});
                  for (float& x : w) x *= *a.input(0);
                  Bytes out = encode(a.out_spec[0], w);
                  std::copy(out.begin(), out.end(), static_cast<std::byte*>(a.out[0]));
                }},
};

// The loss: sum of y_i w_i over pairs of operands. Its value is not used, only its gradient.
const OpDef weighted_sum_op{
    .name = "test_weighted_sum",
    .formula = "sum y w",
    .infer = [](SpecSpan, const Attrs&) { return Specs{{Shape{1}}}; },
    .gradient =
        [](GradientArgs& g) {
          for (size_t k = 0; k < g.node.in.size(); k += 2) {
            if (g.wants(int(k))) {
              g.give(int(k), g.builder.emit1(seed_op, {g.dy(), g.in(int(k) + 1)}));
            }
          }
        },
    .cpu = {.run = [](const KernelArgs& a) { *a.output(0) = 0; }},
};

}  // namespace

std::span<const OpDef* const> loss_ops() {
  static const OpDef* const ops[] = {&seed_op, &weighted_sum_op};
  return ops;
}

bool is_float(const TensorSpec& spec) {
  return spec.dtype == DType::f32 || spec.dtype == DType::bf16 || spec.dtype == DType::f16;
}

Recorded record(const Case& c, const Request& r) {
  Recorded out;
  Builder builder;
  std::vector<Val> in, wrt, start, terms;
  std::vector<size_t> index;
  for (size_t k = 0; k < c.in.size(); ++k) {
    const std::string name = std::to_string(k);
    if (int(k) == r.tied) {
      in.push_back(in[size_t(r.tied_to)]);
    } else {
      in.push_back(c.in[k] == kNone ? Val{}
                                    : builder.input("x" + name, c.example.operands[k].spec));
    }
    out.in.push_back(in.back().id);
    if (!r.wrt[k] || int(k) == r.tied) continue;
    index.push_back(k);
    wrt.push_back(in.back());
    if (r.start) start.push_back(builder.input("start" + name, c.example.operands[k].spec));
  }
  for (int reader = 0; reader < r.readers; ++reader) {
    std::vector<Val> y = builder.emit(*c.op, in, c.example.attrs);
    for (size_t i = 0; i < y.size(); ++i) {
      if (!r.through[i] || c.out[i] == kNone || !is_float(y[i].spec())) continue;
      Val w = builder.input("w" + std::to_string(reader) + "_" + std::to_string(i), y[i].spec());
      out.weights.push_back({w.id, i});
      terms.push_back(y[i]), terms.push_back(w);
    }
  }
  Val loss = builder.emit1(weighted_sum_op, terms);
  auto gradient = differentiate(builder, loss, wrt, start);
  out.gradient.assign(c.in.size(), kNone), out.start = out.gradient;
  for (size_t i = 0; i < index.size(); ++i) {
    out.gradient[index[i]] = gradient[i].id;
    if (r.start) out.start[index[i]] = start[i].id;
  }
  out.program = builder.take();
  return out;
}

double rms(const Floats& x) {
  double sum = 0;
  for (float v : x) sum += double(v) * v;
  return x.empty() ? 0 : std::sqrt(sum / double(x.size()));
}

Floats draw_floats(int64_t n, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::uniform_real_distribution<float> real(-1, 1);
  Floats out(static_cast<size_t>(n));
  for (float& x : out) x = real(rng);
  return out;
}

Floats weights_of(const Case& c, size_t output, uint64_t reader) {
  const TensorSpec& spec = c.program.value(c.out[output]).spec;
  return decode(spec, encode(spec, draw_floats(spec.numel(), c.seed * 31 + output + 997 * reader)));
}

Request everything(const Case& c, const std::vector<int>& statistics) {
  Request r;
  for (size_t i = 0; i < c.out.size(); ++i) {
    const bool left_out = std::count(statistics.begin(), statistics.end(), int(i)) > 0;
    r.through.push_back(c.out[i] != kNone && !left_out && is_float(c.program.value(c.out[i]).spec));
  }
  for (size_t k = 0; k < c.in.size(); ++k) {
    r.wrt.push_back(c.in[k] != kNone && c.example.operands[k].differentiable &&
                    is_float(c.example.operands[k].spec));
  }
  return r;
}

Program gradient_program(const Case& c, const std::vector<int>& statistics) {
  return record(c, everything(c, statistics)).program;
}

}  // namespace pal::test
