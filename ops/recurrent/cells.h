// What the recurrent cells share: their states in tiles, rows whose sequence has ended, gates that
// lie side by side.
#pragma once
#include <algorithm>
#include <type_traits>

#include "core/op.h"
#include "core/parallel.h"
#include "ops/kernels/row_tiles.h"

namespace pal {

constexpr int64_t kCellGrain = 4096;  // elements of a state: each costs three activations or five
alignas(64) constexpr float kZeroTile[kTile] = {};

// n elements of a row of a state (B, H).
struct CellTile {
  int64_t row, width, column, n;
  bool ended;  // the row's sequence is over: its state stays

  int64_t at() const { return row * width + column; }
  // The same elements of gate k of (B, gates H).
  int64_t gate(int gates, int k) const { return (gates * row + k) * width + column; }
};

// f(tile, buffers) for every tile of a state (B, H), with kBuffers tiles to compute in. A row has
// ended where t >= lengths[row]; lengths may be null. `elements`: of a chunk.
template <int kBuffers, class F>
void each_cell_tile(const Queue& queue, const Shape& state, const int32_t* lengths, int64_t t, F f,
                    int64_t elements = kCellGrain) {
  const int64_t rows = state[0], width = state[1];
  parallel_chunks(queue, rows, rows_of_chunk(width, elements), [&](int64_t begin, int64_t end) {
    alignas(64) float buffers[kBuffers][kTile];
    for (int64_t row = begin; row < end; ++row) {
      const bool ended = lengths && t >= lengths[row];
      for (int64_t j = 0; j < width; j += kTile) {
        f(CellTile{row, width, j, std::min(kTile, width - j), ended}, buffers);
      }
    }
  });
}

// How a cell writes tiles of that type: computed in place if they are f32, else in a buffer. `out`
// is null where the output is unread.
struct CellStore {
  DType type;

  float* fill(void* out, int64_t at, float* buffer) const {
    return out ? tile_to_fill(out, type, at, buffer) : buffer;
  }
  void keep(void* out, int64_t at, int64_t n, const float* tile) const {
    if (out && type != DType::f32) store_tile(out, type, at, n, tile);
  }
  void zero_gates(void* out, const CellTile& tile, int gates) const {
    for (int k = 0; k < gates && out; ++k) {
      store_tile(out, type, tile.gate(gates, k), tile.n, kZeroTile);
    }
  }
};

// f(std::bool_constant...) of these values: one call for each combination is compiled.
template <class F> void with_constants(F f) { f(); }
template <class F, class... Rest> void with_constants(F f, bool first, Rest... rest) {
  with_constants(
      [&](auto... others) {
        first ? f(std::true_type{}, others...) : f(std::false_type{}, others...);
      },
      rest...);
}

// Errors unless gates are (B, count H) and the state (B, H), floats of one type; the lengths, which
// may be absent, i32 (B).
void require_gates(const TensorSpec& gates, const TensorSpec& state, int count);
void require_lengths(const TensorSpec& lengths, const TensorSpec& state);

// Operands of an example, a letter each: `s` a state (B, H), `g` gates (B, count H), `l` lengths,
// `-` absent.
std::vector<ExampleOperand> cell_operands(const char* kinds, int count, int64_t batch,
                                          int64_t width, DType type = DType::f32);

// Whether a slice_columns_grad with these operands lays down the first of `count` gates (B, H) of
// f32, on the sum of the others: the last node of an unfused cell's gradient.
bool lays_first_gate(SpecSpan in, const Attrs& attrs, int count);

}  // namespace pal
