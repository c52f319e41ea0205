// The gradient check: the gradient that `differentiate` builds against finite differences, with
// random cotangents (a sum as the loss hides errors: softmax has no gradient through it).
//
// Central differences with Richardson's extrapolation, (4 D(h/2) - D(h)) / 3, on differences of
// outputs taken in double, so what an element does not reach cancels exactly. Smaller steps are
// tried where a large one fails.
#include <algorithm>
#include <cmath>
#include <random>

#include "core/error.h"
#include "tests/ops/generic/record.h"

namespace pal::test {
namespace {

// Gradients by operand (empty where there is none), from the program run with all guards.
std::vector<Floats> run_gradient(const Case& c, const Request& r, Problems& problems,
                                 uint64_t first_reader = 0) {
  Recorded recorded = record(c, r);
  Evaluator eval(recorded.program, {.threads = 2});
  for (size_t k = 0; k < c.in.size(); ++k) {
    if (c.in[k] != kNone && int(k) != r.tied) eval.set_bytes(recorded.in[k], c.values[k]);
    if (recorded.start[k] != kNone) {
      eval.set(recorded.start[k], draw_floats(c.example.operands[k].spec.numel(), k + 5));
    }
  }
  const size_t per_reader = recorded.weights.size() / size_t(r.readers);
  for (size_t i = 0; i < recorded.weights.size(); ++i) {
    auto [value, output] = recorded.weights[i];
    eval.set(value, weights_of(c, output, first_reader + i / per_reader));
  }
  for (auto& p : eval.check_run()) problems.push_back(p);
  std::vector<Floats> out(c.in.size());
  for (size_t k = 0; k < c.in.size(); ++k) {
    const ValueId g = recorded.gradient[k];
    if (g == kNone) continue;
    const TensorSpec &spec = recorded.program.value(g).spec, &of = c.example.operands[k].spec;
    if (!(spec.shape == of.shape) || spec.dtype != of.dtype) {
      problems.push_back("the gradient of operand " + std::to_string(k) + " is " + to_string(spec) +
                         ", the operand " + to_string(of));
      continue;
    }
    out[k] = eval.floats(g);
  }
  return out;
}

// The forward program, ready to be run with one operand changed a little.
class Differences {
 public:
  Differences(const Case& c, const Request& r) : case_(c), request_(r), eval_(c.program) {
    for (size_t k = 0; k < c.in.size(); ++k) {
      if (c.in[k] != kNone) eval_.set_bytes(c.in[k], c.values[size_t(source(k))]);
    }
    weights_.resize(c.out.size());
    for (size_t i = 0; i < c.out.size(); ++i) {
      if (r.through[i] && c.out[i] != kNone && is_float(spec(i))) weights_[i] = weights_of(c, i, 0);
    }
  }

  struct Slope {
    double value, noise;
  };
  // d loss / d t at x_k + t direction, extrapolated from steps h and h/2; `noise` is what rounding
  // of the outputs may have made of it.
  Slope slope(size_t k, const std::vector<std::pair<size_t, float>>& direction, double h) {
    Slope whole = between(k, direction, -h, h), half = between(k, direction, -h / 2, h / 2);
    return {(4 * half.value - whole.value) / 3, (4 * half.noise + whole.noise) / 3};
  }

  // (L(x_k + b direction) - L(x_k + a direction)) / (b - a)
  Slope between(size_t k, const std::vector<std::pair<size_t, float>>& direction, double a,
                double b) {
    std::vector<Floats> at[2];
    double step = 0;  // the step that was taken, after rounding
    for (int side = 0; side < 2; ++side) {
      move(k, direction, side ? a : b, step);
      eval_.run_quietly();
      for (size_t i = 0; i < weights_.size(); ++i) {
        at[side].push_back(weights_[i].empty() ? Floats{} : eval_.floats(case_.out[i]));
      }
    }
    double unused = 0;
    move(k, direction, 0, unused);
    step /= double(direction.size());
    Slope s{0, 0};
    double hidden = 0;  // where nothing moved, one output may have moved by less than it can show
    for (size_t i = 0; i < weights_.size(); ++i) {
      const double scale = rms(at[0][i]);
      for (size_t j = 0; j < weights_[i].size(); ++j) {
        const double w = weights_[i][j], up = at[0][i][j], down = at[1][i][j];
        const double rounding = 0x1p-23 * w * std::max({std::fabs(up), std::fabs(down), scale});
        hidden = std::max(hidden, std::fabs(rounding));
        if (up == down) continue;
        s.value += w * (up - down);
        s.noise += rounding * rounding;
      }
    }
    return {s.value / step, (s.noise > 0 ? std::sqrt(s.noise) : hidden) / step};
  }

