// How the values of an encoding are stored, and moved to and from their section on the processor. A
// format is a struct with
//
//   bytes(count)                  of so many values
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

// Calls f(format) with the format of values of a dense tensor of T.
template <class T, class F> void by_values(SsdcValues, F f) { f(PlainValues<T>{}); }

}  // namespace pal::ssdc
