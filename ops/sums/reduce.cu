// Sums over leading axes and over everything, inner products, the norm's gate. Chunks are those of
// the CPU's kernels, and are added up in their order: no atomics, and the same bits.
#include "core/scalars.h"
#include "ops/kernels/cuda.h"
#include "ops/kernels/cuda_rows.h"
#include "ops/kernels/operands.h"
#include "ops/sums/dot_last.h"
#include "ops/sums/gates.h"
#include "ops/sums/reduce.h"

namespace pal {
namespace {

int64_t row_count(const Shape& x) { return leading_numel(x, x.rank() - 1); }

// ---- sum_leading ----

void run_sum_leading(const KernelArgs& a) {
  const int64_t width = a.out_spec[0].numel();
  if (!a.out[0] || width == 0) return;
  const int64_t rows = leading_numel(a.in_spec[0].shape, a.attrs.as<SumLeadingAttrs>().axes);
  const int64_t chunks = blocks_of(rows, kSumRows), blocks = blocks_of(width, kColumnThreads);
  const Stored out = stored(a.out[0], a.out_spec[0]);
  const Stored so_far = stored(input_if_present(a, 1), a.out_spec[0]);
  float* partial = reinterpret_cast<float*>(a.workspace);
  by_float_type(a.in_spec[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* x = a.input<T>(0);
    if (chunks <= 1) {
      return launch(sum_rows_kernel<T>, {blocks}, kColumnThreads, 0, stream_of(a), out, x, rows,
                    width, width, rows, so_far);
    }
    launch(sum_rows_kernel<T>, {blocks, chunks}, kColumnThreads, 0, stream_of(a),
           Stored{.data = partial}, x, rows, width, width, kSumRows, Stored{});
    sum_partials(a, out, partial, chunks, width, width, so_far);
  });
}
Prepared prepare_sum_leading(const Device&, SpecSpan in, SpecSpan out, const Attrs& attrs) {
  const int64_t rows = leading_numel(in[0].shape, attrs.as<SumLeadingAttrs>().axes);
  const int64_t chunks = blocks_of(rows, kSumRows);
  return {.workspace = chunks > 1 ? chunks * out[0].numel() * int64_t(sizeof(float)) : 0};
}

// ---- sum_all ----

constexpr int kSumLanes = 16;  // columns that a chunk of kRun elements is dealt out to
constexpr int64_t kRun = 4096;
constexpr int kChunksPerBlock = kThreads / kSumLanes;

template <class T> __global__ void sum_all_kernel(float* partial, const T* x, int64_t size) {
  const int64_t chunk = int64_t(blockIdx.x) * kChunksPerBlock + threadIdx.x / kSumLanes;
  const int64_t begin = chunk * kRun, lane = threadIdx.x % kSumLanes;
  const int64_t n = size - begin < kRun ? size - begin : kRun;
  float mine = 0, sum = 0;
#pragma unroll 8
  for (int64_t i = lane; i < n; i += kSumLanes) mine += load(x, begin + i);
  for (int l = 0; l < kSumLanes; ++l) {
    sum += __shfl_sync(kAllLanes, mine, int(lane_number() / kSumLanes * kSumLanes + l));
  }
  if (lane == 0 && n > 0) partial[chunk] = sum;
}
// out = the partial sums in order (+ old).
template <class P>
__global__ void finish_sum_kernel(float* out, const P* partial, int64_t count, const float* old) {
  const double sum =
      sum_in_order(count, shared_memory<double>(), [&](int64_t i) { return double(partial[i]); });
  if (threadIdx.x == 0) *out = float(sum) + (old ? *old : 0.0f);
}
template <class P>
void finish_sum(const KernelArgs& a, const P* partial, int64_t count, const float* old) {
  launch(finish_sum_kernel<P>, {1}, kThreads, kThreads * sizeof(double), stream_of(a), a.output(0),
         partial, count, old);
}
void run_sum_all(const KernelArgs& a) {
  if (!a.out[0]) return;
  const int64_t size = a.in_spec[0].numel(), chunks = blocks_of(size, kRun);
  float* partial = reinterpret_cast<float*>(a.workspace);
  by_float_type(a.in_spec[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(sum_all_kernel<T>, {blocks_of(chunks, kChunksPerBlock)}, kThreads, 0, stream_of(a),
           partial, a.input<T>(0), size);
  });
  finish_sum(a, partial, chunks, nullptr);
}
Prepared prepare_sum_all(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  return {.workspace = blocks_of(in[0].numel(), kRun) * int64_t(sizeof(float))};
}

// ---- sum_of_squares, inner_product ----

constexpr int kTilesPerChunk = int(kElementGrain / kTile);  // a warp each
constexpr int kProductThreads = kTilesPerChunk * kWarp;

// partial[chunk] = the tiles' sums of x y, added up in double.
template <class T>
__launch_bounds__(kProductThreads) __global__
    void products_kernel(double* partial, const T* x, const T* y, int64_t size) {
  float* sums = shared_memory<float>();
  const int64_t chunk = int64_t(blockIdx.x) * kElementGrain;
  const int64_t begin = chunk + warp_number() * kTile;
  const int64_t n = size - begin < kTile ? size - begin : kTile;
  const float sum =
      warp_row_sum(n, [&](int64_t i) { return load(x, begin + i) * load(y, begin + i); });
  if (lane_number() == 0) sums[warp_number()] = sum;
  __syncthreads();
  if (threadIdx.x) return;
  double total = 0;
  for (int t = 0; t < kTilesPerChunk && chunk + t * kTile < size; ++t) total += double(sums[t]);
  partial[blockIdx.x] = total;
}
void sum_products(const KernelArgs& a, size_t x, size_t y, const float* old) {
  if (!a.out[0]) return;
  const int64_t size = a.in_spec[x].numel(), chunks = blocks_of(size, kElementGrain);
  double* partial = reinterpret_cast<double*>(a.workspace);
  by_float_type(a.in_spec[x].dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(products_kernel<T>, {chunks}, kProductThreads, kTilesPerChunk * sizeof(float),
           stream_of(a), partial, a.input<T>(x), a.input<T>(y), size);
  });
  finish_sum(a, partial, chunks, old);
}
void run_squares(const KernelArgs& a) { sum_products(a, 0, 0, nullptr); }
void run_inner_product(const KernelArgs& a) {
  sum_products(a, 0, 1, input_if_present<float>(a, 2));
}
Prepared prepare_products(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  return {.workspace = blocks_of(in[0].numel(), kElementGrain) * int64_t(sizeof(double))};
}

// ---- clip_norm_gate ----

constexpr int kPartials = 256;  // sums of squares that a launch takes
struct Partials {
  const float* of[kPartials];
  int count;
};

// Adds to `sum`, from zero in the first launch; the last makes the gate. One thread.
__global__ void gate_kernel(Partials partials, double* sum, bool first, bool last,
                            const StepScalars* scalars, const float* loss, ClipNormAttrs attrs,
                            float* out) {
  if (threadIdx.x) return;
  double total = first ? 0 : *sum;
  for (int k = 0; k < partials.count; ++k) total += double(*partials.of[k]);
  *sum = total;
  if (!last) return;
  const double loss_scale = double(scalars->loss_scale), norm = sqrt(total) / loss_scale;
  const bool finite = norm - norm == 0 && (!loss || *loss - *loss == 0);
  const double wanted = double(attrs.max_norm) / (norm + 1e-6);
  const double clip = attrs.max_norm > 0 && wanted < 1.0 ? wanted : 1.0;
  out[0] = float(clip / loss_scale);
  out[1] = finite || !attrs.check_finite ? 1.0f : 0.0f;
  out[2] = float(norm);
  out[3] = 0;
}
void run_gate(const KernelArgs& a) {
  if (!a.out[0]) return;
  bool first = true;
  for (size_t k = 2; first || k < a.in.size();) {
    Partials partials{};
    for (; k < a.in.size() && partials.count < kPartials; ++k) {
      if (const float* p = input_if_present<float>(a, k)) partials.of[partials.count++] = p;
    }
    launch(gate_kernel, {1}, kWarp, 0, stream_of(a), partials,
           reinterpret_cast<double*>(a.workspace), first, k >= a.in.size(), a.input<StepScalars>(0),
           input_if_present<float>(a, 1), a.attrs.as<ClipNormAttrs>(), a.output(0));
    first = false;
  }
}
Prepared prepare_gate(const Device&, SpecSpan, SpecSpan, const Attrs&) {
  return {.workspace = int64_t(sizeof(double))};
}

// ---- add_broadcast ----

__global__ void add_broadcast_kernel(Stored y, Stored x, Stored b, int64_t rows, int64_t width) {
  const int64_t g = thread_number(), per_row = (width + kGroup - 1) / kGroup;
  if (g >= rows * per_row) return;
  const int64_t row = g / per_row, j = (g - row * per_row) * kGroup;
  const int n = group_size(j, width);
  float v[kGroup], w[kGroup];
  load8(x, row * width + j, n, v);
  load8(b, j, n, w);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) v[k] = v[k] + w[k];
  store8(y, row * width + j, n, v);
}
void run_add_broadcast(const KernelArgs& a) {
  const int64_t width = a.in_spec[1].numel();
  if (!a.out[0] || width == 0) return;
  const int64_t rows = a.out_spec[0].numel() / width;
  launch(add_broadcast_kernel, grid_of_groups(rows * groups_of(width)), kThreads, 0, stream_of(a),
         stored(a.out[0], a.out_spec[0], width), stored(a.in[0], a.in_spec[0], width),
         stored(a.in[1], a.in_spec[1], width), rows, width);
}

