// What attention's kernels on tensor cores share. A block of four warps has 64 queries or keys, 16
// a warp, and goes through tiles of the others, which come into shared memory while those before
// are used. Scores, probabilities and sums stay in registers, as products leave them: lane l has
// elements 2 (l % 4) and the next of rows l / 4 and l / 4 + 8, of every eight columns.
#pragma once
#include <algorithm>

#include "ops/attention/attention_cores.h"
#include "ops/kernels/cuda_mma.h"

namespace pal {

constexpr int kCoreThreads = 128, kCoreRows = 64, kWarpRows = 16;
constexpr int kShortKeys = 32;  // a tile of its own size for so few
constexpr float kLog2E = 1.44269504088896341f;

// Heads of up to kWidth columns, zeros beside them. Rows of shared memory begin on different banks.
template <class M, int kWidth> struct CoreShape {
  using Mma = M;
  static constexpr int kWords = kWidth / M::kPerWord, kPitch = kWords + 4;
  static constexpr int kSteps = kWords / 8, kColumns = kWidth / 8;
  // Of the tiles that pass by: keys of forward, and of dq, which has more in registers; queries of
  // dk and dv, and how many tiles of those there is room for beside the block's own keys.
  static constexpr int kKeys = kWords <= 32 ? 64 : 32, kGradKeys = 32;
  static constexpr int kQueries = kWords <= 32 ? 32 : 16, kQueryTiles = kWords <= 32 ? 2 : 1;

  // Blocks at a time on a multiprocessor: as many as there are registers for.
  static constexpr int kForwardBlocks = kWidth <= 64 ? 4 : 3, kGradBlocks = kWords <= 32 ? 3 : 2;

  // Shared memory for two tiles of so many keys and values, and before for the block's queries.
  static constexpr size_t bytes(int keys) {
    return size_t(std::max(4 * keys, kCoreRows) * kPitch) * sizeof(uint32_t);
  }
  static_assert(bytes(kKeys) <= 48 << 10 && bytes(kGradKeys) <= 48 << 10);

  // Rows [t, t + n) of x, zero below and beside them. They are there once the thread has waited for
  // its copies, and all have.
  template <int kRows>
  static __device__ void load(const CudaHead& head, uint32_t* to, const HeadRows& x, int64_t t,
                              int64_t n) {
    load_at<kRows>(head, to, x, place(head, x.pitch, t), x.pitch, int(n));
  }
  // The thread's first element of the rows from t on.
  static __device__ int64_t place(const CudaHead& head, int64_t pitch, int64_t t) {
    return head.at(pitch, t + int(threadIdx.x) / kColumns) + int(threadIdx.x) % kColumns * kGroup;
  }
  template <int kRows>
  static __device__ void load_at(const CudaHead& head, uint32_t* to, const Stored& x, int64_t at,
                                 int64_t pitch, int n) {
    const int row = int(threadIdx.x) / kColumns, e = int(threadIdx.x) % kColumns * kGroup;
    constexpr int kApart = kCoreThreads / kColumns;  // rows that a thread has
    static_assert(kRows % kApart == 0);
    const int64_t stride = head.a.batch * pitch;
    const bool wide = e < head.a.width;
    to += row * kPitch + e / M::kPerWord;
    if (M::kPerWord == 2 && x.vector) {
      const bf16* from = static_cast<const bf16*>(x.data);
#pragma unroll
      for (int i = 0; i < kRows; i += kApart) {
        const bool there = wide && row + i < n;
        copy_16_bytes(to + i * kPitch, there ? from + at + i * stride : from, there);
      }
      return;
    }
#pragma unroll 1
    for (int i = 0; i < kRows; i += kApart) {
      float v[kGroup] = {};
      if (wide && row + i < n) load8(x, at + i * stride, group_size(e, head.a.width), v);
      M::put8(to + i * kPitch, v);
    }
  }
};

// The left operands that a warp's 16 rows of the 64 from row t on are, by way of shared memory.
template <class S>
__device__ void load_fragments(uint32_t (&left)[S::kSteps][4], const CudaHead& head,
                               uint32_t* shared, const HeadRows& x, int64_t t) {
  S::template load<kCoreRows>(head, shared, x, t, head.a.queries - t);
  wait_for_copies();
  __syncthreads();
#pragma unroll
  for (int s = 0; s < S::kSteps; ++s) {
    load_left(left[s], shared + warp_number() * kWarpRows * S::kPitch, S::kPitch, s);
  }
  __syncthreads();
}
// Tiles of kKeys keys, with their values kTile words behind them, in two places by turns: one is
// read while the next is fetched.
template <class S, int kKeys> class KeyTiles {
 public:
  static constexpr int kTile = kKeys * S::kPitch;  // words

  // Up to key `last`.
  __device__ KeyTiles(const CudaHead& head, uint32_t* shared, const HeadRows& k, const HeadRows& v,
                      int last)
      : head_(head), shared_(shared), k_(k), v_(v), last_(last), at_(S::place(head, k.pitch, 0)) {
    if (last > 0) fetch(shared, 0);
  }
  // The tile from key j on, for all threads.
  __device__ const uint32_t* at(int j) {
    const uint32_t* tile = shared_ + place_;
    place_ = 2 * kTile - place_;
    wait_for_copies();
    __syncthreads();  // the tile is there, and the one before has been read
    if (j + kKeys < last_) fetch(shared_ + place_, j + kKeys);
    return tile;
  }

 private:
  // Tile by tile, so that where a tile lies is one sum. Keys and values have one pitch.
  __device__ void fetch(uint32_t* to, int j) {
    S::template load_at<kKeys>(head_, to, k_, at_, k_.pitch, last_ - j);
    S::template load_at<kKeys>(head_, to + kTile, v_, at_, k_.pitch, last_ - j);
    at_ += kKeys * head_.a.batch * k_.pitch;
  }

  const CudaHead& head_;
  uint32_t* const shared_;
  const HeadRows &k_, &v_;
  const int last_;
  int place_ = 0;
  int64_t at_;
};

// What multiply_rows asks of left operands in registers.
template <int kSteps> __device__ auto held(const uint32_t (&left)[kSteps][4]) {
  return [&left](uint32_t* a, int s) {
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = left[s][i];
  };
}

// f(the shape that takes heads of so many columns).
template <class M, class F> void by_core_width(int64_t width, F f) {
  if (width <= 32) return f(CoreShape<M, 32>{});
  if (width <= 64 || M::kPerWord == 1) return f(CoreShape<M, 64>{});
  if constexpr (M::kPerWord == 2) f(CoreShape<M, 128>{});
}
template <class F> void by_core_shape(Cores cores, int64_t width, F f) {
  cores == Cores::bf16 ? by_core_width<MmaBf16>(width, f) : by_core_width<MmaTf32>(width, f);
}

// The first of the lane's two rows, the other is 8 further; and the first of its two columns in
// every eight.
__device__ inline int core_row() { return lane_number() / 4; }
__device__ inline int core_column() { return lane_number() % 4 * 2; }

// Calls f(row of the lane's two, column, element) for c (16, 8 kBlocks): element = c[..][..].
template <int kBlocks, class F> __device__ void each_element(float (&c)[kBlocks][4], F f) {
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) f(i / 2, 8 * n + core_column() + i % 2, c[n][i]);
  }
}

