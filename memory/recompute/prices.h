// Prices of bytes: what it is worth not to hold one at a position of the step.
//
// A position is a value of the step as it was recorded, in the order in which they were made
// (Value::origin), so that prices mean the same to every pass, whatever it moves or adds. Prices
// are whole attoseconds (1e-18 s) for a byte at a position, piecewise constant. What is weighed
// against them is in ticks of 2^20 attoseconds, about a picosecond, and nothing weighs more than
// kMostTicks, so that sums of weights stay far from the ends of 64 bits.
#pragma once
#include <cstdint>
#include <vector>

#include "core/program.h"

namespace pal {

using Position = int32_t;

struct PricePiece {
  Position begin = 0;  // the first position; it lasts to the next piece's
  int64_t price = 0;   // not below 0

  bool operator==(const PricePiece&) const = default;
};
// Ascending; before the first piece bytes are free.
using Prices = std::vector<PricePiece>;
constexpr size_t kMostPieces = 64;

constexpr int64_t kMostTicks = int64_t{1} << 45;  // about 37 s
int64_t ticks_of(double ms);

// The positions of a program's nodes: each where it is or where the last node before it is, of the
// forward and backward phase. Updates, clones and copies may run at any place, and have that of
// their surroundings.
ByNode<Position> positions_of(const Program& program);

// Sums of prices.
class PriceSums {
 public:
  // UsageError where pieces are too many, not in ascending order, or below 0.
  explicit PriceSums(const Prices& prices);
  // Ticks for so many bytes at all positions [begin, end).
  int64_t ticks(int64_t bytes, Position begin, Position end) const;

 private:
  __extension__ using Wide = __int128;
  Wide until(Position position) const;  // the sum of all before it

  Prices prices_;
  std::vector<Wide> before_;  // by piece
};

}  // namespace pal
