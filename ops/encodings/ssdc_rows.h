// Rows of 256 elements on the processor: which are nonzero, those one after the other, and back.
// With AVX-512 (VBMI2) a group of elements is one instruction; the bits are the same without.
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "ops/encodings/ssdc_layout.h"
#include "ops/kernels/element_types.h"

#if defined(__AVX512VBMI2__) && defined(__AVX512BW__)
#define PAL_SSDC_AVX512 1
#include <immintrin.h>
#endif

namespace pal::ssdc {

constexpr int64_t kWord = 64;  // elements of a mask's word
constexpr int64_t kWords = kSsdcRow / kWord;
using RowMask = std::array<uint64_t, kWords>;  // bit i % 64 of word i / 64: element i is stored

// A row's elements, or its nonzeros one after the other, with room for a whole vector behind them.
template <class T> struct alignas(64) RowBuffer { T at[kSsdcRow + kWord]; };

inline bool is_nonzero(float x) { return float_bits(x) != 0; }
inline bool is_nonzero(bf16 x) { return x.bits != 0; }

// Of 64 elements: the mask; the stored ones from `to` on; and the way back, zeros between them. All
// may write or read up to 63 elements more than there are.
namespace portable {

template <class T> uint64_t mask_of_word(const T* x) {
  uint64_t mask = 0;
  for (int i = 0; i < kWord; ++i) mask |= uint64_t(is_nonzero(x[i])) << i;
  return mask;
}
template <class T> void compress_word(const T* x, uint64_t mask, T* to) {
  for (int i = 0; i < kWord; ++i) {
    *to = x[i];
    to += mask >> i & 1;
  }
}
template <class T> void expand_word(const T* values, uint64_t mask, T* to) {
  for (int i = 0; i < kWord; ++i) {
    const bool stored = mask >> i & 1;
    to[i] = stored ? *values : T{};
    values += stored;
  }
}
inline void columns_of_word(uint64_t mask, int first, uint8_t* to) {
  for (int i = 0; i < kWord; ++i) {
    *to = uint8_t(first + i);
    to += mask >> i & 1;
  }
}

}  // namespace portable

#ifdef PAL_SSDC_AVX512
inline uint64_t mask_of_word(const float* x) {
  uint64_t mask = 0;
  for (int k = 0; k < 4; ++k) {
    const __m512i v = _mm512_loadu_si512(x + 16 * k);
    mask |= uint64_t(_mm512_test_epi32_mask(v, v)) << (16 * k);
  }
  return mask;
}
inline uint64_t mask_of_word(const bf16* x) {
  const __m512i low = _mm512_loadu_si512(x), high = _mm512_loadu_si512(x + 32);
  return uint64_t(_mm512_test_epi16_mask(low, low)) | uint64_t(_mm512_test_epi16_mask(high, high))
                                                          << 32;
}
inline void compress_word(const float* x, uint64_t mask, float* to) {
  for (int k = 0; k < 4; ++k) {
    const auto m = __mmask16(mask >> (16 * k));
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(m, _mm512_loadu_si512(x + 16 * k)));
    to += std::popcount(unsigned(m));
  }
}
inline void compress_word(const bf16* x, uint64_t mask, bf16* to) {
  for (int k = 0; k < 2; ++k) {
    const auto m = __mmask32(mask >> (32 * k));
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi16(m, _mm512_loadu_si512(x + 32 * k)));
    to += std::popcount(unsigned(m));
  }
}
inline void expand_word(const float* values, uint64_t mask, float* to) {
  for (int k = 0; k < 4; ++k) {
    const auto m = __mmask16(mask >> (16 * k));
    _mm512_storeu_si512(to + 16 * k, _mm512_maskz_expand_epi32(m, _mm512_loadu_si512(values)));
    values += std::popcount(unsigned(m));
  }
}
inline void expand_word(const bf16* values, uint64_t mask, bf16* to) {
  for (int k = 0; k < 2; ++k) {
    const auto m = __mmask32(mask >> (32 * k));
    _mm512_storeu_si512(to + 32 * k, _mm512_maskz_expand_epi16(m, _mm512_loadu_si512(values)));
    values += std::popcount(unsigned(m));
  }
}
inline void columns_of_word(uint64_t mask, int first, uint8_t* to) {
  alignas(64) static constexpr auto kUp = [] {
    std::array<uint8_t, kWord> up{};
    for (size_t i = 0; i < up.size(); ++i) up[i] = uint8_t(i);
    return up;
  }();
  const __m512i columns =
      _mm512_add_epi8(_mm512_load_si512(kUp.data()), _mm512_set1_epi8(char(first)));
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi8(mask, columns));
}
#else
using namespace portable;  // NOLINT: in place of those above
#endif

template <class T> RowMask mask_of_row(const T* x) {
  RowMask mask;
  for (size_t w = 0; w < kWords; ++w) mask[w] = mask_of_word(x + int64_t(w) * kWord);
  return mask;
}
inline int64_t count(const RowMask& mask) {
  int64_t n = 0;
  for (const uint64_t word : mask) n += std::popcount(word);
  return n;
}
// The first `room` stored elements of a row, for rows that are cut.
inline void keep_first(RowMask& mask, int64_t room) {
  for (uint64_t& word : mask) {
    const int64_t n = std::popcount(word);
    uint64_t rest = n > room ? word : 0;
    for (int64_t k = 0; rest && k < room; ++k) rest &= rest - 1;
    word ^= rest;
    room -= n < room ? n : room;
  }
}

template <class T> void compress_row(const T* x, const RowMask& mask, T* to) {
  for (size_t w = 0; w < kWords; ++w) {
    compress_word(x + int64_t(w) * kWord, mask[w], to);
    to += std::popcount(mask[w]);
  }
}
template <class T> void expand_row(const T* values, const RowMask& mask, T* to) {
  for (size_t w = 0; w < kWords; ++w) {
    expand_word(values, mask[w], to + int64_t(w) * kWord);
    values += std::popcount(mask[w]);
  }
}
inline void columns_of_row(const RowMask& mask, uint8_t* to) {
  for (size_t w = 0; w < kWords; ++w) {
    columns_of_word(mask[w], int(w) * int(kWord), to);
    to += std::popcount(mask[w]);
  }
}

}  // namespace pal::ssdc
