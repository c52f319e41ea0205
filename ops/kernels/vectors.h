// Vectors of as many floats as the processor takes at a time, for the kernels whose loops the
// compiler does not make vectors of: with the operators of C++, and what those have not. The same
// bits whatever the width is.
#pragma once
#include <cstdint>
#include <cstring>
#include <utility>

#include "ops/kernels/element_types.h"
#include "ops/kernels/intrinsics.h"

#if defined(__AVX512BW__) && defined(__AVX512DQ__)
#define PAL_VECTORS_AVX512 1
#endif

namespace pal::vectors {

#if defined(PAL_VECTORS_AVX512)
constexpr int kWidth = 16;
#elif defined(__AVX2__)
constexpr int kWidth = 8;
#else
constexpr int kWidth = 4;
#endif

template <class T, int N> struct VectorOf {
  typedef T type __attribute__((vector_size(N * sizeof(T))));  // NOLINT: `using` takes no N
};
template <class T, int N = kWidth> using Vector = typename VectorOf<T, N>::type;
using Floats = Vector<float>;
using Ints = Vector<int32_t>;
using Words = Vector<uint32_t>;
using Pairs = Vector<uint64_t, kWidth / 2>;  // of words, the first in its lower half

template <class V> inline V load_vector(const void* from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
template <class V> inline void store_vector(void* to, const V& v) { std::memcpy(to, &v, sizeof v); }
inline Floats all(float x) { return x - Floats{}; }
inline Ints all(int32_t x) { return x - Ints{}; }

// Products of the lower halves.
inline Pairs multiply_words(Pairs a, Pairs b) {
#if defined(PAL_VECTORS_AVX512)
  return Pairs(_mm512_mul_epu32(__m512i(a), __m512i(b)));
#elif defined(__AVX2__)
  return Pairs(_mm256_mul_epu32(__m256i(a), __m256i(b)));
#else
  return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

// a0 b0 a1 b1 .., in two vectors.
template <int... K>
std::pair<Pairs, Pairs> interleave(Pairs a, Pairs b, std::integer_sequence<int, K...>) {
  constexpr int n = sizeof...(K);
  return {__builtin_shufflevector(a, b, (K / 2 + K % 2 * n)...),
          __builtin_shufflevector(a, b, ((K + n) / 2 + K % 2 * n)...)};
}
inline std::pair<Pairs, Pairs> interleave(Pairs a, Pairs b) {
  return interleave(a, b, std::make_integer_sequence<int, kWidth / 2>());
}

// kWidth elements as floats, and back, rounded.
inline Floats load_floats(const float* x) { return load_vector<Floats>(x); }
inline void store_floats(float* x, Floats v) { store_vector(x, v); }
template <class T> Floats load_floats(const T* x) {
  float v[kWidth];
#pragma omp simd
  for (int k = 0; k < kWidth; ++k) v[k] = to_float(x[k]);
  return load_vector<Floats>(v);
}
template <class T> void store_floats(T* x, Floats floats) {
  float v[kWidth];
  store_vector(v, floats);
#pragma omp simd
  for (int k = 0; k < kWidth; ++k) x[k] = from_float<T>(v[k]);
}

// a b + c with one rounding.
inline Floats fma(Floats a, Floats b, Floats c) {
#if defined(PAL_VECTORS_AVX512)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__AVX2__) && defined(__FMA__)
  return Floats(_mm256_fmadd_ps(__m256(a), __m256(b), __m256(c)));
#else
  for (int k = 0; k < kWidth; ++k) c[k] = __builtin_fmaf(a[k], b[k], c[k]);
  return c;
#endif
}

// What a comparison gives, one for each lane.
#ifdef PAL_VECTORS_AVX512
using Mask = __mmask16;
inline uint32_t bits_of(Mask m) { return m; }  // the first lane's the lowest
inline Mask mask_of(uint32_t bits) { return Mask(bits); }
inline Mask is_equal(Ints a, Ints b) { return _mm512_cmpeq_epi32_mask(__m512i(a), __m512i(b)); }
inline Mask is_less(Floats a, Floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
inline Mask is_nan(Floats a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
inline Floats choose(Mask m, Floats a, Floats b) { return _mm512_mask_blend_ps(m, b, a); }
inline Ints choose(Mask m, Ints a, Ints b) {
  return Ints(_mm512_mask_blend_epi32(m, __m512i(b), __m512i(a)));
}
// NaN is greater than any number, and nothing is greater than NaN.
inline Mask is_greater_or_nan(Floats a, Floats b) {
  return _mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask(b, b, _CMP_ORD_Q), a, b, _CMP_NLE_UQ);
}
inline Floats add_where(Mask m, Floats sum, Floats v) { return _mm512_mask_add_ps(sum, m, sum, v); }
// The lowest byte of each; bytes, to a word each.
inline void store_bytes(uint8_t* to, Words v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(__m512i(v)));
}
inline Words load_bytes(const uint8_t* from) {
  return Words(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}
// The lowest four bits of each, two to a byte.
inline Words load_nibbles(const uint8_t* from) {
  const auto two =
      Pairs(_mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
  return Words((two | two << 28) & 0xf0000000fu);
}
inline void store_nibbles(uint8_t* to, Words v) {
  const auto two = Pairs(v);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm512_cvtepi64_epi8(__m512i(two | two >> 28)));
}
#else
using Mask = Ints;
inline Mask is_equal(Ints a, Ints b) { return a == b; }
inline Mask is_less(Floats a, Floats b) { return a < b; }
// NOLINTBEGIN(misc-redundant-expression): a NaN is not itself
inline Mask is_nan(Floats a) { return a != a; }
inline Mask is_greater_or_nan(Floats a, Floats b) { return ~(a <= b) & (b == b); }
// NOLINTEND(misc-redundant-expression)
inline Floats choose(Mask m, Floats a, Floats b) { return m ? a : b; }
inline Ints choose(Mask m, Ints a, Ints b) { return m ? a : b; }
inline Floats add_where(Mask m, Floats sum, Floats v) { return sum + Floats(m & Ints(v)); }
inline Mask mask_of(uint32_t bits) {
  Ints one;
  for (int k = 0; k < kWidth; ++k) one[k] = 1 << k;
  return (all(int32_t(bits)) & one) == one;
}
#ifdef __AVX2__
inline uint32_t bits_of(Mask m) { return uint32_t(_mm256_movemask_ps(__m256(m))); }
inline void store_bytes(uint8_t* to, Words v) {
  const __m256i bytes = _mm256_shuffle_epi8(
      __m256i(v), _mm256_setr_epi32(0x0c080400, -1, -1, -1, -1, 0x0c080400, -1, -1));
  const __m128i low = _mm256_castsi256_si128(bytes), high = _mm256_extracti128_si256(bytes, 1);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_or_si128(low, high));
}
inline Words load_bytes(const uint8_t* from) {
  return Words(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
}
#else
inline uint32_t bits_of(Mask m) {
  uint32_t bits = 0;
  for (int k = 0; k < kWidth; ++k) bits |= uint32_t(m[k] & 1) << k;
  return bits;
}
inline void store_bytes(uint8_t* to, Words v) {
  for (int k = 0; k < kWidth; ++k) to[k] = uint8_t(v[k]);
}
inline Words load_bytes(const uint8_t* from) {
  Words v;
  for (int k = 0; k < kWidth; ++k) v[k] = from[k];
  return v;
}
#endif
inline Words nibble_shifts() {
  Words v;
  for (int k = 0; k < kWidth; ++k) v[k] = uint32_t(4 * k);
  return v;
}
inline Words load_nibbles(const uint8_t* from) {
  uint32_t all_of_them = 0;
  std::memcpy(&all_of_them, from, kWidth / 2);
  return (all_of_them - Words{}) >> nibble_shifts() & 15u;
}
inline void store_nibbles(uint8_t* to, Words v) {
  const auto two = Pairs(v);
  uint8_t bytes[kWidth];
  store_bytes(bytes, Words(two | two >> 28));
  for (int k = 0; k < kWidth / 2; ++k) to[k] = bytes[2 * k];
}
#endif

}  // namespace pal::vectors
