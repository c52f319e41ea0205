// An embedding, and its gradient without atomics: positions are sorted by (id, position), and the
// rows of one id are added up one after the other, in the order of the CPU's kernel, so the bits
// are its own. An id of more than 32 rows (a frequent word) has runs of as many, which are summed
// side by side and then added to its row in order. The sort is bitonic (Batcher 1968) on distinct
// 64-bit keys: what lies within a chunk of keys is sorted in shared memory, a launch for all of its
// steps; beyond, a launch has three.
#include "ops/kernels/cuda_columns.h"
#include "ops/kernels/cuda_row_copies.h"
#include "ops/kernels/operands.h"
#include "ops/tensors/embedding.h"

namespace pal {
namespace {

struct RowOfId {  // an id outside the table: the NaN guard stops the step
  const int32_t* ids;
  int64_t table;
  __device__ int64_t operator()(int64_t r) const {
    return uint32_t(ids[r]) < uint32_t(table) ? ids[r] : kNoRow;
  }
};
void run_embedding(const KernelArgs& a) {
  const int64_t bytes = row_bytes(a.in_spec[0]);
  copy_rows_async(a, a.out[0], bytes, a.in[0], bytes, a.in_spec[1].numel(), bytes,
                  RowOfId{a.input<int32_t>(1), a.in_spec[0].shape[0]});
}

constexpr int64_t kSortedChunk = 4096;  // keys that a block sorts
constexpr int kSortThreads = 1024;
constexpr int kAhead = 4;            // rows that are brought at once
constexpr int kRunRows = kWarp;      // of an id that are added up one after the other
constexpr uint64_t kNone64 = ~0ull;  // a position that adds nothing, and the filling up to 2^k

int64_t padded(int64_t n) {
  int64_t p = 2;
  while (p < n) p *= 2;
  return p;
}

// The keys before they are sorted.
struct IdKeys {
  const int32_t* ids = nullptr;
  int64_t count = 0, rows = 0, padding = 0;

