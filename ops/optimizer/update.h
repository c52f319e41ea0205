// What the optimizers' update operators share: how a gradient is scaled and clipped before its use,
// what a closed gate does, and the same operator over several nodes' operands.
#pragma once
#include <limits>

#include "core/error.h"
#include "core/op.h"
#include "core/scalars.h"
#include "ops/kernels/gate.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/tiles.h"

namespace pal {

// The gradient as the formulas take it: clamp(scale g, -clip, clip).
struct GradientScale {
  float scale = 1, clip = std::numeric_limits<float>::infinity();
  PAL_HD float operator()(float g) const {
    const float x = scale * g;
    return x > clip ? clip : x < -clip ? -clip : x;
  }
};

// What an update reads of the step: `gate` may be null, the loss scale is then undone here.
struct UpdateStep {
  GradientScale gradient;
  float learning_rate;
  int64_t count;  // this update's number, from 1
  bool apply;
};
inline UpdateStep update_step(const void* scalars, const float* gate, float lr_factor,
                              float clip_value) {
  const StepScalars& s = as_scalars(scalars);
  UpdateStep step{.learning_rate = s.learning_rate * lr_factor,
                  .count = int64_t(s.step) + 1,
                  .apply = !gate || gate[1] != 0};
  step.gradient.scale = gate ? gate[0] : 1 / s.loss_scale;
  if (clip_value > 0) step.gradient.clip = clip_value;
  return step;
}

// w f32, g like w of any float type, `states` more f32 like w, scalars, gate (or absent).
inline void check_update_operands(SpecSpan in, size_t states) {
  require(in.size() == 4 + states, "takes w, g, its states, scalars, gate");
  require(in[0].dtype == DType::f32 && is_float(in[1].dtype) && in[1].shape == in[0].shape,
          to_string(in[0]) + ", " + to_string(in[1]) + ": want a weight f32 and its gradient");
  for (size_t k = 2; k < 2 + states; ++k) {
    require(in[k] == in[0], to_string(in[0]) + ", " + to_string(in[k]) +
                                ": the optimizer's state is not like the weight");
  }
  require(in[2 + states] == scalars_spec(),
          to_string(in[2 + states]) + ": want the step's scalars, " + to_string(scalars_spec()));
  require(!present(in[3 + states]) || in[3 + states] == gate_spec(),
          to_string(in[3 + states]) + ": want a gate, " + to_string(gate_spec()));
}

// Calls f(tile of g, first element, elements), in parallel; the operands may lie anywhere.
template <class F> void for_gradient_tiles(const KernelArgs& a, F f) {
  const DType type = a.in_spec[1].dtype;
  parallel_chunks(a.queue, a.in_spec[0].numel(), kElementGrain, [&](int64_t begin, int64_t end) {
    alignas(64) float buffer[kTile];
    for (int64_t i = begin; i < end; i += kTile) {
      const int64_t n = end - i < kTile ? end - i : kTile;
      f(load_tile(a.in[1], type, i, n, buffer), i, n);
    }
  });
}

// Every output as its state was, bit for bit.
inline void keep_states(const KernelArgs& a, const OpDef& op) {
  for (Share s : op.shares) {
    if (void* out = a.out[size_t(s.output)]) {
      copy_bytes(a.queue, out, a.in[size_t(s.operand)], a.in_spec[size_t(s.operand)].bytes());
    }
  }
}

// Specs of all groups; `one(group)` infers those of a single weight.
template <class F> Specs infer_groups(const OpDef& op, SpecSpan in, F one) {
  const size_t arity = size_t(op.arity);
  require(!in.empty() && in.size() % arity == 0, op.name,
          "takes groups of " + std::to_string(arity) + " operands");
  Specs out;
  for (size_t first = 0; first < in.size(); first += arity) {
    try {
      for (auto& spec : one(in.subspan(first, arity))) out.push_back(spec);
    } catch (const ProgramError& error) {
      if (in.size() == arity) throw;
      throw ProgramError(error.what() + (", in group " + std::to_string(first / arity)));
    }
  }
  return out;
}
// `one` for the group of every weight in turn.
inline void run_groups(const OpDef& op, const KernelArgs& a, void (*one)(const KernelArgs&)) {
  const size_t in = size_t(op.arity), out = op.shares.size();
  for (size_t g = 0; g < a.in.size() / in; ++g) {
    one({.in = a.in.subspan(g * in, in),
         .out = a.out.subspan(g * out, out),
         .in_spec = a.in_spec.subspan(g * in, in),
         .out_spec = a.out_spec.subspan(g * out, out),
         .attrs = a.attrs,
         .state = nullptr,
         .workspace = nullptr,
         .queue = a.queue});
  }
}

// Examples of (w, g, states in [lo, 2), scalars, gate): tails, no gate, a bf16 gradient, chunks;
// each for one weight and for two.
inline std::vector<Example> update_examples(const std::vector<float>& state_lo, const Attrs& attrs,
                                            const Attrs& other) {
  auto one = [&](Shape shape, DType gradient, bool gated, const Attrs& with) {
    Example e{.operands = {example(shape), example(shape, gradient)}, .attrs = with};
    for (float lo : state_lo) e.operands.push_back(example(shape, DType::f32, lo, 2));
    e.operands.push_back(example({16}, DType::i32, -1, 0));  // the step's scalars
    e.operands.push_back(gated ? example({4}, DType::f32, 0.5f, 1) : absent_example());
    return e;
  };
  auto two_of = [](Example e) {
    const std::vector<ExampleOperand> group = e.operands;
    e.operands.insert(e.operands.end(), group.begin(), group.end());
    return e;
  };
  std::vector<Example> out{
      one({3, 7}, DType::f32, true, attrs), one({3, 7}, DType::f32, false, attrs),
      one({5, 13}, DType::bf16, true, other), one({33, 1031}, DType::f32, true, other)};
  for (size_t k = 0; k < 4; ++k) out.push_back(two_of(out[k]));
  return out;
}

}  // namespace pal
