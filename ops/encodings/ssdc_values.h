// How the values of an encoding are stored, and moved to and from their section on the processor. A
// format is a struct with
//
//   bytes(count)                  of so many values
//   behind(count)                 where what is behind so many values has to be zeroed
//   class Reader(section, capacity)
//     read(at, count, buffer)     values at, .., at + count - 1, and anything behind them: in the
//                                 buffer, or where they lie
//   class Writer(section, at, end)  of a chunk of rows, which has the values from `at` to `end`
//     place(buffer)               where the next row's values go, with anything behind them: into
//                                 the buffer, or where they will lie
//     put(values, count)          these are the next
//     finish()                    what was not written
//
// Chunks are written at the same time. Where two have values in one word, neither writes it:
// finish() gives its part of such words, and join_edges puts the parts of all chunks together.
#pragma once
#include <cstring>
#include <span>

#include "ops/encodings/ssdc_rows.h"

namespace pal::ssdc {

// The parts of a chunk in its first and last word; -1: none.
struct Edges {
  int64_t word[2] = {-1, -1};
  uint32_t bits[2] = {0, 0};
};

inline void join_edges(std::byte* section, std::span<const Edges> chunks) {
  int64_t open = -1;  // the word that was begun last; words come in order
  uint32_t bits = 0;
  for (const Edges& chunk : chunks) {
    for (size_t k = 0; k < 2; ++k) {
      if (chunk.word[k] < 0) continue;
      bits = chunk.bits[k] | (chunk.word[k] == open ? bits : 0);
      open = chunk.word[k];
      std::memcpy(section + open * 4, &bits, sizeof bits);
    }
  }
}

// As in the dense tensor.
template <class T> struct PlainValues {
  static constexpr bool kHasEdges = false;
  static int64_t bytes(int64_t count) { return count * int64_t(sizeof(T)); }
  static int64_t behind(int64_t count) { return bytes(count); }

  class Reader {
   public:
    Reader(const std::byte* section, int64_t capacity)
        : values_(reinterpret_cast<const T*>(section)), capacity_(capacity) {}
    const T* read(int64_t at, int64_t count, RowBuffer<T>& buffer) const {
      if (at + kSsdcRow + kWord <= capacity_) return values_ + at;
      std::memcpy(buffer.at, values_ + at, size_t(bytes(count)));
      return buffer.at;
    }

   private:
    const T* values_;
    int64_t capacity_;
  };

  class Writer {
   public:
    Writer(std::byte* section, int64_t at, int64_t end)
        : to_(reinterpret_cast<T*>(section) + at), left_(end - at) {}
    T* place(RowBuffer<T>& buffer) const { return left_ >= kSsdcRow + kWord ? to_ : buffer.at; }
    void put(const T* values, int64_t count) {
      if (values != to_) std::memcpy(to_, values, size_t(bytes(count)));
      to_ += count, left_ -= count;
    }
    Edges finish() const { return {}; }

   private:
    T* to_;
    int64_t left_;
  };
};

// Rounded to 16 or 8 bits.
template <class T, Dpr F> struct RoundedValues {
  static constexpr bool kHasEdges = false;
  using Code = DprCode<F>;
  static int64_t bytes(int64_t count) { return dpr_bytes(F, count); }
  static int64_t behind(int64_t count) { return count * int64_t(sizeof(Code)); }

  class Reader {
   public:
    Reader(const std::byte* section, int64_t) : codes_(reinterpret_cast<const Code*>(section)) {}
    const T* read(int64_t at, int64_t count, RowBuffer<T>& buffer) const {
      const Code* codes = codes_ + at;
      T* to = buffer.at;
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) to[i] = from_float<T>(dpr_value(codes[i], F));
      return to;
    }

   private:
    const Code* codes_;
  };

  class Writer {
   public:
    Writer(std::byte* section, int64_t at, int64_t) : to_(reinterpret_cast<Code*>(section) + at) {}
    T* place(RowBuffer<T>& buffer) const { return buffer.at; }
    void put(const T* values, int64_t count) {
      Code* to = to_;
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) to[i] = Code(dpr_code(to_float(values[i]), F));
      to_ += count;
    }
    Edges finish() const { return {}; }

   private:
    Code* to_;
  };
};

// Rounded to 10 bits, three to a word.
template <class T> struct RoundedValues<T, Dpr::fp10> {
  static constexpr bool kHasEdges = true;
  static int64_t bytes(int64_t count) { return dpr_bytes(Dpr::fp10, count); }
  static int64_t behind(int64_t count) { return bytes(count); }

  class Reader {
   public:
    Reader(const std::byte* section, int64_t) : section_(section) {}
    const T* read(int64_t at, int64_t count, RowBuffer<T>& buffer) const {
      float values[kSsdcRow + 4];  // whole words
      const int64_t first = at / 3, words = count ? (at + count + 2) / 3 - first : 0;
#pragma omp simd
      for (int64_t w = 0; w < words; ++w) {
        uint32_t word;
        std::memcpy(&word, section_ + (first + w) * 4, sizeof word);
        values[3 * w] = dpr_value(word & 1023, Dpr::fp10);
        values[3 * w + 1] = dpr_value(word >> 10 & 1023, Dpr::fp10);
        values[3 * w + 2] = dpr_value(word >> 20 & 1023, Dpr::fp10);
      }
      const float* from = values + at % 3;
      T* to = buffer.at;
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) to[i] = from_float<T>(from[i]);
      return to;
    }

   private:
    const std::byte* section_;
  };

  class Writer {
   public:
    Writer(std::byte* section, int64_t at, int64_t)
        : section_(section), word_(at / 3), slot_(int(at % 3)), shared_(slot_ != 0) {}
    T* place(RowBuffer<T>& buffer) const { return buffer.at; }
    void put(const T* values, int64_t count) {
      uint32_t codes[kSsdcRow];
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) codes[i] = dpr_code(to_float(values[i]), Dpr::fp10);
      int64_t i = 0;
      while (slot_ != 0 && i < count) add(codes[i++]);
      for (; i + 3 <= count; i += 3) store(codes[i] | codes[i + 1] << 10 | codes[i + 2] << 20);
      while (i < count) add(codes[i++]);
    }
    Edges finish() {
      if (slot_ != 0) edge(shared_ ? 0 : 1);
      return edges_;
    }

   private:
    void add(uint32_t code) {
      bits_ |= code << 10 * slot_;
      if (++slot_ < 3) return;
      if (shared_) {
        edge(0);
        ++word_;
      } else {
        store(bits_);
      }
      bits_ = 0, slot_ = 0, shared_ = false;
    }
    void store(uint32_t word) { std::memcpy(section_ + word_++ * 4, &word, sizeof word); }
    void edge(size_t k) { edges_.word[k] = word_, edges_.bits[k] = bits_; }

    std::byte* section_;
    int64_t word_;       // the one that is filled
    int slot_;           // of it, for the next code
    bool shared_;        // it was begun by another chunk
    uint32_t bits_ = 0;  // of it, those of this chunk
    Edges edges_;
  };
};

// Calls f(format) with the format of values of a dense tensor of T.
template <class T, class F> void by_values(SsdcValues values, F f) {
  switch (values) {
    case SsdcValues::plain: return f(PlainValues<T>{});
    case SsdcValues::fp16: return f(RoundedValues<T, Dpr::fp16>{});
    case SsdcValues::fp10: return f(RoundedValues<T, Dpr::fp10>{});
    case SsdcValues::fp8: return f(RoundedValues<T, Dpr::fp8>{});
  }
}

}  // namespace pal::ssdc