// dout . out of a row, by two or four lanes next to each other of which this is one: every lane has
// the sum, of four parts whoever makes them.
template <int kLanes>
__device__ float delta_of(const AttentionGrad& a, const CudaHead& head, int64_t row) {
  constexpr int kParts = 4;
  const int64_t dout = head.at(a.dout, row), out = head.at(a.out, row);
  float sum = 0;
#pragma unroll
  for (int part = 0; part < kParts; part += kLanes) {
    float own = 0;
#pragma unroll 2
    for (int e = (part + lane_number() % kLanes) * kGroup; e < head.a.width; e += kParts * kGroup) {
      const int n = group_size(e, head.a.width);
      float x[kGroup] = {}, y[kGroup] = {};
      load8(a.dout, dout + e, n, x), load8(a.out, out + e, n, y);
#pragma unroll
      for (int k = 0; k < kGroup; ++k) own = fmaf(x[k], y[k], own);
    }
    own += __shfl_xor_sync(kAllLanes, own, 1);
    sum += own;
  }
  return kLanes == kParts ? sum + __shfl_xor_sync(kAllLanes, sum, 2) : sum;
}

// The sum over the four lanes that have a row, or its maximum, in each of them.
__device__ inline float row_total(float x) {
  x += __shfl_xor_sync(kAllLanes, x, 1);
  return x + __shfl_xor_sync(kAllLanes, x, 2);
}
__device__ inline float row_most(float x) {
  float other = __shfl_xor_sync(kAllLanes, x, 1);
  x = other > x ? other : x;
  other = __shfl_xor_sync(kAllLanes, x, 2);
  return other > x ? other : x;
}

