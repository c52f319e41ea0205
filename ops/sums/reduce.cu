// Sums over leading axes and over everything, and broadcasts. Chunks are those of the CPU's
// kernels, and are added up in their order: no atomics, and the same bits.
#include "ops/kernels/cuda_columns.h"
#include "ops/kernels/cuda_row_copies.h"
#include "ops/kernels/operands.h"
#include "ops/sums/cuda_sums.h"
#include "ops/sums/reduce.h"

namespace pal {
namespace {

// ---- sum_leading ----

constexpr int kGroupWarps = kThreads / kWarp;  // groups of chunks that a block adds up itself
static_assert(kGroupWarps * kSumRun == kSumRows);
constexpr int kRowsAhead = 8;        // that a thread has on their way at once
constexpr int64_t kSumBlocks = 256;  // two for each of 132 processors, nearly

// to[chunk, c] = (so_far[c] +) the sum of the chunk's rows: a block has some columns of a chunk, a
// warp a run of its rows.
template <int N, class T>
__global__ void sum_runs_kernel(Stored to, const T* x, int64_t rows, int64_t width, int64_t stride,
                                Stored so_far) {
  constexpr int kColumns = kWarp * N;
  float* runs = shared_memory<float>();
  const unsigned across = unsigned((width + kColumns - 1) / kColumns);
  const unsigned chunk = blockIdx.x / across;
  const int64_t first = int64_t(blockIdx.x - chunk * across) * kColumns;
  const int64_t column = first + lane_number() * N;
  const int64_t begin = chunk * kSumRows + warp_number() * kSumRun;
  const int count = rows - begin < kSumRun ? int(rows - begin) : int(kSumRun);
  float sum[N] = {};
  if (column < width) {
    const T* from = x + begin * stride + column;
    int r = 0;
    for (; r + kRowsAhead <= count; r += kRowsAhead) {
      float v[kRowsAhead][N];
#pragma unroll
      for (int k = 0; k < kRowsAhead; ++k) load_columns_at<N>(from + (r + k) * stride, v[k]);
#pragma unroll
      for (int k = 0; k < kRowsAhead; ++k) {
#pragma unroll
        for (int j = 0; j < N; ++j) sum[j] += v[k][j];
      }
    }
    for (; r < count; ++r) {
      float v[N];
      load_columns_at<N>(from + r * stride, v);
#pragma unroll
      for (int j = 0; j < N; ++j) sum[j] += v[j];
    }
  }
#pragma unroll
  for (int j = 0; j < N; ++j) runs[warp_number() * kColumns + lane_number() * N + j] = sum[j];
  __syncthreads();
  const int64_t c = first + threadIdx.x;
  if (threadIdx.x >= kColumns || c >= width) return;
  float total = 0;
#pragma unroll
  for (int run = 0; run < kGroupWarps; ++run) total += runs[run * kColumns + threadIdx.x];
  if (so_far.data) total = load1(so_far, c) + total;
  store1(to, chunk * width + c, total);
}

// to[c] = the sum of the groups' sums of kSumChunks chunks (+ so_far[c]); a warp has a group, and a
// block 32 columns of all of them.
__global__ void sum_groups_kernel(Stored to, const float* partial, int64_t chunks, int64_t width,
                                  Stored so_far) {
  float* groups = shared_memory<float>();
  const int64_t c = int64_t(blockIdx.x) * kWarp + lane_number();
  const int64_t begin = warp_number() * kSumChunks;
  const int64_t end = begin + kSumChunks < chunks ? begin + kSumChunks : chunks;
  float sum = 0;
  if (c < width) {
#pragma unroll 16
    for (int64_t k = begin; k < end; ++k) sum += partial[k * width + c];
  }
  groups[threadIdx.x] = sum;
  __syncthreads();
  if (warp_number() || c >= width) return;
  sum = 0;
  for (int64_t g = 0; g * kSumChunks < chunks; ++g) sum += groups[g * kWarp + lane_number()];
  if (so_far.data) sum = load1(so_far, c) + sum;
  store1(to, c, sum);
}

// The chunks' sums; behind them there is room for the groups', where one block does not have all.
void sum_chunks(const KernelArgs& a, const Stored& to, float* partial, int64_t chunks,
                int64_t width, const Stored& so_far) {
  const int64_t groups = blocks_of(chunks, kSumChunks);
  if (groups == 1) return sum_partials(a, to, partial, chunks, width, width, so_far);
  if (groups <= kGroupWarps) {
    return launch(sum_groups_kernel, {blocks_of(width, kWarp)}, kThreads, kThreads * sizeof(float),
                  stream_of(a), to, partial, chunks, width, so_far);
  }
  float* sums = partial + chunks * width;
  launch(sum_rows_kernel<float>, {blocks_of(width, kColumnThreads) * groups}, kColumnThreads, a,
         Stored{.data = sums}, partial, chunks, width, width, kSumChunks, Stored{});
  sum_partials(a, to, sums, groups, width, width, so_far);
}

// Columns of a thread, the last of which may lie behind those that count: as many as leave a warp
// full, and blocks for all of the card's processors.
template <class T> int columns_to_sum(const T* x, int64_t width, int64_t stride, int64_t chunks) {
  int columns = are_columns_aligned(stride, x) ? 4 : 1;
  while (columns > 1 &&
         (width < kWarp * columns || blocks_of(width, kWarp * columns) * chunks < kSumBlocks)) {
    columns /= 2;
  }
  return columns;
}

void run_sum_leading(const KernelArgs& a) {
  const int64_t width = a.out_spec[0].numel();
  if (width == 0) return;
  const int64_t rows = leading_numel(a.in_spec[0].shape, a.attrs.as<SumLeadingAttrs>().axes);
  const int64_t stride = rows ? a.in_spec[0].numel() / rows : 0;
  const int64_t chunks = blocks_of(rows, kSumRows);
  const Stored out = stored(a.out[0], a.out_spec[0]);
  const Stored so_far = stored(input_if_present(a, 1), a.out_spec[0]);
  float* partial = reinterpret_cast<float*>(a.workspace);
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    const T* x = a.input<T>(0);
    with_columns<1, 2, 4>(columns_to_sum(x, width, stride, chunks), [&](auto n) {
      launch(sum_runs_kernel<n(), T>, {warps_across<n()>(width) * chunks}, kThreads,
             kThreads * n() * sizeof(float), stream_of(a),
             chunks > 1 ? Stored{.data = partial} : out, x, rows, width, stride,
             chunks > 1 ? Stored{} : so_far);
    });
    if (chunks > 1) sum_chunks(a, out, partial, chunks, width, so_far);
  });
}
Prepared prepare_sum_leading(const Device&, SpecSpan in, SpecSpan out, const Attrs& attrs) {
  const int64_t rows = leading_numel(in[0].shape, attrs.as<SumLeadingAttrs>().axes);
  const int64_t chunks = blocks_of(rows, kSumRows), groups = blocks_of(chunks, kSumChunks);
  const int64_t sums = chunks > 1 ? chunks + (groups > kGroupWarps ? groups : 0) : 0;
  return {.workspace = sums * out[0].numel() * int64_t(sizeof(float))};
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
void run_sum_all(const KernelArgs& a) {
  const int64_t size = a.in_spec[0].numel(), chunks = blocks_of(size, kRun);
  float* partial = reinterpret_cast<float*>(a.workspace);
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    launch(sum_all_kernel<T>, {blocks_of(chunks, kChunksPerBlock)}, a, partial, a.input<T>(0),
           size);
  });
  finish_sum(a, partial, chunks, nullptr);
}
Prepared prepare_sum_all(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  return {.workspace = blocks_of(in[0].numel(), kRun) * int64_t(sizeof(float))};
}

