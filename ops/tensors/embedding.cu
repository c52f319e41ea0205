// An embedding, and its gradient without atomics: positions are sorted by (id, position), and the
// rows of one id are added up one after the other, in the order of the CPU's kernel, so the bits
// are its own. The sort is bitonic (Batcher 1968) on distinct 64-bit keys: what lies within a chunk
// of keys is sorted in shared memory, a launch for all of its steps; beyond, a launch has three.
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
constexpr int kSortThreads = 512;
constexpr int kAhead = 8;            // rows that are brought at once
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
__global__ void sort_chunk_kernel(uint64_t* keys, int64_t chunk, int64_t first, int64_t last,
                                  IdKeys made) {
  uint64_t* mine = shared_memory<uint64_t>();
  const int64_t base = int64_t(blockIdx.x) * chunk;
  for (int64_t i = threadIdx.x; i < chunk; i += blockDim.x) {
    mine[i] = made.ids ? made.at(base + i) : keys[base + i];
  }
  __syncthreads();
  for (int64_t k = first; k <= last; k *= 2) {
    for (int64_t j = k / 2 < chunk ? k / 2 : chunk / 2; j > 0; j /= 2) {
      for (int64_t pair = threadIdx.x; pair < chunk / 2; pair += blockDim.x) {
        const int64_t i = 2 * pair - (pair & (j - 1));  // j is a power of two
        compare_exchange(mine[i], mine[i + j], ((base + i) & k) == 0);
      }
      __syncthreads();
    }
  }
  for (int64_t i = threadIdx.x; i < chunk; i += blockDim.x) keys[base + i] = mine[i];
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

// A block for every place in the sorted order; that of an id's first adds up all of its rows, one
// after the other. Every sum is rounded to T, as the CPU's is. A frequent word has many rows: some
// are on their way at any time.
template <class T>
__global__ void add_rows_kernel(T* table, Stored dy, const uint64_t* keys, int64_t count,
                                int64_t width) {
  const int64_t first = blockIdx.x;
  const uint64_t key = keys[first];
  const uint32_t id = uint32_t(key >> 32);
  if (key == kNone64 || (first > 0 && uint32_t(keys[first - 1] >> 32) == id)) return;
  for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
    T sum = table[id * width + c];
    int n = kAhead;  // of the next rows so many are the id's
    for (int64_t p = first; n == kAhead; p += kAhead) {
      uint64_t next[kAhead];
      float row[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) next[k] = p + k < count ? keys[p + k] : kNone64;
      n = 0;
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const bool same = uint32_t(next[k] >> 32) == id;  // which no key of nothing has
        row[k] = same ? load1(dy, int64_t(uint32_t(next[k])) * width + c) : 0;
        n += same;
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (k < n) sum = from_float<T>(to_float(sum) + row[k]);
      }
    }
    table[id * width + c] = sum;
  }
}

Prepared prepare_embedding_grad(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  return {.workspace = padded(in[1].numel()) * int64_t(sizeof(uint64_t))};
}

void run_embedding_grad(const KernelArgs& a) {
  const auto [rows, padding] = a.attrs.as<EmbeddingGradAttrs>();
  const int64_t count = a.in_spec[1].numel(), size = padded(count), width = a.out_spec[0].shape[1];
  const int64_t chunk = size < kSortedChunk ? size : kSortedChunk;
  const size_t shared = size_t(chunk) * sizeof(uint64_t);
  uint64_t* keys = reinterpret_cast<uint64_t*>(a.workspace);
  const cudaStream_t stream = stream_of(a);
  launch(sort_chunk_kernel, {size / chunk}, kSortThreads, shared, stream, keys, chunk, int64_t(2),
         chunk, IdKeys{a.input<int32_t>(1), count, rows, padding});
  for (int64_t k = 2 * chunk; k <= size; k *= 2) {
    sort_across(a, keys, size, k, chunk);
    launch(sort_chunk_kernel, {size / chunk}, kSortThreads, shared, stream, keys, chunk, k, k,
           IdKeys{});
  }
  if (const void* sum = input_if_present(a, 2)) {
    copy_async(a, a.out[0], sum, a.out_spec[0].bytes());
  } else {
    zero_async(a, a.out[0], a.out_spec[0].bytes());
  }
  by_float_type(a.out_spec[0].dtype, [&, count = count]<class T>(T) {
    launch(add_rows_kernel<T>, {count}, kThreads, 0, stream, a.output<T>(0),
           stored(a.in[0], a.in_spec[0]), keys, count, width);
  });
}

}  // namespace

const Backend embedding_cuda{.run = run_embedding};
const Backend embedding_grad_cuda{.run = run_embedding_grad, .prepare = prepare_embedding_grad};

}  // namespace pal
