// The classifier's loss. Of narrow rows a warp has a row, a block a chunk of the CPU's. A wide row
// has a block, which reads it once: maximum and sum go along together (Milakov & Gimelshein 2018).
// Exponentials of wide rows are the hardware's, so their last bits are not the CPU's.
#include "core/scalars.h"
#include "ops/kernels/cuda_rows.h"
#include "ops/kernels/math.h"
#include "ops/losses/cross_entropy.h"

namespace pal {
namespace {

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
                                     int64_t stride, CrossEntropyAttrs attrs, bool wants_loss) {
  RowLoss* all = shared_memory<RowLoss>();
  const int64_t row = row_of_warp();
  RowLoss mine{};
  if (row < rows) {
    const int64_t target = targets[row];
    const T* logits = x + row * stride;
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

// e^x where x comes near enough; the fastest there is.
__device__ float exp_near(float x) { return exp2f(x * 1.44269504088896341f); }

// Elements p[0] .. p[n - 1], zero from n up to eight, in the widest words that the address allows.
template <class T> __device__ void load_anywhere(const T* p, int n, float* v) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(p);
  if (n == kGroup && at % 16 == 0) return load8(whole_groups(p), 0, kGroup, v);
  if constexpr (sizeof(T) == 2) {
    if (n == kGroup && at % 8 == 0) {
      const uint64_t* two = reinterpret_cast<const uint64_t*>(p);
      const uint64_t low = two[0], high = two[1];
      unpack<T>(uint32_t(low), v), unpack<T>(uint32_t(low >> 32), v + 2);
      unpack<T>(uint32_t(high), v + 4), unpack<T>(uint32_t(high >> 32), v + 6);
      return;
    }
    if (n == kGroup && at % 4 == 0) {
      const uint32_t* words = reinterpret_cast<const uint32_t*>(p);
#pragma unroll
      for (int k = 0; k < 4; ++k) unpack<T>(words[k], v + 2 * k);
      return;
    }
  }
#pragma unroll
  for (int k = 0; k < kGroup; ++k) v[k] = k < n ? load(p, k) : 0;
}

// Of some elements: the largest, the sum of e^(x - largest), the sum of x.
struct RowSums {
  float most = -__builtin_huge_valf(), exps = 0, plain = 0;

  __device__ void raise(float to) {
    if (!(to > most)) return;
    if (exps != 0) exps = exps * exp_near(most - to);
    most = to;
  }
  // n elements, with zeros up to eight.
  __device__ void add(float (&v)[kGroup], int n) {
#pragma unroll
    for (int k = 0; k < kGroup; ++k) plain += v[k];
    if (n < kGroup) {
#pragma unroll
      for (int k = 0; k < kGroup; ++k) v[k] = k < n ? v[k] : -__builtin_huge_valf();
    }
    float top = most;
#pragma unroll
    for (int k = 0; k < kGroup; ++k) top = v[k] > top ? v[k] : top;
    raise(top);
    // Where all so far is -infinity, so is the sum's exponent: it adds nothing, not a NaN.
    const float center = most == -__builtin_huge_valf() ? 0 : most;
#pragma unroll
    for (int k = 0; k < kGroup; ++k) exps += exp_near(v[k] - center);
  }
  __device__ void add(RowSums other) {
    const float top = other.most > most ? other.most : most;
    raise(top), other.raise(top);
    exps += other.exps, plain += other.plain;
  }
};

// The sums of a wide row by a block; thread 0's. Which elements a thread has depends on their place
// in the row alone; it has two groups of them under way.
template <class T> __device__ RowSums row_sums(const T* row, int width) {
  RowSums* all = shared_memory<RowSums>();
  RowSums mine;
  constexpr int kStep = kThreads * kGroup;
  for (int j = int(threadIdx.x) * kGroup; j < width; j += 2 * kStep) {
    const int n = group_size(j, width), m = j + kStep < width ? group_size(j + kStep, width) : 0;
    float v[kGroup], w[kGroup];
    load_anywhere(row + j, n, v);
    if (m) load_anywhere(row + j + kStep, m, w);
    mine.add(v, n);
    if (m) mine.add(w, m);
  }
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    RowSums other;
    other.most = __shfl_xor_sync(kAllLanes, mine.most, lanes);
    other.exps = __shfl_xor_sync(kAllLanes, mine.exps, lanes);
    other.plain = __shfl_xor_sync(kAllLanes, mine.plain, lanes);
    mine.add(other);
  }
  if (lane_number() == 0) all[warp_number()] = mine;
  __syncthreads();
  if (threadIdx.x) return mine;
  for (int w = 1; w < kThreads / kWarp; ++w) mine.add(all[w]);
  return mine;
}

// partial[row] of wide rows.
template <class T>
__global__ void cross_entropy_wide_kernel(LossSums* partial, float* lse_out, const T* x,
                                          const int32_t* targets, int64_t width, int64_t stride,
                                          CrossEntropyAttrs attrs) {
  const int64_t row = blockIdx.x, target = targets[row];
  const bool ignored = target == attrs.ignore && attrs.ignore >= 0;
  const bool valid = target >= 0 && target < width;
  LossSums sums{};
  float lse = ignored ? 0 : __builtin_nanf("");
  if (!ignored && valid) {
    const RowSums all = row_sums(x + row * stride, int(width));
    if (threadIdx.x) return;
    const double smoothing = double(attrs.smoothing);
    lse = all.most + log(all.exps);
    sums.nll = double(lse) - double(load(x, row * stride + target));
    sums.loss = (1 - smoothing) * sums.nll;
    if (smoothing > 0) sums.loss += smoothing * (double(lse) - double(all.plain) / double(width));
  } else if (!ignored) {
    sums.loss = sums.nll = double(lse);
  }
  if (threadIdx.x) return;
  if (lse_out) lse_out[row] = lse;
  partial[row] = sums;
}

__global__ void cross_entropy_finish_kernel(float* loss, float* nll, const LossSums* partial,
                                            int64_t chunks, const StepScalars* scalars) {
  double* shared = shared_memory<double>();
  const double loss_sum = tree_sum(chunks, shared, [&](int64_t i) { return partial[i].loss; });
  const double nll_sum = tree_sum(chunks, shared, [&](int64_t i) { return partial[i].nll; });
  if (threadIdx.x) return;
  if (loss) *loss = float(loss_sum / double(scalars->tokens));
  if (nll) *nll = float(nll_sum);
}
void run_cross_entropy(const KernelArgs& a) {
  static_assert(kRowsPerBlock == 8, "the CPU's chunk");
  const int64_t rows = a.in_spec[0].shape[0], stride = a.in_spec[0].shape[1];
  const int64_t width = a.attrs.as<CrossEntropyAttrs>().classes_of(a.in_spec[0]);
  const bool wide = width >= kWideLossRow;
  const int64_t chunks = wide ? rows : blocks_of(rows, kRowsPerBlock);
  LossSums* partial = reinterpret_cast<LossSums*>(a.workspace);
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    if (wide) {
      return launch(cross_entropy_wide_kernel<T>, {rows}, kThreads,
                    kThreads / kWarp * sizeof(RowSums), stream_of(a), partial, a.output(2),
                    a.input<T>(0), a.input<int32_t>(1), width, stride,
                    a.attrs.as<CrossEntropyAttrs>());
    }
    launch(cross_entropy_kernel<T>, {chunks}, kThreads, kRowsPerBlock * sizeof(RowLoss),
           stream_of(a), partial, a.output(2), a.input<T>(0), a.input<int32_t>(1), rows, width,
           stride, a.attrs.as<CrossEntropyAttrs>(), a.out[0] != nullptr);
  });
  if (!a.out[0] && !a.out[1]) return;
  launch(cross_entropy_finish_kernel, {1}, kTreeLanes, kTreeLanes * sizeof(double), stream_of(a),
         a.output(0), a.output(1), partial, chunks, a.input<StepScalars>(2));
}
Prepared prepare_cross_entropy(const Device&, SpecSpan in, SpecSpan, const Attrs& attrs) {
  const int64_t rows = in[0].shape[0];
  const int64_t width = attrs.as<CrossEntropyAttrs>().classes_of(in[0]);
  const int64_t sums = width >= kWideLossRow ? rows : blocks_of(rows, kRowsPerBlock);
  return {.workspace = sums * int64_t(sizeof(LossSums))};
}

