// Rows of 256 elements on the processor: which are nonzero, those one after the other, and back.
// With AVX-512 (VBMI2) a group of elements is one instruction, with AVX2 a shuffle by a table; the
// bits are the same without.
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ops/encodings/ssdc_layout.h"
#include "ops/kernels/element_types.h"
#include "ops/kernels/intrinsics.h"

#if defined(__AVX512VBMI2__) && defined(__AVX512BW__)
#define PAL_SSDC_AVX512 1
#endif

namespace pal::ssdc {

constexpr int64_t kWord = 64;  // elements of a mask's word
constexpr int64_t kWords = kSsdcRow / kWord;
using RowMask = std::array<uint64_t, kWords>;  // bit i % 64 of word i / 64: element i is stored

// A row's elements, or its nonzeros one after the other, with room for a whole vector behind them.
template <class T> struct alignas(64) RowBuffer { T at[kSsdcRow + kWord]; };

inline bool is_nonzero(float x) { return float_bits(x) != 0; }
inline bool is_nonzero(bf16 x) { return x.bits != 0; }

// Of 64 elements: the mask; the stored ones from `to` on; both at once; and the way back, zeros
// between them. All may write or read up to 63 elements more than there are.
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
template <class T> uint64_t take_word(const T* x, T* to) {
  const uint64_t mask = mask_of_word(x);
  compress_word(x, mask, to);
  return mask;
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
inline uint64_t take_word(const float* x, float* to) {
  uint64_t mask = 0;
  for (int k = 0; k < 4; ++k) {
    const __m512i v = _mm512_loadu_si512(x + 16 * k);
    const __mmask16 m = _mm512_test_epi32_mask(v, v);
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(m, v));
    mask |= uint64_t(m) << (16 * k);
    to += std::popcount(unsigned(m));
  }
  return mask;
}
inline uint64_t take_word(const bf16* x, bf16* to) {
  const __m512i low = _mm512_loadu_si512(x), high = _mm512_loadu_si512(x + 32);
  const __mmask32 m = _mm512_test_epi16_mask(low, low), n = _mm512_test_epi16_mask(high, high);
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi16(m, low));
  _mm512_storeu_si512(to + std::popcount(unsigned(m)), _mm512_maskz_compress_epi16(n, high));
  return uint64_t(m) | uint64_t(n) << 32;
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
#elif defined(__AVX2__)
// Eight elements at a time, and tables for each mask of eight: the places of the stored ones,
// and how many there are before each place.
struct EightSlots {
  std::array<uint64_t, 256> places{}, before{};  // a byte each, the first lowest

