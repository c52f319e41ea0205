// attention_step: a block has a head of a sentence, a thread two columns. The order of the sums is
// that of ops/attention/attention_step.cc.
#include "ops/attention/attention_kernel.h"
#include "ops/attention/attention_step.h"
#include "ops/attention/cuda_attention.h"
#include "ops/kernels/math.h"
#include "ops/kernels/operands.h"

namespace pal {
namespace {

struct Step {
  Stored q, keys, values, own_key, own_value, out;
  const int32_t *lengths, *from;
  bool one_length;
  int64_t steps, batch, heads, width;
  float scale;
};

// The softmax-weighted sum of values, as far as it has got. Each thread keeps all but the columns
// of others.
struct RunningSum {
  float top = -__builtin_huge_valf(), total = 0;
  float sum[kWidestHead / kTileThreads] = {};

  __device__ void raise(float most) {
    if (most <= top) return;
    const float shrink = exp(top - most);
    total *= shrink, top = most;
    for (float& x : sum) x *= shrink;
  }
  __device__ void add(float weight, const Stored& values, int64_t at, int64_t width) {
    total += weight;
#pragma unroll
    for (int k = 0; k < kWidestHead / kTileThreads; ++k) {
      const int64_t e = threadIdx.x + int64_t(k) * kTileThreads;
      if (e < width) sum[k] += weight * load1(values, at + e);
    }
  }
};

__global__ void attention_step_kernel(Step a) {
  float *score = shared_memory<float>(), *weight = score + kTileKeys;
  const int64_t unit = blockIdx.x, b = unit / a.heads;
  const int64_t length = a.lengths[a.one_length ? 0 : b];
  const int64_t limit = length < 0 ? 0 : length < a.steps ? length : a.steps;
  auto fit = [&](const Stored& keys, int64_t at) {
    return a.scale * warp_row_sum(a.width, [&](int64_t e) {
             return load1(a.q, unit * a.width + e) * load1(keys, at + e);
           });
  };
  auto cached = [&](int64_t s) {
    const int64_t row = cached_row(a.from, s, b, a.batch);
    return (s * a.batch * a.heads + row * a.heads + (unit - b * a.heads)) * a.width;
  };
  RunningSum running;
  for (int64_t s = 0; s < limit; s += kTileKeys) {
    const int n = limit - s < kTileKeys ? int(limit - s) : kTileKeys;
    for (int e = warp_number(); e < n; e += kTileWarps) {
      const float x = fit(a.keys, cached(s + e));
      if (lane_number() == 0) score[e] = x;
    }
    __syncthreads();
    float most = -__builtin_huge_valf();
    for (int e = 0; e < n; ++e) most = most < score[e] ? score[e] : most;
    running.raise(most);
    if (int(threadIdx.x) < n) weight[threadIdx.x] = exp(score[threadIdx.x] - running.top);
    __syncthreads();
    for (int e = 0; e < n; ++e) {
      running.add(weight[e], a.values, cached(s + e), a.width);
    }
  }
  if (a.own_key.data) {
    const float x = fit(a.own_key, unit * a.width);
    running.raise(x);
    running.add(exp(x - running.top), a.own_value, unit * a.width, a.width);
  }
  const float inverse = running.total > 0 ? 1 / running.total : 0;
#pragma unroll
  for (int k = 0; k < kWidestHead / kTileThreads; ++k) {
    const int64_t e = threadIdx.x + int64_t(k) * kTileThreads;
    if (e < a.width) store1(a.out, unit * a.width + e, running.sum[k] * inverse);
  }
}

void run_attention_step(const KernelArgs& a) {
  const Shape& cache = a.in_spec[1].shape;
  const int64_t heads = a.attrs.as<AttentionStepAttrs>().heads, width = cache[2] / heads;
  const Step step{.q = stored(a.in[0], a.in_spec[0]),
                  .keys = stored(a.in[1], a.in_spec[1]),
                  .values = stored(a.in[2], a.in_spec[2]),
                  .own_key = stored(input_if_present(a, 4), a.in_spec[0]),
                  .own_value = stored(input_if_present(a, 5), a.in_spec[0]),
                  .out = stored(a.out[0], a.out_spec[0]),
                  .lengths = a.input<int32_t>(3),
                  .from = input_if_present<int32_t>(a, 6),
                  .one_length = a.in_spec[3].shape[0] == 1,
                  .steps = cache[0],
                  .batch = cache[1],
                  .heads = heads,
                  .width = width,
                  .scale = 1 / std::sqrt(float(width))};
  launch(attention_step_kernel, {step.batch * heads}, kTileThreads, 2 * kTileKeys * sizeof(float),
         stream_of(a), step);
}

}  // namespace

const Backend attention_step_cuda{.run = run_attention_step};

}  // namespace pal
