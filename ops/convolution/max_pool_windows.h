// Max pooling on the processor where the map is u4: up to 15 pixels of a window, or up to 15
// windows of a pixel, in one loop over the channels.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "ops/kernels/element_types.h"
#include "ops/kernels/vectors.h"

namespace pal::pool {

constexpr int64_t kBlock = std::max(16, 2 * vectors::kWidth);  // channels at a time
constexpr int64_t kLanes = 256;                                // channels of a window, at most
constexpr int kMostInWindow = 15;
static_assert(std::endian::native == std::endian::little);

// The numbers of pixels or windows that loops are compiled for: calls f with the least constant
// that is n or more.
template <class F> void by_number(int n, F f) {
  if (n <= 1) return f(std::integral_constant<int, 1>{});
  if (n <= 2) return f(std::integral_constant<int, 2>{});
  if (n <= 4) return f(std::integral_constant<int, 4>{});
  if (n <= 6) return f(std::integral_constant<int, 6>{});
  if (n <= 9) return f(std::integral_constant<int, 9>{});
  f(std::integral_constant<int, kMostInWindow>{});
}

// The first n of a block of elements, with anything behind them: where they lie, if `end` is not
// before the block's end, or in the buffer.
template <class T> const T* whole_block(const T* from, int64_t n, const T* end, T* buffer) {
  if (end - from >= kBlock) return from;
  std::memset(static_cast<void*>(buffer), 0, kBlock * sizeof(T));
  std::memcpy(buffer, from, size_t(n) * sizeof(T));
  return buffer;
}

// The pixels of a window, from the same channel on, with their places.
template <class T> struct WindowPixels {
  const T* end;  // of the tensor
  std::array<const T*, kMostInWindow> pixel;
  std::array<int32_t, kMostInWindow> place;
  int count = 0;

  void add(const T* at, int here) {
    pixel[size_t(count)] = at, place[size_t(count)] = here, ++count;
  }
};

using namespace vectors;  // NOLINT: of this file alone

// A vector's channels of all pixels of a window, one pixel after the other.
struct Maximum {
  Floats best;
  Ints place;

