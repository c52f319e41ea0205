// The update kernel of all optimizers, one launch for many weights: a block has a stretch of one of
// them, and its first thread works out the step's rule from the scalars and the gate, which lie on
// the device.
#pragma once
#include "ops/kernels/cuda_elements.h"
#include "ops/optimizer/update.h"

namespace pal {

constexpr int kTensors = 32;     // in a launch: their addresses are its parameters (4 KB at most)
constexpr int64_t kStretch = 4;  // groups of a thread

// One weight, its gradient, and up to two states of the optimizer.
struct UpdateTensor {
  const float *w, *s[2];
  float *w_out, *s_out[2];
  const void* g;
  const StepScalars* scalars;
  const float* gate;  // null: none
  int64_t n;
  DType type;  // of g
};
struct UpdateTensors {
  UpdateTensor at[kTensors];
  int first_block[kTensors + 1];
  int count;
};

// update_step, on the device.
__device__ inline UpdateStep step_of(const UpdateTensor& t, float lr_factor, float clip_value) {
  const StepScalars& s = *t.scalars;
  const float clip = clip_value > 0 ? clip_value : __builtin_huge_valf();
  return {.gradient = {t.gate ? t.gate[0] : 1 / s.loss_scale, clip},
          .learning_rate = s.learning_rate * lr_factor,
          .count = int64_t(s.step) + 1,
          .apply = !t.gate || t.gate[1] != 0};
}

template <class Rule> struct BlockRule {
  Rule rule;
  UpdateStep step;
};

template <class Rule, class A> __global__ void update_kernel(UpdateTensors tensors, A attrs) {
  int which = 0;
  while (which + 1 < tensors.count && int(blockIdx.x) >= tensors.first_block[which + 1]) ++which;
  const UpdateTensor& t = tensors.at[which];
  auto* shared = shared_memory<BlockRule<Rule>>();
  if (threadIdx.x == 0) {
    shared->step = step_of(t, attrs.lr, attrs.clip_value);
    shared->rule = Rule::of(attrs, shared->step.learning_rate, shared->step.count);
  }
  __syncthreads();
  const Rule rule = shared->rule;
  const UpdateStep step = shared->step;
  const Stored g_in{.data = const_cast<void*>(t.g),
                    .type = t.type,
                    .vector = reinterpret_cast<uintptr_t>(t.g) % 16 == 0};
  const int64_t block = int(blockIdx.x) - tensors.first_block[which];
  for (int64_t k = 0; k < kStretch; ++k) {
    const Eight eight((block * kStretch + k) * blockDim.x + threadIdx.x, t.n, true);
    if (eight.none()) return;
    float w[kGroup], g[kGroup], s[2][kGroup];
    eight.load(stored_at(t.w), w);
#pragma unroll
    for (int m = 0; m < Rule::kStates; ++m) eight.load(stored_at(t.s[m]), s[m]);
    if (step.apply) {
      eight.load(g_in, g);
#pragma unroll
      for (int e = 0; e < kGroup; ++e) {
        const Updated y = rule(w[e], step.gradient(g[e]), Rule::kStates > 0 ? s[0][e] : 0,
                               Rule::kStates > 1 ? s[1][e] : 0);
        w[e] = y.w, s[0][e] = y.first, s[1][e] = y.second;
      }
    }
    if (t.w_out) eight.store(stored_at(t.w_out), w);
#pragma unroll
    for (int m = 0; m < Rule::kStates; ++m) {
      if (t.s_out[m]) eight.store(stored_at(t.s_out[m]), s[m]);
    }
  }
}

// Operands of a group: w, g, states.., scalars, gate; its outputs: w, states...
template <class Rule, class A> void run_update(const KernelArgs& a) {
  constexpr size_t states = Rule::kStates, in = 4 + states, out = 1 + states;
  constexpr int64_t per_block = kThreads * kGroup * kStretch;
  UpdateTensors tensors{};
  auto start = [&] {
    const int blocks = tensors.first_block[tensors.count];
    launch(update_kernel<Rule, A>, {blocks}, kThreads, sizeof(BlockRule<Rule>), stream_of(a),
           tensors, a.attrs.as<A>());
    tensors = {};
  };
  for (size_t first = 0, first_out = 0; first < a.in.size(); first += in, first_out += out) {
    UpdateTensor& t = tensors.at[tensors.count];
    const OwnPiece own = own_piece_of(a, a.in_spec[first].numel());
    if (own.count < a.in_spec[first].numel() && a.out[first_out] != a.in[first]) {
      copy_async(a, a.out[first_out], a.in[first], a.in_spec[first].bytes());
    }
    t.w = a.input(first) + own.begin, t.w_out = a.output(first_out);
    if (t.w_out) t.w_out += own.begin;
    t.g = a.in[first + 1];
    t.type = a.in_spec[first + 1].dtype, t.n = own.count;
    for (int s = 0; s < Rule::kStates; ++s) {
      t.s[s] = a.input(first + 2 + size_t(s)), t.s_out[s] = a.output(first_out + 1 + size_t(s));
    }
    t.scalars = a.input<StepScalars>(first + 2 + states);
    t.gate = input_if_present<float>(a, first + 3 + states);
    const int blocks = int(blocks_of(t.n, per_block));
    tensors.first_block[tensors.count + 1] = tensors.first_block[tensors.count] + blocks;
    if (++tensors.count == kTensors) start();
  }
  if (tensors.count) start();
}

}  // namespace pal