// ---- dot_last ----

template <class T>
__global__ void dot_last_kernel(T* y, const T* x, const float* v, int64_t rows, int64_t width) {
  const int64_t row = row_of_warp();
  if (row >= rows) return;
  const T* mine = x + row * width;
  const float sum = warp_row_sum(width, [&](int64_t j) { return load(mine, j) * v[j]; });
  if (lane_number() == 0) store(y, row, sum);
}
void run_dot_last(const KernelArgs& a) {
  if (!a.out[0]) return;
  const int64_t width = a.in_spec[1].shape[0], rows = row_count(a.in_spec[0].shape);
  by_float_type(a.in_spec[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(dot_last_kernel<T>, {blocks_of(rows, kRowsPerBlock)}, kThreads, 0, stream_of(a),
           a.output<T>(0), a.input<T>(0), a.input(1), rows, width);
  });
}
// partial[chunk, c] = the chunk's sum of dy[row] x[row, c].
template <class T>
__global__ void dot_last_dv_kernel(float* partial, const T* dy, const T* x, int64_t rows,
                                   int64_t width, int64_t per_chunk) {
  const int64_t c = thread_number();
  if (c >= width) return;
  const int64_t begin = int64_t(blockIdx.y) * per_chunk;
  const int64_t end = begin + per_chunk < rows ? begin + per_chunk : rows;
  float sum = 0;
#pragma unroll 4
  for (int64_t r = begin; r < end; ++r) sum += load(dy, r) * load(x, r * width + c);
  partial[int64_t(blockIdx.y) * width + c] = sum;
}
__global__ void dot_last_dx_kernel(Stored dx, Stored dy, Stored v, int64_t rows, int64_t width) {
  const int64_t g = thread_number(), per_row = (width + kGroup - 1) / kGroup;
  if (g >= rows * per_row) return;
  const int64_t row = g / per_row, j = (g - row * per_row) * kGroup;
  const int n = group_size(j, width);
  const float d = load1(dy, row);
  float w[kGroup];
  load8(v, j, n, w);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) w[k] = d * w[k];
  store8(dx, row * width + j, n, w);
}
// dy (..), x (.., A), v (A) | sum (A) -> dx, dv; dx may lie over x, so it comes after what reads x.
void run_dot_last_grad(const KernelArgs& a) {
  const int64_t width = a.in_spec[2].shape[0], rows = row_count(a.in_spec[1].shape);
  const int64_t per_chunk = dot_last_rows(rows), chunks = blocks_of(rows, per_chunk);
  float* partial = reinterpret_cast<float*>(a.workspace);
  by_float_type(a.in_spec[1].dtype, [&](auto zero) {
    using T = decltype(zero);
    if (!a.out[1]) return;
    launch(dot_last_dv_kernel<T>, {blocks_of(width, kColumnThreads), chunks}, kColumnThreads, 0,
           stream_of(a), partial, a.input<T>(0), a.input<T>(1), rows, width, per_chunk);
  });
  if (a.out[0]) {
    launch(dot_last_dx_kernel, grid_of_groups(rows * groups_of(width)), kThreads, 0, stream_of(a),
           stored(a.out[0], a.out_spec[0], width), stored(a.in[0], a.in_spec[0]),
           stored(a.in[2], a.in_spec[2], width), rows, width);
  }
  if (a.out[1]) {
    sum_partials(a, stored(a.out[1], a.out_spec[1]), partial, chunks, width, width,
                 stored(input_if_present(a, 3), a.out_spec[1]));
  }
}
Prepared prepare_dot_last_grad(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  const int64_t rows = row_count(in[1].shape);
  return {.workspace =
              blocks_of(rows, dot_last_rows(rows)) * in[2].shape[0] * int64_t(sizeof(float))};
}

}  // namespace

const Backend add_broadcast_cuda{.run = run_add_broadcast};
const Backend clip_norm_gate_cuda{.run = run_gate, .prepare = prepare_gate};
const Backend dot_last_cuda{.run = run_dot_last};
const Backend dot_last_grad_cuda{.run = run_dot_last_grad, .prepare = prepare_dot_last_grad};
const Backend inner_product_cuda{.run = run_inner_product, .prepare = prepare_products};
const Backend sum_all_cuda{.run = run_sum_all, .prepare = prepare_sum_all};
const Backend sum_leading_cuda{.run = run_sum_leading, .prepare = prepare_sum_leading};
const Backend sum_of_squares_cuda{.run = run_squares, .prepare = prepare_products};

}  // namespace pal