  void meet(Floats v, int32_t here) {
    const Mask larger = is_greater_or_nan(v, best);
    best = choose(larger, v, best), place = choose(larger, all(here), place);
  }
  // kNowhere unless it is a finite number above zero.
  void keep_positive() {
    const Ints nowhere = all(15);
    place = choose(is_less(all(0.0f), best), place, nowhere);
    place = choose(is_less(best, all(std::numeric_limits<float>::infinity())), place, nowhere);
  }
};

// Of the words that two bf16 make: the first, the second, as floats; and back, where that is exact.
inline Floats first_of(Words two) { return Floats(two << 16); }
inline Floats second_of(Words two) { return Floats(two & 0xffff0000u); }
inline Words quiet(Floats x) { return Words(choose(is_nan(x), Ints(x) | 0x400000, Ints(x))); }
// As from_float<bf16> rounds.
inline Words rounded(Floats x) {
  const auto u = Words(x);
  return Words(choose(is_nan(x), Ints(u | 0x400000u), Ints(u + 0x7fffu + (u >> 16 & 1u))));
}
inline Words two_rounded(Floats a, Floats b) {
  return rounded(a) >> 16 | (rounded(b) & 0xffff0000u);
}
inline Words two_exactly(Floats a, Floats b) { return quiet(a) >> 16 | (quiet(b) & 0xffff0000u); }

// Blocks of channels [0, blocks * kBlock): y, and two places to a byte.
template <bool kPositive, class T, size_t... K>
void maxima(const WindowPixels<T>& w, int64_t blocks, T* y, uint8_t* map,
            std::index_sequence<K...>) {
  const T* const p[] = {w.pixel[0], w.pixel[K + 1]...};
  const int32_t at[] = {w.place[0], w.place[K + 1]...};
  for (int64_t c = 0; c < blocks * kBlock; c += kWidth) {
    Maximum m{load_floats(p[0] + c), all(at[0])};
    (m.meet(load_floats(p[K + 1] + c), at[K + 1]), ...);
    store_floats(y + c, m.best);
    if (kPositive) m.keep_positive();
    store_nibbles(map + c / 2, Words(m.place));
  }
}
template <bool kPositive, size_t... K>
void maxima(const WindowPixels<bf16>& w, int64_t blocks, bf16* y, uint8_t* map,
            std::index_sequence<K...>) {
  const bf16* const p[] = {w.pixel[0], w.pixel[K + 1]...};
  const int32_t at[] = {w.place[0], w.place[K + 1]...};
  for (int64_t c = 0; c < blocks * kBlock; c += 2 * kWidth) {
    const auto two = load_vector<Words>(p[0] + c);
    Maximum a{first_of(two), all(at[0])}, b{second_of(two), all(at[0])};
    [[maybe_unused]] auto meet = [&](Words v, int32_t here) {
      a.meet(first_of(v), here), b.meet(second_of(v), here);
    };
    (meet(load_vector<Words>(p[K + 1] + c), at[K + 1]), ...);
    store_vector(y + c, two_exactly(a.best, b.best));
    if (kPositive) a.keep_positive(), b.keep_positive();
    store_bytes(map + c / 2, Words(a.place | b.place << 4));
  }
}

// The maxima of a window of so many channels, at most kLanes: y, and the map, two places to a byte
// from the first on; of an odd number the last byte's upper half is 0. There is room for whole
// blocks in the map.
template <bool kPositive, class T>
void pool_pixels(WindowPixels<T>& w, int64_t lanes, T* y, uint8_t* map) {
  by_number(w.count, [&](auto number) {
    // A pixel that is met again changes nothing.
    while (w.count < number) w.add(w.pixel[0], w.place[0]);
    constexpr auto rest = std::make_index_sequence<size_t(number - 1)>{};
    const int64_t blocks = lanes / kBlock, tail = lanes % kBlock;
    maxima<kPositive>(w, blocks, y, map, rest);
    if (tail == 0) return;
    T part[number][kBlock], best[kBlock];
    for (size_t k = 0; k < number; ++k) {
      w.pixel[k] = whole_block(w.pixel[k] + blocks * kBlock, tail, w.end, part[k]);
    }
    maxima<kPositive>(w, 1, best, map + blocks * kBlock / 2, rest);
    std::memcpy(y + blocks * kBlock, best, size_t(tail) * sizeof(T));
    if (lanes % 2) map[lanes / 2] &= 15;
  });
}

// Windows that a pixel lies in: their gradients and maps, and the pixel's place in each.
template <class T> struct PixelWindows {
  const T* end;  // of the tensor that dy is
  std::array<const T*, kMostInWindow> dy;
  std::array<const uint8_t*, kMostInWindow> map;
  std::array<int32_t, kMostInWindow> place;
  int count = 0;

  void add(const T* from, const uint8_t* codes, int here) {
    dy[size_t(count)] = from, map[size_t(count)] = codes, place[size_t(count)] = here, ++count;
  }
};

// Blocks of channels [0, blocks * kBlock) of a pixel's dx: the sum, window after window, of the
// gradients whose maximum it was.
template <class T, size_t... K>
void sums(const PixelWindows<T>& w, int64_t blocks, int32_t pixel, T* dx,
          std::index_sequence<K...>) {
  const T* const dy[] = {w.dy[K]...};
  const uint8_t* const map[] = {w.map[K]...};
  const int32_t at[] = {w.place[K] + pixel...};
  for (int64_t c = 0; c < blocks * kBlock; c += kWidth) {
    Floats sum{};
    auto meet = [&](const uint8_t* codes, int32_t here, Floats v) {
      sum = add_where(is_equal(Ints(load_nibbles(codes)), all(here)), sum, v);
    };
    (meet(map[K] + c / 2, at[K], load_floats(dy[K] + c)), ...);
    store_floats(dx + c, sum);
  }
}
template <size_t... K>
void sums(const PixelWindows<bf16>& w, int64_t blocks, int32_t pixel, bf16* dx,
          std::index_sequence<K...>) {
  const bf16* const dy[] = {w.dy[K]...};
  const uint8_t* const map[] = {w.map[K]...};
  const int32_t at[] = {w.place[K] + pixel...};
  for (int64_t c = 0; c < blocks * kBlock; c += 2 * kWidth) {
    Floats a{}, b{};
    auto meet = [&](const uint8_t* codes, int32_t here, Words v) {
      const auto both = load_bytes(codes);
      a = add_where(is_equal(Ints(both & 15u), all(here)), a, first_of(v));
      b = add_where(is_equal(Ints(both >> 4), all(here)), b, second_of(v));
    };
    (meet(map[K] + c / 2, at[K], load_vector<Words>(dy[K] + c)), ...);
    store_vector(dx + c, two_rounded(a, b));
  }
}

// n places of a map from `at` on, two to a byte from the first on, with anything behind them up to
// whole blocks: in place or in `buffer`, which has room for kLanes. The map ends at `end`.
inline const uint8_t* load_places(const uint8_t* map, int64_t at, int64_t n, const uint8_t* end,
                                  uint8_t* buffer) {
  constexpr int64_t kBytes = kBlock / 2;
  const uint8_t* from = map + at / 2;
  const int64_t bytes = (n + kBlock - 1) / kBlock * kBytes;
  uint8_t last[kLanes / 2 + 1];
  if (end - from <= bytes) {
    std::memset(last, 0, sizeof last);
    std::memcpy(last, from, size_t(end - from));
    from = last;
    if (at % 2 == 0) return static_cast<uint8_t*>(std::memcpy(buffer, last, size_t(bytes)));
  }
  if (at % 2 == 0) return from;
  for (int64_t k = 0; k < bytes; k += 8) {
    const uint64_t shifted = load_vector<uint64_t>(from + k) >> 4 | uint64_t(from[k + 8]) << 60;
    store_vector(buffer + k, shifted);
  }
  return buffer;
}

// What will be written soon, before it is: the processor reads it first.
template <class T> void fetch_ahead(T* to, int64_t n) {
  const auto* ahead = reinterpret_cast<const char*>(to) + 2048;
  for (int64_t byte = 0; byte < n * int64_t(sizeof(T)); byte += 64) {
    __builtin_prefetch(ahead + byte, 1);
  }
}

// dx, of so many channels, at most kLanes, of `pixels` pixels, `stride` elements from one to the
// next, that lie in the same windows; the places are those of the first, and of the next one more.
template <class T>
void sum_windows(PixelWindows<T>& w, int64_t lanes, int64_t pixels, int64_t stride, T* dx) {
  by_number(w.count, [&](auto number) {
    while (w.count < number) w.add(w.dy[0], w.map[0], INT32_MIN);  // no maximum's: adds 0
    constexpr auto all = std::make_index_sequence<size_t(number)>{};
    const int64_t blocks = lanes / kBlock, tail = lanes % kBlock;
    for (int64_t p = 0; p < pixels; ++p) {
      fetch_ahead(dx + p * stride, lanes);
      sums(w, blocks, int32_t(p), dx + p * stride, all);
    }
    if (tail == 0) return;
    T part[number][kBlock], sum[kBlock];
    for (size_t k = 0; k < number; ++k) {
      w.dy[k] = whole_block(w.dy[k] + blocks * kBlock, tail, w.end, part[k]);
      w.map[k] += blocks * kBlock / 2;
    }
    for (int64_t p = 0; p < pixels; ++p) {
      sums(w, 1, int32_t(p), sum, all);
      std::memcpy(dx + p * stride + blocks * kBlock, sum, size_t(tail) * sizeof(T));
    }
  });
}

}  // namespace pal::pool