// The dropout's draws, which say of an element no more than whether it is kept. The key is read
// where it is used: registers are short.
struct CoreDropout {
  const CudaAttention& a;

  __device__ bool on() const { return a.dropout > 0; }
  // Of what is kept.
  __device__ float scale() const { return on() ? dropout_scale(a.dropout) : 1; }
  // Bit i: element first + i is kept; of kCount elements, a multiple of 4.
  template <int kCount> __device__ uint32_t bits(int64_t first) const {
    static_assert(kCount % 4 == 0 && kCount <= 32);
    const RandomKey key = a.scalars->key(uint32_t(a.stream));
    const uint32_t least = dropout_least(a.dropout);
    auto four = [&](int64_t block) {
      const Philox4 numbers = draw(key, uint64_t(block));
      uint32_t kept = 0;
#pragma unroll
      for (int k = 0; k < 4; ++k) kept |= uint32_t(numbers.x[k] >= least) << k;
      return kept;
    };
    const int before = int(first % 4);  // elements of the first draw that are others'
    uint32_t kept = four(first / 4) >> before;
    [[maybe_unused]] constexpr int kAtOnce =
        kCount > 16 ? 1 : 4;  // as many as there are registers for
#pragma unroll kAtOnce
    for (int k = 4; k < kCount; k += 4) kept |= four(first / 4 + k / 4) << (k - before);
    if (before) kept |= four(first / 4 + kCount / 4) << (kCount - before);
    return kept;
  }
};

// Of a warp's 16 queries from t on and the keys [j, j + kKeys): which elements are kept. Two lanes
// draw for a query, for half of its keys each; then each lane gets the bits of its two.
template <int kKeys> struct KeptRows {
  uint32_t kept[2][2] = {};  // row of the lane's two, half

  __device__ KeptRows(const CoreDropout& drop, const CudaHead& head, int64_t t, int64_t j) {
    if (!drop.on()) return;
    const int lane = lane_number();
    const uint32_t mine = drop.bits<kKeys / 2>(
        (head.unit * head.a.queries + t + lane / 2) * head.a.keys + j + lane % 2 * (kKeys / 2));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      kept[i / 2][i % 2] = __shfl_sync(kAllLanes, mine, 2 * (core_row() + 8 * (i / 2)) + i % 2);
    }
  }
  __device__ bool operator()(int row, int column) const {
    return kept[row][column / (kKeys / 2)] >> (column % (kKeys / 2)) & 1;
  }
};

// Scores of a warp's queries [t, t + 16) and a tile of keys from j on: -infinity where masked.
template <int kBlocks>
__device__ void mask_scores(float (&score)[kBlocks][4], const CudaHead& head, int64_t t,
                            int64_t j) {
  const int n[2] = {int(head.visible(t + core_row(), j, 8 * kBlocks)),
                    int(head.visible(t + core_row() + 8, j, 8 * kBlocks))};
  if (n[0] == 8 * kBlocks) return;  // the second sees no less
  each_element(score, [&](int row, int column, float& x) {
    if (column >= n[row]) x = -__builtin_huge_valf();
  });
}

// Stores the warp's (16, 8 kBlocks) results from row t of the head and column `first` on, as far as
// there are `rows`; row r begins at element row_at(r).
template <int kBlocks, class At>
__device__ void store_rows(const Stored& y, const CudaHead& head, int64_t t, int64_t rows,
                           const float (&c)[kBlocks][4], At row_at, int first = 0) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int64_t row = t + core_row() + 8 * i;
    if (row >= rows) continue;
    const int64_t at = row_at(row);
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
      const int column = first + 8 * n + core_column();
      const float* two = c[n] + 2 * i;
      if (y.vector && y.type == DType::bf16 && column < head.a.width) {
        uint32_t* to = reinterpret_cast<uint32_t*>(static_cast<bf16*>(y.data) + at + column);
        *to = pack_bf16(two[0], two[1]);
        continue;
      }
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        if (column + k < head.a.width) store1(y, at + column + k, two[k]);
      }
    }
  }
}

template <int kBlocks>
__device__ void store_rows(const HeadRows& y, const CudaHead& head, int64_t t, int64_t rows,
                           const float (&c)[kBlocks][4], int first = 0) {
  store_rows(
      y, head, t, rows, c, [&](int64_t row) { return head.at(y, row); }, first);
}

}  // namespace pal