// ---- add_broadcast, broadcast_leading ----

__global__ void add_broadcast_kernel(Stored y, Stored x, Stored b, int64_t rows, int64_t width,
                                     bool apart) {
  const RowEight e(rows, width, apart);
  if (e.none()) return;
  float v[kGroup], w[kGroup];
  e.load(x, v), e.load_row(b, w);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) v[k] = v[k] + w[k];
  e.store(y, v);
}

// The same in long rows that lie on boundaries of N elements alone (logits of a vocabulary): a
// block has so many columns of a row, and a thread some N of them, which lie side by side in a
// warp.
constexpr int kLongGroups = 4;

template <int N, class T, class B>
__global__ void add_to_long_rows_kernel(T* y, const T* x, const B* b, int64_t width) {
  constexpr int kColumns = kLongGroups * kThreads * N;
  const unsigned across = unsigned((width + kColumns - 1) / kColumns);
  const unsigned row = blockIdx.x / across;
  const int64_t first = int64_t(blockIdx.x - row * across) * kColumns + int64_t(threadIdx.x) * N;
  if (first >= width) return;
  float v[kLongGroups][N], w[kLongGroups][N];
#pragma unroll
  for (int k = 0; k < kLongGroups; ++k) {
    const int64_t column = first + k * kThreads * N, c = column < width ? column : first;
    load_columns_at<N>(x + row * width + c, v[k]);
    load_columns_at<N>(b + c, w[k]);
  }
#pragma unroll
  for (int k = 0; k < kLongGroups; ++k) {
    const int64_t column = first + k * kThreads * N;
#pragma unroll
    for (int j = 0; j < N; ++j) v[k][j] = v[k][j] + w[k][j];
    if (column < width) store_columns_at<N>(y + row * width + column, v[k]);
  }
}
// How many elements of rows that no eight fit can be moved at once, 1 where that is not worth it.
int columns_of_long_rows(const KernelArgs& a, int64_t width) {
  const auto is_multiple = [&](int n, const void* data, DType type) {
    return reinterpret_cast<uintptr_t>(data) % uintptr_t(n * bits(type) / 8) == 0;
  };
  if (width % kGroup == 0 || width < 2 * kThreads) return 1;
  for (const int n : {4, 2}) {
    if (width % n == 0 && is_multiple(n, a.in[0], a.in_spec[0].dtype) &&
        is_multiple(n, a.in[1], a.in_spec[1].dtype) &&
        is_multiple(n, a.out[0], a.out_spec[0].dtype)) {
      return n;
    }
  }
  return 1;
}

