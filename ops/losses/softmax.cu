// Softmax in its forms, and the classifier's loss: a warp has a row (or, over the leading axis, a
// block has 32 columns), and sums in the order of the CPU's kernels.
#include "core/scalars.h"
#include "ops/kernels/cuda.h"
#include "ops/kernels/cuda_rows.h"
#include "ops/kernels/math.h"
#include "ops/kernels/operands.h"
#include "ops/losses/cross_entropy.h"
#include "ops/losses/masked_softmax.h"

namespace pal {
namespace {

int64_t row_count(const Shape& x) { return leading_numel(x, x.rank() - 1); }

// ---- softmax over the last axis ----

struct RowLimits {
  const int32_t* lengths;  // null: all
  int64_t per_length;      // rows that share a length
  int64_t queries;         // causal where positive: row r sees r % queries + 1
};
__device__ int64_t limit_of(const RowLimits& limits, int64_t row, int64_t width) {
  int64_t limit = width;
  if (limits.lengths) {
    limit = limits.lengths[row / limits.per_length];
    limit = limit < 0 ? 0 : limit > width ? width : limit;
  }
  if (limits.queries > 0) {
    const int64_t causal = row % limits.queries + 1;
    limit = causal < limit ? causal : limit;
  }
  return limit;
}

template <class T>
__global__ void softmax_kernel(T* y, const T* x, int64_t rows, int64_t width, RowLimits limits) {
  const int64_t row = row_of_warp();
  if (row >= rows) return;
  const int64_t limit = limit_of(limits, row, width);
  const T* from = x + row * width;
  T* to = y + row * width;
  const float most = warp_row_max(from, limit);
  const float total = warp_row_sum(limit, [&](int64_t j) { return exp(load(from, j) - most); });
  for (int64_t j = lane_number(); j < width; j += kWarp) {
    store(to, j, j < limit ? exp(load(from, j) - most) / total : 0.0f);
  }
}
void run_softmax(const KernelArgs& a) {
  if (!a.out[0]) return;
  const Shape& shape = a.in_spec[0].shape;
  const int64_t width = shape.back(), rows = row_count(shape);
  const int32_t* lengths = input_if_present<int32_t>(a, 1);
  const bool causal = a.attrs.as<SoftmaxAttrs>().causal;
  const RowLimits limits{lengths, lengths ? rows / a.in_spec[1].shape[0] : 1,
                         causal ? shape[shape.rank() - 2] : 0};
  by_float_type(a.in_spec[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(softmax_kernel<T>, {blocks_of(rows, kRowsPerBlock)}, kThreads, 0, stream_of(a),
           a.output<T>(0), a.input<T>(0), rows, width, limits);
  });
}

template <class T>
__global__ void softmax_grad_kernel(T* dx, const T* y, const T* dy, int64_t rows, int64_t width) {
  const int64_t row = row_of_warp();
  if (row >= rows) return;
  const int64_t base = row * width;
  const float dot =
      warp_row_sum(width, [&](int64_t j) { return load(y, base + j) * load(dy, base + j); });
  for (int64_t j = lane_number(); j < width; j += kWarp) {
    store(dx, base + j, load(y, base + j) * (load(dy, base + j) - dot));
  }
}
void run_softmax_grad(const KernelArgs& a) {
  if (!a.out[0]) return;
  const int64_t width = a.in_spec[0].shape.back(), rows = row_count(a.in_spec[0].shape);
  by_float_type(a.in_spec[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(softmax_grad_kernel<T>, {blocks_of(rows, kRowsPerBlock)}, kThreads, 0, stream_of(a),
           a.output<T>(0), a.input<T>(0), a.input<T>(1), rows, width);
  });
}

// ---- log_softmax, argmax_rows ----

template <class T> __device__ float log_sum_exp(const T* x, int64_t width) {
  const float most = warp_row_max(x, width);
  const float total = warp_row_sum(width, [&](int64_t j) { return exp(load(x, j) - most); });
  return most + log(total);
}
template <class T>
__global__ void log_softmax_kernel(T* y, const T* x, int64_t rows, int64_t width) {
  const int64_t row = row_of_warp();
  if (row >= rows) return;
  const int64_t base = row * width;
  const float lse = log_sum_exp(x + base, width);
  for (int64_t j = lane_number(); j < width; j += kWarp) {
    store(y, base + j, load(x, base + j) - lse);
  }
}
void run_log_softmax(const KernelArgs& a) {
  if (!a.out[0]) return;
  const int64_t width = a.in_spec[0].shape.back(), rows = row_count(a.in_spec[0].shape);
  by_float_type(a.in_spec[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(log_softmax_kernel<T>, {blocks_of(rows, kRowsPerBlock)}, kThreads, 0, stream_of(a),
           a.output<T>(0), a.input<T>(0), rows, width);
  });
}

// The first of the largest; 0 in a row of NaNs.
template <class T>
__global__ void argmax_kernel(int32_t* y, const T* x, int64_t rows, int64_t width) {
  const int64_t row = row_of_warp();
  if (row >= rows) return;
  const T* mine = x + row * width;
  const float most = warp_row_max(mine, width);
  int best = 0x7fffffff;
  for (int64_t j = lane_number(); j < width && best == 0x7fffffff; j += kWarp) {
    if (load(mine, j) == most) best = int(j);
  }
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const int other = __shfl_xor_sync(kAllLanes, best, step);
    best = other < best ? other : best;
  }
  if (lane_number() == 0) y[row] = best < width ? best : 0;
}
void run_argmax(const KernelArgs& a) {
  if (!a.out[0]) return;
  const int64_t width = a.in_spec[0].shape.back(), rows = row_count(a.in_spec[0].shape);
  by_float_type(a.in_spec[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(argmax_kernel<T>, {blocks_of(rows, kRowsPerBlock)}, kThreads, 0, stream_of(a),
           a.output<int32_t>(0), a.input<T>(0), rows, width);
  });
}

// ---- masked_softmax over the leading axis ----
//
// A block has 32 columns, a lane each. Its warps share the steps for what is costly, and leave the
// exponentials (or products) in shared memory, where the first warp adds them up in order of steps.
// Where there are too many steps for that, the first warp computes them again itself.

constexpr int64_t kStepsInShared = 320;

struct Column {
  int64_t at;  // its number
  bool exists;
};
__device__ Column column_of_lane(int64_t batch) {
  const int64_t at = int64_t(blockIdx.x) * kWarp + lane_number();
  return {at, at < batch};
}

// Lane by lane the sum of f(step, column) over the steps, in order, in all warps.
template <class F> __device__ float sum_steps(int64_t steps, float* totals, float* terms, F f) {
  const int lane = lane_number();
  const bool kept = steps <= kStepsInShared;
  if (kept) {
    for (int64_t s = warp_number(); s < steps; s += kRowsPerBlock) terms[s * kWarp + lane] = f(s);
  }
  __syncthreads();
  if (warp_number() == 0) {
    float sum = 0;
    for (int64_t s = 0; s < steps; ++s) sum += kept ? terms[s * kWarp + lane] : f(s);
    totals[lane] = sum;
  }
  __syncthreads();
  return totals[lane];
}
size_t column_bytes(int64_t steps) {  // maxima of the warps, totals, terms
  const int64_t kept = steps <= kStepsInShared ? steps : 0;
  return size_t(kRowsPerBlock + 1 + kept) * kWarp * sizeof(float);
}

template <class T>
__global__ void masked_softmax_kernel(T* y, const T* x, const int32_t* lengths, int64_t steps,
                                      int64_t batch) {
  float* maxima = shared_memory<float>();
  float* totals = maxima + kRowsPerBlock * kWarp;
  float* terms = totals + kWarp;
  const Column column = column_of_lane(batch);
  const int lane = lane_number();
  const int64_t length = !column.exists ? 0 : lengths ? lengths[column.at] : steps;
  float top = -__builtin_huge_valf();
  for (int64_t s = warp_number(); s < steps && s < length; s += kRowsPerBlock) {
    const float v = load(x, s * batch + column.at);
    top = v > top ? v : top;
  }
  maxima[warp_number() * kWarp + lane] = top;
  __syncthreads();
  for (int w = 0; w < kRowsPerBlock; ++w) {
    const float other = maxima[w * kWarp + lane];
    top = other > top ? other : top;
  }
  auto term = [&](int64_t s) {
    return s < length ? exp(load(x, s * batch + column.at) - top) : 0.0f;
  };
  const float total = sum_steps(steps, totals, terms, term);
  for (int64_t s = warp_number(); column.exists && s < steps; s += kRowsPerBlock) {
    const float e = steps <= kStepsInShared ? terms[s * kWarp + lane] : term(s);
    store(y, s * batch + column.at, s < length ? e / total : 0.0f);
  }
}
void run_masked_softmax(const KernelArgs& a) {
  if (!a.out[0]) return;
  const int64_t steps = a.in_spec[0].shape[0], batch = a.in_spec[0].shape[1];
  by_float_type(a.in_spec[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(masked_softmax_kernel<T>, {blocks_of(batch, kWarp)}, kThreads, column_bytes(steps),
           stream_of(a), a.output<T>(0), a.input<T>(0), input_if_present<int32_t>(a, 1), steps,
           batch);
  });
}

template <class T>
__global__ void masked_softmax_grad_kernel(T* dx, const T* y, const T* dy, int64_t steps,
                                           int64_t batch) {
  float* totals = shared_memory<float>();
  float* terms = totals + kWarp;
  const Column column = column_of_lane(batch);
  const float dot = sum_steps(steps, totals, terms, [&](int64_t s) {
    const int64_t i = s * batch + column.at;
    return column.exists ? load(y, i) * load(dy, i) : 0.0f;
  });
  for (int64_t s = warp_number(); column.exists && s < steps; s += kRowsPerBlock) {
    const int64_t i = s * batch + column.at;
    store(dx, i, load(y, i) * (load(dy, i) - dot));
  }
}
void run_masked_softmax_grad(const KernelArgs& a) {
  if (!a.out[0]) return;
  const int64_t steps = a.in_spec[0].shape[0], batch = a.in_spec[0].shape[1];
  by_float_type(a.in_spec[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(masked_softmax_grad_kernel<T>, {blocks_of(batch, kWarp)}, kThreads, column_bytes(steps),
           stream_of(a), a.output<T>(0), a.input<T>(0), a.input<T>(1), steps, batch);
  });
}

// ---- cross_entropy ----

struct LossSums {
  double loss, nll;
};
struct RowLoss {  // what a warp leaves in shared memory for the chunk's sum
  double of_target, of_others;
  int counts, valid;
};

// A block is a chunk of eight rows, as on the CPU.
template <class T>
__global__ void cross_entropy_kernel(LossSums* partial, float* lse_out, const T* x,
                                     const int32_t* targets, int64_t rows, int64_t width,
                                     CrossEntropyAttrs attrs, bool wants_loss) {
  RowLoss* all = shared_memory<RowLoss>();
  const int64_t row = row_of_warp();
  RowLoss mine{};
  if (row < rows) {
    const int64_t target = targets[row];
    const T* logits = x + row * width;
    const bool ignored = target == attrs.ignore && attrs.ignore >= 0;
    mine.counts = !ignored, mine.valid = target >= 0 && target < width;
    float lse = ignored ? 0 : __builtin_nanf("");
    if (!ignored && mine.valid) lse = log_sum_exp(logits, width);
    mine.of_target = mine.valid ? double(lse) - double(load(logits, target)) : double(lse);
    if (!ignored && mine.valid && wants_loss && attrs.smoothing > 0) {
      mine.of_others =
          double(warp_row_sum(width, [&](int64_t j) { return lse - load(logits, j); }));
    }
    if (lse_out && lane_number() == 0) lse_out[row] = lse;
  }
  if (lane_number() == 0) all[warp_number()] = mine;
  __syncthreads();
  if (threadIdx.x) return;
  const double smoothing = double(attrs.smoothing);
  LossSums sums{};
  for (int r = 0; r < kRowsPerBlock; ++r) {
    if (!all[r].counts) continue;
    sums.nll += all[r].of_target;
    sums.loss += (1 - smoothing) * all[r].of_target;
    if (smoothing > 0 && wants_loss && all[r].valid) {
      sums.loss += smoothing * all[r].of_others / double(width);
    }
  }
  partial[blockIdx.x] = sums;
}
__global__ void cross_entropy_finish_kernel(float* loss, float* nll, const LossSums* partial,
                                            int64_t chunks, const StepScalars* scalars) {
  double* shared = shared_memory<double>();
  const double loss_sum = sum_in_order(chunks, shared, [&](int64_t i) { return partial[i].loss; });
  const double nll_sum = sum_in_order(chunks, shared, [&](int64_t i) { return partial[i].nll; });
  if (threadIdx.x) return;
  if (loss) *loss = float(loss_sum / double(scalars->tokens));
  if (nll) *nll = float(nll_sum);
}
void run_cross_entropy(const KernelArgs& a) {
  static_assert(kRowsPerBlock == 8, "the CPU's chunk");
  const int64_t rows = a.in_spec[0].shape[0], width = a.in_spec[0].shape[1];
  const int64_t chunks = blocks_of(rows, kRowsPerBlock);
  LossSums* partial = reinterpret_cast<LossSums*>(a.workspace);
  by_float_type(a.in_spec[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(cross_entropy_kernel<T>, {chunks}, kThreads, kRowsPerBlock * sizeof(RowLoss),
           stream_of(a), partial, a.output(2), a.input<T>(0), a.input<int32_t>(1), rows, width,
           a.attrs.as<CrossEntropyAttrs>(), a.out[0] != nullptr);
  });
  if (!a.out[0] && !a.out[1]) return;
  launch(cross_entropy_finish_kernel, {1}, kThreads, kThreads * sizeof(double), stream_of(a),
         a.output(0), a.output(1), partial, chunks, a.input<StepScalars>(2));
}
Prepared prepare_cross_entropy(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  return {.workspace = blocks_of(in[0].shape[0], kRowsPerBlock) * int64_t(sizeof(LossSums))};
}

// dlogits = dloss / tokens (e^(x - lse) - s / V - (1 - s) [v == t]); zero in rows that are ignored.
__global__ void cross_entropy_grad_kernel(Stored dx, Stored x, const float* dloss,
                                          const float* lses, const int32_t* targets,
                                          const StepScalars* scalars, int64_t rows, int64_t width,
                                          CrossEntropyAttrs attrs) {
  const int64_t g = thread_number(), per_row = (width + kGroup - 1) / kGroup;
  if (g >= rows * per_row) return;
  const int64_t row = g / per_row, j = (g - row * per_row) * kGroup, at = row * width + j;
  const int n = group_size(j, width);
  const int64_t target = targets[row];
  const bool ignored = target == attrs.ignore && attrs.ignore >= 0;
  const float lse = lses[row], factor = *dloss / scalars->tokens;
  const float uniform = attrs.smoothing / float(width), rest = 1 - attrs.smoothing;
  float v[kGroup];
  load8(x, at, n, v);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    const float p = exp(v[k] - lse) - uniform;
    const float d = factor * (j + k == target ? p - rest : p);
    v[k] = ignored ? 0 : d;
  }
  store8(dx, at, n, v);
}
void run_cross_entropy_grad(const KernelArgs& a) {
  if (!a.out[0]) return;
  const int64_t rows = a.in_spec[1].shape[0], width = a.in_spec[1].shape[1];
  launch(cross_entropy_grad_kernel, grid_of_groups(rows * groups_of(width)), kThreads, 0,
         stream_of(a), stored(a.out[0], a.out_spec[0], width), stored(a.in[1], a.in_spec[1], width),
         a.input(0), a.input(2), a.input<int32_t>(3), a.input<StepScalars>(4), rows, width,
         a.attrs.as<CrossEntropyAttrs>());
}

}  // namespace

const Backend argmax_rows_cuda{.run = run_argmax};
const Backend cross_entropy_cuda{.run = run_cross_entropy, .prepare = prepare_cross_entropy};
const Backend cross_entropy_grad_cuda{.run = run_cross_entropy_grad};
const Backend log_softmax_cuda{.run = run_log_softmax};
const Backend masked_softmax_cuda{.run = run_masked_softmax};
const Backend masked_softmax_grad_cuda{.run = run_masked_softmax_grad};
const Backend softmax_cuda{.run = run_softmax};
const Backend softmax_grad_cuda{.run = run_softmax_grad};

}  // namespace pal
