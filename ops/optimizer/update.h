// What the optimizers' update operators share: how a gradient is scaled and clipped before its use,
// what a closed gate does, and the same operator over several nodes' operands.
#pragma once
#include <limits>

#include "core/error.h"
#include "core/op.h"
#include "core/scalars.h"
#include "ops/kernels/gate.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/ranks.h"
#include "ops/kernels/tiles.h"
#include "ops/optimizer/updated.h"

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

// w f32, g like w of any float type, `states` more f32 like w, scalars, gate (or absent). Of
// several ranks g and the states are (piece).
inline void check_update_operands(SpecSpan in, size_t states, int64_t ranks) {
  require(ranks >= 1, "is for ", ranks, " ranks; want 1 or more");
  const Shape like = ranks == 1 ? in[0].shape : Shape{piece_elements(in[0].numel(), ranks)};
  require(in[0].dtype == DType::f32 && is_float(in[1].dtype) && in[1].shape == like, in[0], ", ",
          in[1], ": want a weight f32 and its gradient");
  for (size_t k = 2; k < 2 + states; ++k) {
    require(in[k] == TensorSpec{like, DType::f32}, in[0], ", ", in[k],
            ": the optimizer's state is not like the weight");
  }
  require(in[2 + states] == scalars_spec(), in[2 + states], ": want the step's scalars, ",
          scalars_spec());
  require(!present(in[3 + states]) || in[3 + states] == gate_spec(), in[3 + states],
          ": want a gate, ", gate_spec());
}

// Specs of all groups.
inline Specs infer_updates(const OpDef& op, SpecSpan in, int64_t ranks) {
  const size_t arity = size_t(op.arity);
  require(!in.empty() && in.size() % arity == 0, "takes groups of ", arity, " operands");
  Specs out;
  for (size_t first = 0; first < in.size(); first += arity) {
    const SpecSpan group = in.subspan(first, arity);
    try {
      check_update_operands(group, arity - 4, ranks);
    } catch (const ProgramError& error) {
      if (in.size() == arity) throw;
      require(false, error.what(), (", in group " + std::to_string(first / arity)));
    }
    for (Share s : op.shares) out.push_back(plain(group[size_t(s.operand)]));
  }
  return out;
}

// One weight after the other: w, g, its states, scalars, gate.
template <class Rule, class A> void run_updates(const OpDef& op, const KernelArgs& a) {
  constexpr size_t states = Rule::kStates;
  auto& attrs = a.attrs.as<A>();
  for (size_t in = 0, out = 0; in < a.in.size(); in += 4 + states, out += 1 + states) {
    const UpdateStep step =
        update_step(a.in[in + 2 + states], input_if_present<float>(a, in + 3 + states), attrs.lr,
                    attrs.clip_value);
    if (!step.apply) {  // every output as its state was, bit for bit
      for (Share s : op.shares) {
        const size_t from = in + size_t(s.operand), to = out + size_t(s.output);
        if (a.out[to]) copy_bytes(a.queue, a.out[to], a.in[from], a.in_spec[from].bytes());
      }
      continue;
    }
    const Rule rule = Rule::of(attrs, step.learning_rate, step.count);
    const DType type = a.in_spec[in + 1].dtype;
    const OwnPiece own = own_piece_of(a, a.in_spec[in].numel());
    if (own.count < a.in_spec[in].numel()) {  // the others' pieces, as they were
      copy_bytes(a.queue, a.out[out], a.in[in], a.in_spec[in].bytes());
    }
    parallel_chunks(a.queue, own.count, kElementGrain, [&](int64_t begin, int64_t end) {
      const Rule local = rule;  // seen through the closure, stores could change it
      const GradientScale scale = step.gradient;
      alignas(64) float buffer[kTile];
      for (int64_t i = begin; i < end; i += kTile) {
        const int64_t n = std::min(kTile, end - i);
        const float* g = load_tile(a.in[in + 1], type, i, n, buffer);
        const float* w = a.input(in) + own.begin + i;
        const float* first = states > 0 ? a.input(in + 2) + i : nullptr;
        const float* second = states > 1 ? a.input(in + 3) + i : nullptr;
        float* to_w = a.output(out) + own.begin + i;
        float* to_first = states > 0 ? a.output(out + 1) + i : nullptr;
        float* to_second = states > 1 ? a.output(out + 2) + i : nullptr;
#pragma omp simd
        for (int64_t e = 0; e < n; ++e) {
          const Updated y =
              local(w[e], scale(g[e]), states > 0 ? first[e] : 0, states > 1 ? second[e] : 0);
          to_w[e] = y.w;
          if constexpr (states > 0) to_first[e] = y.first;
          if constexpr (states > 1) to_second[e] = y.second;
        }
      }
    });
  }
}

// The operator of an optimizer whose attributes are A: what its facts leave out. `op` is itself.
template <class Rule, class A, const OpDef& op> OpDef update_op(OpDef facts) {
  constexpr int states = Rule::kStates;
  if (!facts.infer) {
    facts.infer = [](SpecSpan in, const Attrs& attrs) {
      return infer_updates(op, in, attrs.as<A>().ranks);
    };
  }
  facts.optional_from = 3 + states, facts.arity = 4 + states;
  facts.shares = {{0, 0}};
  for (int s = 0; s < states; ++s) facts.shares.push_back({1 + s, 2 + s});
  facts.writes_state = true;
  facts.cpu.run = [](const KernelArgs& a) { run_updates<Rule, A>(op, a); };
  facts.cpu.prepare = prepare_ranks<A>;
  return facts;
}

// Examples of (w, g, states in [lo, 2), scalars, gate): tails, no gate, a bf16 gradient, chunks;
// each for one weight and for two.
inline std::vector<Example> update_examples(const std::vector<float>& state_lo, const Attrs& attrs,
                                            const Attrs& other) {
  auto one = [&](Shape shape, DType gradient, bool gated, const Attrs& with) {
    Example e{.operands = {example(shape), example(shape, gradient)}, .attrs = with};
    for (float lo : state_lo) e.operands.push_back(example(shape, DType::f32, lo, 2));
    e.operands.push_back(step_scalars_example());
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
