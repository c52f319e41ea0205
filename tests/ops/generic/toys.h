// Small operators for the proofs that the generic checks can fail: sound ones, to break in one way.
#pragma once
#include "core/error.h"
#include "core/gradient.h"
#include "core/parallel.h"
#include "tests/ops/generic/checks.h"

namespace pal::test {

inline int64_t count(const KernelArgs& a) { return a.in_spec[0].numel(); }

// y = x², with everything an elementwise operator has.
inline OpDef sound() {
  return {
      .name = "toy",
      .formula = "x^2",
      .infer =
          [](SpecSpan in, const Attrs&) {
            require(in.size() == 1, "toy", "takes one operand");
            require(in[0].dtype == DType::f32, "toy", "f32 only, got " + to_string(in[0]));
            return Specs{in[0]};
          },
      .gradient =
          [](GradientArgs& g) {
            if (g.wants(0)) {
              static const OpDef toy_grad{
                  .name = "toy_grad",
                  .formula = "2 x dy",
                  .infer = [](SpecSpan in, const Attrs&) { return Specs{in[0]}; },
                  .cpu = {.run = [](const KernelArgs& a) {
                    for (int64_t i = 0; i < count(a); ++i) {
                      a.output(0)[i] = 2 * a.input(0)[i] * a.input(1)[i];
                    }
                  }}};
              g.give(0, g.builder.emit1(toy_grad, {g.in(0), g.dy()}));
            }
          },
      .shares = {{0, 0}},
      .cpu = {.run =
                  [](const KernelArgs& a) {
                    parallel_chunks(a.queue, count(a), 16, [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i) {
                        a.output(0)[i] = a.input(0)[i] * a.input(0)[i];
                      }
                    });
                  }},
      .examples = {{.operands = {{.spec = {{5, 9}}}}}},
  };
}

inline OpDef with_kernel(void (*run)(const KernelArgs&)) {
  OpDef op = sound();
  op.cpu.run = run;
  return op;
}

inline Case case_of(const OpDef& op) { return make_case(op, op.examples[0], 1); }

// x - g/2, unless the gate (operand 2, which may be absent) is shut.
inline OpDef update() {
  return {.name = "toy_update",
          .formula = "x - g/2",
          .infer = [](SpecSpan in, const Attrs&) { return Specs{in[0]}; },
          .optional_from = 2,
          .shares = {{0, 0}},
          .writes_state = true,
          .cpu = {.run =
                      [](const KernelArgs& a) {
                        const bool shut = a.input(2) && a.input(2)[1] == 0;
                        for (int64_t i = 0; i < count(a); ++i) {
                          const float x = a.input(0)[i];
                          a.output(0)[i] = shut ? x : x - 0.5f * a.input(1)[i];
                        }
                      }},
          .examples = {{.operands = {{.spec = {{7}}}, {.spec = {{7}}}, {.spec = {{4}}, .lo = 1}}}}};
}

inline bool mentions(const Problems& problems, const std::string& text) {
  for (auto& p : problems) {
    if (p.find(text) != std::string::npos) return true;
  }
  return false;
}

}  // namespace pal::test