 private:
  const TensorSpec& spec(size_t i) const { return case_.program.value(case_.out[i]).spec; }
  int source(size_t k) const { return int(k) == request_.tied ? request_.tied_to : int(k); }

  // Puts x + h direction into the operand, and into the operand tied to it. Adds to `step` what the
  // elements moved by, per unit of direction.
  void move(size_t k, const std::vector<std::pair<size_t, float>>& direction, double h,
            double& step) {
    for (size_t operand = 0; operand < case_.in.size(); ++operand) {
      if (case_.in[operand] == kNone || source(operand) != int(k)) continue;
      float* x = eval_.as<float>(case_.in[operand]);
      auto* original = reinterpret_cast<const float*>(case_.values[k].data());
      for (auto [i, d] : direction) {
        x[i] = float(original[i] + h * d);
        if (operand == k) step += std::fabs(double(x[i]) - original[i]) / std::fabs(d);
      }
    }
  }

  const Case& case_;
  const Request& request_;
  Evaluator eval_;
  std::vector<Floats> weights_;
};

// Elements whose gradients are compared: all of a small operand; of a large one the first, the
// last, those where chunks of kernels meet, and some at random.
std::vector<size_t> chosen(size_t n, size_t limit, std::mt19937_64& rng) {
  std::vector<size_t> out;
  if (n <= limit) {
    for (size_t i = 0; i < n; ++i) out.push_back(i);
    return out;
  }
  for (size_t i : {size_t(0), size_t(16383), size_t(16384), n - 1}) {
    if (i < n) out.push_back(i);
  }
  while (out.size() < limit) out.push_back(rng() % n);
  return out;
}

void against_differences(const Case& c, const Request& r, const std::vector<Floats>& gradient,
                         const std::string& what, size_t limit, Problems& problems) {
  Differences differences(c, r);
  std::mt19937_64 rng(c.seed);
  size_t total = 1;
  for (auto& bytes : c.values) total += bytes.size() / 4;
  limit = std::clamp(size_t(3000000) / total, size_t(8), limit);
  for (size_t k = 0; k < c.in.size(); ++k) {
    if (!r.wrt[k] || int(k) == r.tied || c.example.operands[k].spec.dtype != DType::f32) continue;
    const size_t n = size_t(c.example.operands[k].spec.numel());
    const Floats g = gradient[k].empty() ? Floats(n, 0.0f) : gradient[k];
    const double range = double(c.example.operands[k].hi) - c.example.operands[k].lo;
    const double scale = rms(g);
    auto agrees = [&](const std::vector<std::pair<size_t, float>>& direction, double expected,
                      double tolerance, std::initializer_list<double> steps) {
      Differences::Slope s{};
      for (double h : steps) {
        s = differences.slope(k, direction, h * range);
        if (std::fabs(s.value - expected) <= tolerance + 4 * s.noise) return true;
      }
      // At a kink the gradient lies between the slopes on its two sides.
      const double h = *(steps.end() - 1) * range;
      const double left = differences.between(k, direction, -h, 0).value;
      const double right = differences.between(k, direction, 0, h).value;
      if (std::min(left, right) - tolerance <= expected &&
          expected <= std::max(left, right) + tolerance) {
        return true;
      }
      problems.push_back(what + ", operand " + std::to_string(k) +
                         (direction.size() > 1 ? " along a direction"
                                               : " element " + std::to_string(direction[0].first)) +
                         ": gradient " + print_float(expected) + ", differences say " +
                         print_float(s.value));
      return false;
    };
    int wrong = 0;
    for (size_t i : chosen(n, limit, rng)) {
      wrong += !agrees({{i, 1.0f}}, g[i], 2e-3 * std::fabs(g[i]) + 1e-3 * scale,
                       {0x1p-7, 0x1p-10, 0x1p-13});
      if (wrong == 3) break;
    }
    if (n <= limit || wrong) continue;
    std::vector<std::pair<size_t, float>> direction;
    double expected = 0;
    for (size_t i = 0; i < n; ++i) {
      direction.push_back({i, rng() & 1 ? 1.0f : -1.0f});
      expected += double(g[i]) * direction.back().second;
    }
    agrees(direction, expected, 0.05 * scale * std::sqrt(double(n)), {0x1p-10, 0x1p-13});
  }
}

// |a - b| within rounding of the gradient's own size.
void nearly_equal(const std::vector<Floats>& a, const std::vector<Floats>& b, double tolerance,
                  const std::string& what, Problems& problems) {
  for (size_t k = 0; k < a.size(); ++k) {
    if (a[k].size() != b[k].size()) {
      problems.push_back(what + ": operand " + std::to_string(k) + " has a gradient only in one");
      continue;
    }
    const double scale = rms(a[k]);
    for (size_t i = 0; i < a[k].size(); ++i) {
      const double x = a[k][i], y = b[k][i];
      if (std::fabs(x - y) <= tolerance * (std::fabs(x) + scale)) continue;
      problems.push_back(what + ", operand " + std::to_string(k) + " element " + std::to_string(i) +
                         ": " + print_float(x) + " against " + print_float(y));
      break;
    }
  }
}

size_t count(const std::vector<char>& flags) {
  return size_t(std::count(flags.begin(), flags.end(), 1));
}

}  // namespace

Problems check_gradient(const Case& c, const std::vector<int>& statistics) {
  const Request all = everything(c, statistics);
  if (!c.op->gradient || !count(all.through) || !count(all.wrt)) return {};
  Problems problems = check_listed(record(c, all).program, loss_ops());
  const std::vector<Floats> gradient = run_gradient(c, all, problems);

  // Storage of 16 bits is compared with f32, which finite differences can check.
  Case wide;
  const bool narrow = widen(c, wide);
  if (narrow) {
    Problems ignored;
    auto exact = run_gradient(wide, all, ignored);
    nearly_equal(exact, gradient, 0.06, "16-bit storage against f32", problems);
  }
  const bool half_output = std::any_of(c.out.begin(), c.out.end(), [&](ValueId v) {
    return v != kNone && bits(c.program.value(v).spec.dtype) == 16;
  });
  if (!narrow && !half_output) {
    against_differences(c, all, gradient, "gradient", 40, problems);
  }

  // Through one output at a time: the others' cotangents are null.
  if (count(all.through) > 1) {
    for (size_t i = 0; i < all.through.size(); ++i) {
      if (!all.through[i]) continue;
      Request one = all;
      one.through.assign(all.through.size(), 0), one.through[i] = 1;
      auto part = run_gradient(c, one, problems);
      if (narrow || half_output) continue;
      against_differences(c, one, part, "gradient through output " + std::to_string(i) + " alone",
                          10, problems);
    }
  }
  // One operand at a time wanted.
  for (size_t k = 0; count(all.wrt) > 1 && k < all.wrt.size(); ++k) {
    if (!all.wrt[k]) continue;
    Request one = all;
    one.wrt.assign(all.wrt.size(), 0), one.wrt[k] = 1;
    auto part = run_gradient(c, one, problems);
    auto expected = gradient;
    for (size_t j = 0; j < expected.size(); ++j) {
      if (j != k) expected[j].clear();
    }
    nearly_equal(expected, part, 1e-5, "gradient wanted of one operand alone", problems);
  }
  // Two readers: the sum of both, through the operator's own accumulation where it has one.
  const double rounding = narrow || half_output ? 0.03 : 1e-5;
  Request twice = all, started = all;
  twice.readers = 2, started.start = true;
  auto second = run_gradient(c, all, problems, 1);
  auto sum = gradient, with_start = gradient;
  for (size_t k = 0; k < sum.size(); ++k) {
    if (gradient[k].empty()) continue;
    const TensorSpec& spec = c.example.operands[k].spec;
    const Floats start = decode(spec, encode(spec, draw_floats(spec.numel(), k + 5)));
    for (size_t i = 0; i < sum[k].size(); ++i) sum[k][i] += second[k][i];
    for (size_t i = 0; i < sum[k].size(); ++i) with_start[k][i] += start[i];
  }
  nearly_equal(sum, run_gradient(c, twice, problems), rounding, "gradient summed over two readers",
               problems);
  nearly_equal(with_start, run_gradient(c, started, problems), rounding,
               "gradient added to a start", problems);

  // One value as two operands.
  for (size_t a = 0; a < all.wrt.size(); ++a) {
    for (size_t b = a + 1; b < all.wrt.size(); ++b) {
      if (!all.wrt[a] || !all.wrt[b] || narrow || half_output) continue;
      const ExampleOperand &x = c.example.operands[a], &y = c.example.operands[b];
      if (!(x.spec == y.spec) || x.lo != y.lo || x.hi != y.hi) continue;
      Request tied = all;
      tied.tied_to = int(a), tied.tied = int(b);
      against_differences(
          c, tied, run_gradient(c, tied, problems),
          "gradient with operand " + std::to_string(b) + " the same value as " + std::to_string(a),
          8, problems);
    }
  }
  return problems;
}

}  // namespace pal::test
