// dpr_encode and dpr_decode: four words a thread, which are 8, 12 or 16 elements.
#include "ops/encodings/dpr.h"
#include "ops/kernels/cuda_elements.h"

namespace pal {
namespace {

// Words as kernels see them: like their elements' type they may begin on any even address.
struct Words {
  uint16_t* halves;
  bool vector;  // on a boundary of 16 bytes
};
Words words_of(const void* data) {
  return {static_cast<uint16_t*>(const_cast<void*>(data)),
          reinterpret_cast<uintptr_t>(data) % 16 == 0};
}

// Words first .. first + n of x, and so many zeros that they are four.
__device__ void load_words(const Words& x, int64_t first, int n, uint32_t* four) {
  const uint16_t* p = x.halves + 2 * first;
  if (x.vector && n == 4) {
    const uint4 all = *reinterpret_cast<const uint4*>(p);
    four[0] = all.x, four[1] = all.y, four[2] = all.z, four[3] = all.w;
    return;
  }
#pragma unroll
  for (int w = 0; w < 4; ++w)
    four[w] = w < n ? uint32_t(p[2 * w]) | uint32_t(p[2 * w + 1]) << 16 : 0;
}
__device__ void store_words(const Words& y, int64_t first, int n, const uint32_t* four) {
  uint16_t* p = y.halves + 2 * first;
  if (y.vector && n == 4) {
    *reinterpret_cast<uint4*>(p) = make_uint4(four[0], four[1], four[2], four[3]);
    return;
  }
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    if (w < n) p[2 * w] = uint16_t(four[w]), p[2 * w + 1] = uint16_t(four[w] >> 16);
  }
}

template <Dpr F> constexpr int kElements = 4 * dpr_per_word(F);  // of a thread

// How many of a run of at most `most` that begins at i there are, of n.
__device__ int count_from(int64_t i, int64_t n, int most) {
  return n - i < most ? int(n - i < 0 ? 0 : n - i) : most;
}

template <Dpr F> __global__ void dpr_encode_kernel(Stored x, Words words, int64_t n) {
  constexpr int kPer = dpr_per_word(F);
  const int64_t first = thread_number() * 4, i = first * kPer;
  if (i >= n) return;
  float v[kElements<F>];
#pragma unroll
  for (int k = 0; k < kElements<F>; k += 4) load4(x, i + k, count_from(i + k, n, 4), v + k);
  uint32_t four[4] = {};
#pragma unroll
  for (int k = 0; k < kElements<F>; ++k)  // code 0 is that of 0
    four[k / kPer] |= dpr_code(v[k], F) << (k % kPer * dpr_bits(F));
  store_words(words, first, count_from(first, (n + kPer - 1) / kPer, 4), four);
}

template <Dpr F> __global__ void dpr_decode_kernel(Words words, Stored y, int64_t n) {
  constexpr int kPer = dpr_per_word(F);
  const int64_t first = thread_number() * 4, i = first * kPer;
  if (i >= n) return;
  uint32_t four[4];
  load_words(words, first, count_from(first, (n + kPer - 1) / kPer, 4), four);
  float v[kElements<F>];
#pragma unroll
  for (int k = 0; k < kElements<F>; ++k) {
    const uint32_t code = four[k / kPer] >> (k % kPer * dpr_bits(F));
    v[k] = dpr_value(code & ((1u << dpr_bits(F)) - 1), F);
  }
#pragma unroll
  for (int k = 0; k < kElements<F>; k += 4) store4(y, i + k, count_from(i + k, n, 4), v + k);
}

void run_dpr_encode(const KernelArgs& a) {
  by_dpr(a.attrs.as<DprAttrs>().format, [&](auto format) {
    constexpr Dpr kFormat = decltype(format)::value;
    const int64_t n = a.in_spec[0].numel();
    launch(dpr_encode_kernel<kFormat>, grid_of_groups(blocks_of(n, kElements<kFormat>)), a,
           stored(a.in[0], a.in_spec[0]), words_of(a.out[0]), n);
  });
}
void run_dpr_decode(const KernelArgs& a) {
  by_dpr(a.attrs.as<DprAttrs>().format, [&](auto format) {
    constexpr Dpr kFormat = decltype(format)::value;
    const int64_t n = a.out_spec[0].numel();
    launch(dpr_decode_kernel<kFormat>, grid_of_groups(blocks_of(n, kElements<kFormat>)), a,
           words_of(a.in[0]), stored(a.out[0], a.out_spec[0]), n);
  });
}

}  // namespace

const Backend dpr_encode_cuda{.run = run_dpr_encode};
const Backend dpr_decode_cuda{.run = run_dpr_decode};

}  // namespace pal
