// attention and attention_step, in tiles whose scores never leave the chip (Dao et al. 2022). The
// formulas and the order of the sums are those of ops/attention/attention_kernel.cc and
// attention_step.cc.
#include "ops/attention/attention_kernel.h"
#include "ops/attention/cuda_attention.h"
#include "ops/kernels/cuda.h"
#include "ops/kernels/math.h"

namespace pal {
namespace {

// ---- attention: a block has a tile of queries, and goes through the keys ----

// One row of scores to e^(scaled score - maximum), the maximum that of all tiles so far; by a warp.
// -> what the sums so far are to be multiplied by.
__device__ float exponents(const CudaHead& head, float* p, int64_t used, float* top, float* total) {
  const int lane = lane_number();
  float x[2], most = -__builtin_huge_valf(), sum = 0;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    x[k] = p[lane + kWarp * k] * head.a.scale;
    if (lane + kWarp * k < used && x[k] > most) most = x[k];
  }
  most = warp_max(most);
  const float before = *top, now = before < most ? most : before;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    x[k] = lane + kWarp * k < used ? exp(x[k] - now) : 0;
    sum += x[k];
    p[lane + kWarp * k] = x[k];
  }
  sum = warp_sum(sum);
  const float shrink = exp(before - now), total_now = *total * shrink + sum;
  __syncwarp();  // all have read what one writes
  if (lane == 0) *top = now, *total = total_now;
  return before != now ? shrink : 1;
}

template <int kChunks>
__global__ void __launch_bounds__(kTileThreads)
    attention_kernel(CudaAttention a, Stored out, float* lse, int64_t tiles) {
  float* left = shared_memory<float>();
  float* right = left + kTileQueries * kChunkPitch;
  float* score = right + kTileKeys * kChunkPitch;
  float* top = score + kTileQueries * kScorePitch;
  float *total = top + kTileQueries, *shrink = total + kTileQueries;
  float* drawn = shrink + kTileQueries + warp_number() * kDrawn;
  const CudaHead head(a, blockIdx.x / tiles);
  const int64_t t = blockIdx.x % tiles * kTileQueries;
  const int64_t m = a.queries - t < kTileQueries ? a.queries - t : kTileQueries;
  const int64_t last = head.visible(t + m - 1, 0, a.keys);
  constexpr int I = kTileQueries / kDown, J = kTileColumns / kAcross;
  float sum[kChunks][I][J] = {};
  if (threadIdx.x < kTileQueries) {
    top[threadIdx.x] = -__builtin_huge_valf(), total[threadIdx.x] = 0, shrink[threadIdx.x] = 1;
  }
  for (int64_t j = 0; j < last; j += kTileKeys) {
    const int64_t n = last - j < kTileKeys ? last - j : kTileKeys;
    score_tile(head, score, left, right, a.q, t, m, a.k, j, n);
    __syncthreads();
    for (int i = warp_number(); i < m; i += kTileWarps) {
      float* p = score + i * kScorePitch;
      const int64_t used = head.visible(t + i, j, n);
      float factor = 1;
      if (used == 0) {
        p[lane_number()] = p[lane_number() + kWarp] = 0;
      } else {
        factor = exponents(head, p, used, top + i, total + i);
        if (a.attrs.dropout > 0) {
          const float* kept = head.factors(t + i, j, used, drawn);
          for (int e = lane_number(); e < used; e += kWarp) p[e] *= kept[e];
        }
      }
      if (lane_number() == 0) shrink[i] = factor;
    }
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      if (c * kTileColumns >= a.width) break;
      __syncthreads();
      head.load<kTileKeys>(right, a.v, j, n, c);
      __syncthreads();
      float tile[I][J] = {};
      add_products(tile, score, kScorePitch, 1, right, 1, kChunkPitch, int(n));
#pragma unroll
      for (int i = 0; i < I; ++i) {
#pragma unroll
        for (int k = 0; k < J; ++k) {
          sum[c][i][k] = sum[c][i][k] * shrink[down() + kDown * i] + tile[i][k];
        }
      }
    }
  }
  __syncthreads();
  if (lse && threadIdx.x < m) {
    const float all = total[threadIdx.x];
    lse[head.unit * a.queries + t + threadIdx.x] = all > 0 ? top[threadIdx.x] + log(all) : 0;
  }
  if (!out.data) return;