  __device__ uint64_t at(int64_t i) const {
    if (i >= count) return kNone64;
    const uint32_t id = uint32_t(ids[i]);
    const bool adds = id < uint64_t(rows) && int64_t(id) != padding;
    return adds ? uint64_t(id) << 32 | uint64_t(i) : kNone64;
  }
};

__device__ void compare_exchange(uint64_t& a, uint64_t& b, bool ascending) {
  const uint64_t first = a, second = b;
  if ((first > second) == ascending) a = second, b = first;
}

// The steps of merges k = first, .., last (powers of two) that stay within a chunk. Keys are made
// of ids where there are some. Those with bit k of their number 0 come to be ascending.
__global__ void sort_chunk_kernel(uint64_t* keys, int chunk, int64_t first, int64_t last,
                                  IdKeys made) {
  uint64_t* mine = shared_memory<uint64_t>();
  const int64_t base = int64_t(blockIdx.x) * chunk;
  const int thread = int(threadIdx.x), threads = int(blockDim.x);
  for (int i = thread; i < chunk; i += threads) {
    mine[i] = made.ids ? made.at(base + i) : keys[base + i];
  }
  __syncthreads();
  for (int64_t k = first; k <= last; k *= 2) {
    const bool descends = base & k;
    const int bit = k < chunk ? int(k) : 0;  // of a key's number within the chunk
    for (int j = k / 2 < chunk ? int(k / 2) : chunk / 2; j > 0; j /= 2) {
      for (int pair = thread; pair < chunk / 2; pair += threads) {
        const int i = 2 * pair - (pair & (j - 1));  // j is a power of two
        compare_exchange(mine[i], mine[i + j], !descends && !(i & bit));
      }
      __syncthreads();
    }
  }
  for (int i = thread; i < chunk; i += threads) keys[base + i] = mine[i];
}
// Steps of merge k across chunks, the last over the distance j: a thread has all keys that meet.
template <int kSteps>
__global__ void sort_steps_kernel(uint64_t* keys, int64_t threads, int64_t j, int64_t k) {
  const int64_t t = thread_number();
  if (t >= threads) return;
  uint64_t* first = keys + ((t - (t & (j - 1))) << kSteps) + (t & (j - 1));
  const bool ascending = ((first - keys) & k) == 0;
  constexpr int kKeys = 1 << kSteps;
  uint64_t mine[kKeys];
#pragma unroll
  for (int e = 0; e < kKeys; ++e) mine[e] = first[e * j];
#pragma unroll
  for (int apart = kKeys / 2; apart > 0; apart /= 2) {
#pragma unroll
    for (int e = 0; e < kKeys; ++e) {
      if (!(e & apart)) compare_exchange(mine[e], mine[e + apart], ascending);
    }
  }
#pragma unroll
  for (int e = 0; e < kKeys; ++e) first[e * j] = mine[e];
}
// So many steps of merge k, the first over the distance `top`; -> the distance of the next.
template <int kSteps>
int64_t sort_steps(const KernelArgs& a, uint64_t* keys, int64_t size, int64_t top, int64_t k) {
  const int64_t threads = size >> kSteps, j = top >> (kSteps - 1);
  launch(sort_steps_kernel<kSteps>, {blocks_of(threads, kThreads)}, a, keys, threads, j, k);
  return j / 2;
}
// The steps of merge k over distances from k / 2 down to `least`.
void sort_across(const KernelArgs& a, uint64_t* keys, int64_t size, int64_t k, int64_t least) {
  for (int64_t top = k / 2; top >= least;) {
    top = top >= 4 * least   ? sort_steps<3>(a, keys, size, top, k)
          : top >= 2 * least ? sort_steps<2>(a, keys, size, top, k)
                             : sort_steps<1>(a, keys, size, top, k);
  }
}

__device__ uint32_t id_of(uint64_t key) { return uint32_t(key >> 32); }
// The first of places 0 .. at that has the id of place `at`.
__device__ int64_t first_of_id(const uint64_t* keys, int64_t at, uint32_t id) {
  int64_t low = 0;
  while (low < at) {
    const int64_t middle = (low + at) / 2;
    if (id_of(keys[middle]) < id)
      low = middle + 1;
    else
      at = middle;
  }
  return low;
}
// Where the sum of the run from `place` on lies among those of a frequent id's runs, as a row. Only
// an id's last run is shorter than kRunRows, and behind it another id's first may begin.
__device__ int64_t row_of_run(int64_t place, bool is_first) {
  return 2 * (place / kRunRows) + is_first;
}

// Sorted rows of dy, to be added to a table.
template <class T, class D> struct SortedRows {
  T* table;
  float* partial;  // sums of the runs of frequent ids
  const D* dy;
  const uint64_t* keys;
  int64_t count, width;

  __device__ bool has(int64_t place, uint32_t id) const {
    const bool exists = place >= 0 && place < count;
    return id_of(keys[exists ? place : 0]) == id && exists;
  }
};

// A block for every place in the sorted order: those where a run begins add up its rows. Every sum
// on the table's own row is rounded to T, as the CPU's is.
template <int N, class T, class D> __global__ void add_rows_kernel(SortedRows<T, D> a) {
  const int64_t place = blockIdx.x, place_of_lane = place + lane_number();
  // All at once, as each is far away.
  const uint64_t key = a.keys[place];
  const uint64_t key_of_lane = place_of_lane < a.count ? a.keys[place_of_lane] : kNone64;
  const uint32_t id = id_of(key);
  const bool is_first = !a.has(place - 1, id);
  const bool run_before = a.has(place - kRunRows, id), run_behind = a.has(place + kRunRows, id);
  if (key == kNone64 || (!is_first && !run_before)) return;
  if (!is_first && (place - first_of_id(a.keys, place, id)) % kRunRows) return;
  const bool frequent = !is_first || run_behind;
  const int row_of_lane = int(uint32_t(key_of_lane));
  const int rows = __popc(__ballot_sync(kAllLanes, id_of(key_of_lane) == id));
  T* row = a.table + id * a.width;
  float* run = a.partial + row_of_run(place, is_first) * a.width;
  for (int64_t first = 0; first < a.width; first += int64_t(blockDim.x) * N) {
    const int64_t c = first + int64_t(threadIdx.x) * N;
    const bool exists = c < a.width;
    float sum[N] = {};
    if (exists && !frequent) load_columns_at<N>(row + c, sum);
    for (int r = 0; r < rows; r += kAhead) {
      float v[kAhead][N];
      int from[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        from[k] = __shfl_sync(kAllLanes, row_of_lane, r + k < rows ? r + k : r);
      }
      if (!exists) continue;
#pragma unroll
      for (int k = 0; k < kAhead; ++k) load_columns_at<N>(a.dy + from[k] * a.width + c, v[k]);
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
#pragma unroll
        for (int j = 0; j < N; ++j) {
          const float next = sum[j] + v[k][j];
          if (r + k < rows) sum[j] = frequent ? next : as_stored<T>(next);
        }
      }
    }
    if (exists && frequent) store_columns_at<N>(run + c, sum);
    if (exists && !frequent) store_columns_at<N>(row + c, sum);
  }
}

// A block for every kRunRows places, where one frequent id at most begins: adds its runs to its
// row.
template <int N, class T, class D> __global__ void add_runs_kernel(SortedRows<T, D> a) {
  const int64_t at = int64_t(blockIdx.x) * kRunRows + lane_number();
  const uint64_t key = at < a.count ? a.keys[at] : kNone64;
  const bool begins =
      key != kNone64 && !a.has(at - 1, id_of(key)) && a.has(at + kRunRows, id_of(key));
  const unsigned found = __ballot_sync(kAllLanes, begins);
  if (!found) return;
  const int64_t place = int64_t(blockIdx.x) * kRunRows + __popc((found & (0 - found)) - 1);
  const uint32_t id = id_of(a.keys[place]);
  T* row = a.table + id * a.width;
  for (int64_t first = 0; first < a.width; first += int64_t(blockDim.x) * N) {
    const int64_t c = first + int64_t(threadIdx.x) * N;
    const bool exists = c < a.width;
    float sum[N] = {};
    if (exists) load_columns_at<N>(row + c, sum);
    int runs = kWarp;  // of the next ones so many are the id's
    for (int64_t next = place; runs == kWarp; next += kWarp * kRunRows) {
      const bool is_there = a.has(next + lane_number() * kRunRows, id);
      runs = __popc(__ballot_sync(kAllLanes, is_there));
      for (int r = 0; r < runs && exists; r += kAhead) {
        float v[kAhead][N];
#pragma unroll
        for (int k = 0; k < kAhead; ++k) {
          const int64_t run = next + (r + k < runs ? r + k : r) * kRunRows;
          load_columns_at<N>(a.partial + row_of_run(run, run == place) * a.width + c, v[k]);
        }
#pragma unroll
        for (int k = 0; k < kAhead; ++k) {
#pragma unroll
          for (int j = 0; j < N; ++j) {
            if (r + k < runs) sum[j] = as_stored<T>(sum[j] + v[k][j]);
          }
        }
      }
    }
    if (exists) store_columns_at<N>(row + c, sum);
  }
}

// Of the runs' sums, which lie behind the keys: two for every kRunRows places.
int64_t run_bytes(int64_t count, int64_t width) {
  return 2 * blocks_of(count, kRunRows) * width * int64_t(sizeof(float));
}

Prepared prepare_embedding_grad(const Device&, SpecSpan in, SpecSpan out, const Attrs&) {
  const int64_t count = in[1].numel(), keys = padded(count) * int64_t(sizeof(uint64_t));
  return {.workspace = keys + run_bytes(count, out[0].shape[1])};
}

void run_embedding_grad(const KernelArgs& a) {
  const auto [rows, padding] = a.attrs.as<EmbeddingGradAttrs>();
  const int64_t count = a.in_spec[1].numel(), size = padded(count), width = a.out_spec[0].shape[1];
  const int64_t chunk = size < kSortedChunk ? size : kSortedChunk;
  const size_t shared = size_t(chunk) * sizeof(uint64_t);
  uint64_t* keys = reinterpret_cast<uint64_t*>(a.workspace);
  float* partial = reinterpret_cast<float*>(keys + size);
  const cudaStream_t stream = stream_of(a);
  launch(sort_chunk_kernel, {size / chunk}, kSortThreads, shared, stream, keys, int(chunk),
         int64_t(2), chunk, IdKeys{a.input<int32_t>(1), count, rows, padding});
  for (int64_t k = 2 * chunk; k <= size; k *= 2) {
    sort_across(a, keys, size, k, chunk);
    launch(sort_chunk_kernel, {size / chunk}, kSortThreads, shared, stream, keys, int(chunk), k, k,
           IdKeys{});
  }
  if (const void* sum = input_if_present(a, 2)) {
    copy_async(a, a.out[0], sum, a.out_spec[0].bytes());
  } else {
    zero_async(a, a.out[0], a.out_spec[0].bytes());
  }
  const int columns = are_columns_aligned(width, a.in[0], a.out[0]) ? 4 : 1;
  const int64_t warps = blocks_of(width, kWarp * columns);
  const int threads = kWarp * int(warps < kThreads / kWarp ? warps : kThreads / kWarp);
  by_float_type(a.out_spec[0].dtype, [&]<class T>(T) {
    by_float_type(a.in_spec[0].dtype, [&]<class D>(D) {
      const SortedRows<T, D> sorted{a.output<T>(0), partial, a.input<D>(0), keys, count, width};
      with_columns<1, 4>(columns, [&](auto n) {
        launch(add_rows_kernel<n(), T, D>, {count}, threads, 0, stream, sorted);
        launch(add_runs_kernel<n(), T, D>, {blocks_of(count, kRunRows)}, threads, 0, stream,
               sorted);
      });
    });
  });
}

}  // namespace

const Backend embedding_cuda{.run = run_embedding};
const Backend embedding_grad_cuda{.run = run_embedding_grad, .prepare = prepare_embedding_grad};

}  // namespace pal
