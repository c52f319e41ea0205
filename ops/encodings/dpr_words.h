// Codes of 10 bits, three to a word, and back: on the processor, many at a time. The bits are the
// same with vectors and without.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>

#include "ops/kernels/intrinsics.h"

namespace pal::dpr_words {

constexpr int64_t kMost = 768;   // codes at a time, at most
constexpr int64_t kBehind = 32;  // that may be read or written behind them

// n codes, whole words.
namespace portable {
inline void pack(const uint16_t* codes, int64_t n, std::byte* to) {
  for (int64_t w = 0; w < n / 3; ++w) {
    const uint16_t* three = codes + 3 * w;
    const uint32_t word = uint32_t(three[0]) | uint32_t(three[1]) << 10 | uint32_t(three[2]) << 20;
    std::memcpy(to + 4 * w, &word, 4);
  }
}
inline void unpack(const std::byte* from, int64_t n, uint16_t* codes) {
  for (int64_t w = 0; w < n / 3; ++w) {
    uint32_t word;
    std::memcpy(&word, from + 4 * w, 4);
    for (int k = 0; k < 3; ++k) codes[3 * w + k] = uint16_t(word >> (10 * k) & 1023);
  }
}
}  // namespace portable

#if defined(__AVX512VBMI__) && defined(__AVX512BW__)
constexpr int64_t kCodes = 48;  // at a time: a vector of words
template <class T, class F> constexpr std::array<T, 64 / sizeof(T)> table(F f) {
  std::array<T, 64 / sizeof(T)> out{};
  for (size_t i = 0; i < out.size(); ++i) out[i] = T(f(int(i)));
  return out;
}
template <class T> __m512i loaded(const std::array<T, 64 / sizeof(T)>& table) {
  return _mm512_loadu_si512(table.data());
}
inline void pack_some(const uint16_t* codes, std::byte* to) {
  static constexpr auto kTwo = table<uint16_t>([](int i) { return i / 2 * 3 + i % 2; });
  static constexpr auto kThird = table<uint16_t>([](int i) { return i / 2 * 3 + 2; });
  const __m512i low = _mm512_loadu_si512(codes), high = _mm512_loadu_si512(codes + 32);
  const __m512i two = _mm512_madd_epi16(_mm512_permutex2var_epi16(low, loaded(kTwo), high),
                                        _mm512_set1_epi32(1024 << 16 | 1));
  const __m512i third = _mm512_permutex2var_epi16(low, loaded(kThird), high);
  _mm512_storeu_si512(to, _mm512_or_si512(two, _mm512_slli_epi32(third, 20)));
}
inline void unpack_some(const std::byte* from, uint16_t* codes) {
  // Byte b of code i; of a word its codes begin in bytes 0, 1 and 2, at bits 0, 2 and 4.
  static constexpr auto kLow =
      table<uint8_t>([](int b) { return b / 2 / 3 * 4 + b / 2 % 3 + b % 2; });
  static constexpr auto kHigh =
      table<uint8_t>([](int b) { return (b / 2 + 32) / 3 * 4 + (b / 2 + 32) % 3 + b % 2; });
  static constexpr auto kShift = table<uint16_t>([](int i) { return i % 3 * 2; });
  static constexpr auto kShiftHigh = table<uint16_t>([](int i) { return (i + 32) % 3 * 2; });
  const __m512i words = _mm512_loadu_si512(from), all = _mm512_set1_epi16(1023);
  auto some = [&](const auto& bytes, const auto& shift) {
    const __m512i v = _mm512_permutexvar_epi8(loaded(bytes), words);
    return _mm512_and_si512(_mm512_srlv_epi16(v, loaded(shift)), all);
  };
  _mm512_storeu_si512(codes, some(kLow, kShift));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + 32),
                      _mm512_castsi512_si256(some(kHigh, kShiftHigh)));
}
#elif defined(__AVX2__)
constexpr int64_t kCodes = 24;  // at a time: a vector of words
inline __m256i halves(const void* low, const void* high) {
  return _mm256_loadu2_m128i(static_cast<const __m128i*>(high), static_cast<const __m128i*>(low));
}
// In each half four words of twelve codes: pairs of them from the first eight and the last eight.
inline void pack_some(const uint16_t* codes, std::byte* to) {
  const __m256i first = halves(codes, codes + 12), last = halves(codes + 4, codes + 16);
  const __m256i two = _mm256_or_si256(
      _mm256_shuffle_epi8(first, _mm256_broadcastsi128_si256(_mm_setr_epi8(
                                     0, 1, 2, 3, 6, 7, 8, 9, 12, 13, 14, 15, -1, -1, -1, -1))),
      _mm256_shuffle_epi8(
          last, _mm256_broadcastsi128_si256(_mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                                                          -1, -1, 10, 11, 12, 13))));
  const __m256i third = _mm256_or_si256(
      _mm256_shuffle_epi8(
          first, _mm256_broadcastsi128_si256(
                     _mm_setr_epi8(4, 5, -1, -1, 10, 11, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1))),
      _mm256_shuffle_epi8(
          last, _mm256_broadcastsi128_si256(
                    _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, 8, 9, -1, -1, 14, 15, -1, -1))));
  const __m256i low = _mm256_madd_epi16(two, _mm256_set1_epi32(1024 << 16 | 1));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm256_or_si256(low, _mm256_slli_epi32(third, 20)));
}
// Eight codes of words of which the first begins `from` bytes behind; `first` is the place of the
// first code in its word. The bytes that hold each, moved to the highest bits, and down.
inline __m128i eight(const std::byte* from, __m128i bytes, __m128i up) {
  const __m128i v =
      _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)), bytes);
  return _mm_srli_epi16(_mm_mullo_epi16(v, up), 6);
}
inline void unpack_some(const std::byte* from, uint16_t* codes) {
  const __m128i begin = _mm_setr_epi8(0, 1, 1, 2, 2, 3, 4, 5, 5, 6, 6, 7, 8, 9, 9, 10);
  const __m128i middle = _mm_setr_epi8(2, 3, 4, 5, 5, 6, 6, 7, 8, 9, 9, 10, 10, 11, 12, 13);
  const __m128i end = _mm_setr_epi8(5, 6, 6, 7, 8, 9, 9, 10, 10, 11, 12, 13, 13, 14, 14, 15);
  auto* to = reinterpret_cast<__m128i*>(codes);
  _mm_storeu_si128(to, eight(from, begin, _mm_setr_epi16(64, 16, 4, 64, 16, 4, 64, 16)));
  _mm_storeu_si128(to + 1, eight(from + 8, middle, _mm_setr_epi16(4, 64, 16, 4, 64, 16, 4, 64)));
  _mm_storeu_si128(to + 2, eight(from + 16, end, _mm_setr_epi16(16, 4, 64, 16, 4, 64, 16, 4)));
}
#else
constexpr int64_t kCodes = 3;
inline void pack_some(const uint16_t* codes, std::byte* to) { portable::pack(codes, 3, to); }
inline void unpack_some(const std::byte* from, uint16_t* codes) {
  portable::unpack(from, 3, codes);
}
#endif

inline void pack(const uint16_t* codes, int64_t n, std::byte* to) {
  int64_t i = 0;
  for (; i + kCodes <= n; i += kCodes) pack_some(codes + i, to + i / 3 * 4);
  portable::pack(codes + i, n - i, to + i / 3 * 4);
}
inline void unpack(const std::byte* from, int64_t n, uint16_t* codes) {
  int64_t i = 0;
  for (; i + kCodes <= n; i += kCodes) unpack_some(from + i / 3 * 4, codes + i);
  portable::unpack(from + i / 3 * 4, n - i, codes + i);
}

}  // namespace pal::dpr_words