void run_add_broadcast(const KernelArgs& a) {
  const int64_t width = a.in_spec[1].numel();
  if (width == 0) return;
  const int64_t rows = a.out_spec[0].numel() / width;
  if (const int columns = columns_of_long_rows(a, width); columns > 1) {
    return by_float_type(a.out_spec[0].dtype, [&]<class T>(T) {
      by_float_type(a.in_spec[1].dtype, [&]<class B>(B) {
        with_columns<2, 4>(columns, [&](auto n) {
          launch(add_to_long_rows_kernel<n(), T, B>,
                 {rows * blocks_of(width, kLongGroups * kThreads * n())}, a, a.output<T>(0),
                 a.input<T>(0), a.input<B>(1), width);
        });
      });
    });
  }
  const Stored y = stored(a.out[0], a.out_spec[0], width), x = stored(a.in[0], a.in_spec[0], width);
  launch(add_broadcast_kernel, grid_of_groups(rows * groups_of(width)), a, y, x,
         stored(a.in[1], a.in_spec[1], width), rows, width, row_fours_apart(width, y, x));
}

void run_broadcast(const KernelArgs& a) {
  const int64_t width = a.in_spec[0].numel(), rows = width ? a.out_spec[0].numel() / width : 0;
  const int64_t bytes = a.in_spec[0].bytes();
  copy_rows_async(a, a.out[0], bytes, a.in[0], 0, rows, bytes, SameRow{});
}

}  // namespace

const Backend add_broadcast_cuda{.run = run_add_broadcast};
const Backend broadcast_leading_cuda{.run = run_broadcast};
const Backend sum_all_cuda{.run = run_sum_all, .prepare = prepare_sum_all};
const Backend sum_leading_cuda{.run = run_sum_leading, .prepare = prepare_sum_leading};

}  // namespace pal