  constexpr EightSlots() {
    for (size_t mask = 0; mask < 256; ++mask) {
      int n = 0;
      for (int i = 0; i < 8; ++i) {
        before[mask] |= uint64_t(n) << (8 * i);
        if (mask >> i & 1) places[mask] |= uint64_t(i) << (8 * n++);
      }
    }
  }
};
inline constexpr EightSlots kEight;

inline __m128i low_half(uint64_t bytes) { return _mm_cvtsi64_si128(int64_t(bytes)); }
// For shuffles of bytes: those of elements of two.
inline __m128i of_halves(uint64_t places) {
  const __m128i twice = _mm_mullo_epi16(_mm_cvtepu8_epi16(low_half(places)), _mm_set1_epi16(0x202));
  return _mm_add_epi16(twice, _mm_set1_epi16(0x100));
}

inline uint64_t mask_of_word(const float* x) {
  uint64_t zeros = 0;
  for (int k = 0; k < 64; k += 8) {
    const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + k));
    const __m256i zero = _mm256_cmpeq_epi32(v, _mm256_setzero_si256());
    zeros |= uint64_t(unsigned(_mm256_movemask_ps(_mm256_castsi256_ps(zero)))) << k;
  }
  return ~zeros;
}
inline uint64_t mask_of_word(const bf16* x) {
  uint64_t zeros = 0;
  for (int k = 0; k < 64; k += 16) {
    const auto* v = reinterpret_cast<const __m128i*>(x + k);
    const __m128i none = _mm_setzero_si128();
    const __m128i zero = _mm_packs_epi16(_mm_cmpeq_epi16(_mm_loadu_si128(v), none),
                                         _mm_cmpeq_epi16(_mm_loadu_si128(v + 1), none));
    zeros |= uint64_t(unsigned(_mm_movemask_epi8(zero))) << k;
  }
  return ~zeros;
}
inline void compress_word(const float* x, uint64_t mask, float* to) {
  for (int k = 0; k < 64; k += 8, mask >>= 8) {
    const __m256i from = _mm256_cvtepu8_epi32(low_half(kEight.places[mask & 255]));
    _mm256_storeu_ps(to, _mm256_permutevar8x32_ps(_mm256_loadu_ps(x + k), from));
    to += std::popcount(mask & 255);
  }
}
inline void compress_word(const bf16* x, uint64_t mask, bf16* to) {
  for (int k = 0; k < 64; k += 8, mask >>= 8) {
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + k));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm_shuffle_epi8(v, of_halves(kEight.places[mask & 255])));
    to += std::popcount(mask & 255);
  }
}
template <class T> uint64_t take_word(const T* x, T* to) {
  const uint64_t mask = mask_of_word(x);
  compress_word(x, mask, to);
  return mask;
}
inline void expand_word(const float* values, uint64_t mask, float* to) {
  const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  for (int k = 0; k < 64; k += 8, mask >>= 8) {
    const __m256i from = _mm256_cvtepu8_epi32(low_half(kEight.before[mask & 255]));
    const __m256i bits = _mm256_and_si256(_mm256_set1_epi32(int(mask & 255)), bit);
    const __m256 stored = _mm256_castsi256_ps(_mm256_cmpeq_epi32(bits, bit));
    const __m256 v = _mm256_permutevar8x32_ps(_mm256_loadu_ps(values), from);
    _mm256_storeu_ps(to + k, _mm256_and_ps(v, stored));
    values += std::popcount(mask & 255);
  }
}
inline void expand_word(const bf16* values, uint64_t mask, bf16* to) {
  const __m128i bit = _mm_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128);
  for (int k = 0; k < 64; k += 8, mask >>= 8) {
    const __m128i bits = _mm_and_si128(_mm_set1_epi16(int16_t(mask & 255)), bit);
    const __m128i v = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(values)),
                                       of_halves(kEight.before[mask & 255]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + k),
                     _mm_and_si128(v, _mm_cmpeq_epi16(bits, bit)));
    values += std::popcount(mask & 255);
  }
}
inline void columns_of_word(uint64_t mask, int first, uint8_t* to) {
  for (int k = 0; k < 64; k += 8, mask >>= 8) {
    const uint64_t columns = kEight.places[mask & 255] + uint64_t(first + k) * 0x0101010101010101u;
    std::memcpy(to, &columns, sizeof columns);
    to += std::popcount(mask & 255);
  }
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

// A row's stored elements go to `to`.
template <class T> RowMask take_row(const T* x, T* to) {
  RowMask mask;
  for (size_t w = 0; w < kWords; ++w) {
    mask[w] = take_word(x + int64_t(w) * kWord, to);
    to += std::popcount(mask[w]);
  }
  return mask;
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

// A row of csr: n values go to their columns, of which each is greater than the one before. Of
// columns that are not, some of the values go to some of them.
namespace portable {
template <class T> void place_row(const T* values, const uint8_t* columns, int64_t n, T* to) {
  T row[kSsdcRow] = {};  // where scattered writes are cheap
  for (int64_t i = 0; i < n; ++i) row[columns[i]] = values[i];
  std::memcpy(to, row, sizeof row);
}
}  // namespace portable

#ifdef PAL_SSDC_AVX512
// Byte i of the result is byte i - by of v.
template <int by> __m512i moved_up(__m512i v) {
  alignas(64) static constexpr auto kFrom = [] {
    std::array<uint8_t, 64> from{};
    for (size_t i = 0; i < from.size(); ++i) from[i] = uint8_t((i + 64 - by) % 64);
    return from;
  }();
  return _mm512_permutexvar_epi8(_mm512_load_si512(kFrom.data()), v);
}

// The part of a row's mask that the first 64 of n columns make. Each is one bit of one of 32 bytes:
// bits of the same byte, which are neighbours, are joined, then the bytes go to their places.
inline __m256i mask_of_columns(const uint8_t* columns, int64_t n) {
  const uint64_t there = n < 64 ? (uint64_t(1) << n) - 1 : ~uint64_t(0);
  const __m512i c = _mm512_maskz_loadu_epi8(there, columns),
                powers = _mm512_set1_epi64(0x8040201008040201);
  const __m512i byte = _mm512_and_si512(_mm512_srli_epi16(c, 3), _mm512_set1_epi8(31));
  __m512i bits = _mm512_maskz_shuffle_epi8(there, powers, _mm512_and_si512(c, _mm512_set1_epi8(7)));
  // Lanes whose byte is that of the lane before, of the two before, of the four before.
  const uint64_t same = _mm512_cmpeq_epi8_mask(byte, moved_up<1>(byte)) & there & ~uint64_t(1);
  const uint64_t same2 = same & same << 1, same4 = same2 & same2 << 2;
  bits = _mm512_or_si512(bits, _mm512_maskz_mov_epi8(same, moved_up<1>(bits)));
  bits = _mm512_or_si512(bits, _mm512_maskz_mov_epi8(same2, moved_up<2>(bits)));
  bits = _mm512_or_si512(bits, _mm512_maskz_mov_epi8(same4, moved_up<4>(bits)));
  const uint64_t last = there & ~(same >> 1);
  const __m512i whole = _mm512_maskz_compress_epi8(last, bits);
  const __m512i place = _mm512_mask_compress_epi8(_mm512_set1_epi8(-1), last, byte);
  const __m512i one = _mm512_set1_epi32(1);  // shifted by 255 it is 0
  const __m512i low = _mm512_cvtepu8_epi32(_mm512_castsi512_si128(place));
  const __m512i high = _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(place, 1));
  const auto places = uint32_t(_mm512_reduce_or_epi32(
      _mm512_or_si512(_mm512_sllv_epi32(one, low), _mm512_sllv_epi32(one, high))));
  return _mm256_maskz_expand_epi8(places, _mm512_castsi512_si256(whole));
}
template <class T> void place_row(const T* values, const uint8_t* columns, int64_t n, T* to) {
  __m256i bytes = mask_of_columns(columns, n);
  for (int64_t i = 64; i < n; i += 64) {
    bytes = _mm256_or_si256(bytes, mask_of_columns(columns + i, n - i));
  }
  RowMask mask;
  std::memcpy(mask.data(), &bytes, sizeof mask);
  expand_row(values, mask, to);
}
#else
using portable::place_row;
#endif

}  // namespace pal::ssdc