#pragma unroll
  for (int i = 0; i < I; ++i) {
    const int row = down() + kDown * i;
    if (row >= m) continue;
    const float inverse = total[row] > 0 ? 1 / total[row] : 0;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int k = 0; k < J; ++k) {
        const int column = c * kTileColumns + across() + kAcross * k;
        if (column < a.width) store1(out, head.at(t + row) + column, sum[c][i][k] * inverse);
      }
    }
  }
}

void run(const KernelArgs& a) {
  const CudaAttention call = cuda_attention(a, 3);
  const int64_t tiles = blocks_of(call.queries, kTileQueries);
  constexpr size_t kShared = sizeof(float) * (kTileQueries * (kChunkPitch + kScorePitch + 3) +
                                              kTileKeys * kChunkPitch + kTileWarps * kDrawn);
  by_chunks(call.width, [&](auto chunks) {
    launch(attention_kernel<decltype(chunks)::value>, {tiles * call.batch * call.heads},
           kTileThreads, kShared, stream_of(a), call, stored(a.out[0], a.out_spec[0]), a.output(1),
           tiles);
  });
}

// ---- attention_step: a block has a head of a sentence, a thread two columns ----

struct Step {
  Stored q, keys, values, own_key, own_value, out;
  const int32_t* lengths;
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
  const int64_t unit = blockIdx.x, row = a.batch * a.heads * a.width;
  const int64_t length = a.lengths[a.one_length ? 0 : unit / a.heads];
  const int64_t limit = length < 0 ? 0 : length < a.steps ? length : a.steps;
  auto fit = [&](const Stored& keys, int64_t at) {
    return a.scale * warp_row_sum(a.width, [&](int64_t e) {
             return load1(a.q, unit * a.width + e) * load1(keys, at + e);
           });
  };
  RunningSum running;
  for (int64_t s = 0; s < limit; s += kTileKeys) {
    const int n = limit - s < kTileKeys ? int(limit - s) : kTileKeys;
    for (int e = warp_number(); e < n; e += kTileWarps) {
      const float x = fit(a.keys, (s + e) * row + unit * a.width);
      if (lane_number() == 0) score[e] = x;
    }
    __syncthreads();
    float most = -__builtin_huge_valf();
    for (int e = 0; e < n; ++e) most = most < score[e] ? score[e] : most;
    running.raise(most);
    if (int(threadIdx.x) < n) weight[threadIdx.x] = exp(score[threadIdx.x] - running.top);
    __syncthreads();
    for (int e = 0; e < n; ++e) {
      running.add(weight[e], a.values, (s + e) * row + unit * a.width, a.width);
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

void run_step(const KernelArgs& a) {
  if (!a.out[0]) return;
  const Shape& cache = a.in_spec[1].shape;
  const int64_t heads = a.attrs.as<AttentionStepAttrs>().heads, width = cache[2] / heads;
  const Step step{.q = stored(a.in[0], a.in_spec[0]),
                  .keys = stored(a.in[1], a.in_spec[1]),
                  .values = stored(a.in[2], a.in_spec[2]),
                  .own_key = stored(input_if_present(a, 4), a.in_spec[0]),
                  .own_value = stored(input_if_present(a, 5), a.in_spec[0]),
                  .out = stored(a.out[0], a.out_spec[0]),
                  .lengths = a.input<int32_t>(3),
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

const Backend attention_cuda{.run = run};
const Backend attention_step_cuda{.run = run_step};

}  // namespace pal