// dlogits = dloss / tokens (e^(x - lse) - s / V - (1 - s) [v == t]); zero in rows that are ignored,
// and in columns from `classes` on.
__global__ void cross_entropy_grad_kernel(Stored dx, Stored x, const float* dloss,
                                          const float* lses, const int32_t* targets,
                                          const StepScalars* scalars, int64_t rows, int64_t width,
                                          int64_t classes, CrossEntropyAttrs attrs) {
  const auto [row, j, at, n] = row_group(rows, width);
  if (n == 0) return;
  const int64_t target = targets[row];
  const bool ignored = target == attrs.ignore && attrs.ignore >= 0;
  const float lse = lses[row], factor = *dloss / scalars->tokens;
  const float uniform = attrs.smoothing / float(classes), rest = 1 - attrs.smoothing;
  float v[kGroup];
  load8(x, at, n, v);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    const float p = exp(v[k] - lse) - uniform;
    const float d = factor * (j + k == target ? p - rest : p);
    v[k] = ignored || j + k >= classes ? 0 : d;
  }
  store8(dx, at, n, v);
}

// The same of wide rows, by blocks that lie in one row. A thread has eight elements from a boundary
// of 16 bytes of dx on; the first and the last of a row may have fewer.
int64_t blocks_of_row(int64_t width) { return blocks_of(width + kGroup - 1, kThreads * kGroup); }
template <class T>
__global__ void cross_entropy_grad_wide_kernel(T* dx, const T* x, const float* dloss,
                                               const float* lses, const int32_t* targets,
                                               const StepScalars* scalars, unsigned across,
                                               int64_t width, int64_t classes,
                                               CrossEntropyAttrs attrs) {
  const int64_t row = blockIdx.x / across, before = blockIdx.x % across * kThreads + threadIdx.x;
  T* to = dx + row * width;
  const int skew = int(reinterpret_cast<uintptr_t>(to) % 16 / sizeof(T));
  const int64_t first = before * kGroup - skew;  // less than 0: at the boundary before the row
  if (first >= width) return;
  const int begin = first < 0 ? int(-first) : 0, end = group_size(first, width);
  const bool whole = begin == 0 && end == kGroup;
  const int64_t target = targets[row];
  const bool ignored = target == attrs.ignore && attrs.ignore >= 0;
  float v[kGroup] = {};
  if (!ignored) {
    const T* from = x + row * width + first;
    if (whole) {
      load_anywhere(from, kGroup, v);
    } else {
#pragma unroll
      for (int k = 0; k < kGroup; ++k) v[k] = k >= begin && k < end ? load(from, k) : 0;
    }
    const float lse = lses[row], factor = *dloss / scalars->tokens;
    const float uniform = attrs.smoothing / float(classes), rest = 1 - attrs.smoothing;
    const int64_t hit = target - first, beyond = classes - first;
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      const float p = exp_near(v[k] - lse) - uniform;
      v[k] = k < beyond ? factor * (k == hit ? p - rest : p) : 0;
    }
  }
  if (whole) return store8(whole_groups(to + first), 0, kGroup, v);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    if (k >= begin && k < end) store(to + first, k, v[k]);
  }
}
void run_cross_entropy_grad(const KernelArgs& a) {
  const int64_t rows = a.in_spec[1].shape[0], width = a.in_spec[1].shape[1];
  if (width >= kWideLossRow) {
    const int64_t across = blocks_of_row(width);
    return by_float_type(a.in_spec[1].dtype, [&]<class T>(T) {
      launch(cross_entropy_grad_wide_kernel<T>, {rows * across}, a, a.output<T>(0), a.input<T>(1),
             a.input(0), a.input(2), a.input<int32_t>(3), a.input<StepScalars>(4), unsigned(across),
             width, a.attrs.as<CrossEntropyAttrs>().classes_of(a.in_spec[1]),
             a.attrs.as<CrossEntropyAttrs>());
    });
  }
  launch(cross_entropy_grad_kernel, grid_of_groups(rows * groups_of(width)), a,
         stored(a.out[0], a.out_spec[0], width), stored(a.in[1], a.in_spec[1], width), a.input(0),
         a.input(2), a.input<int32_t>(3), a.input<StepScalars>(4), rows, width,
         a.attrs.as<CrossEntropyAttrs>().classes_of(a.in_spec[1]), a.attrs.as<CrossEntropyAttrs>());
}

}  // namespace

const Backend cross_entropy_cuda{.run = run_cross_entropy, .prepare = prepare_cross_entropy};
const Backend cross_entropy_grad_cuda{.run = run_cross_entropy_grad};

}  // namespace pal
