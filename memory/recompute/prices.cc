// Sums in 128 bits, brought back into 64.
#include "memory/recompute/prices.h"

#include <algorithm>
#include <limits>
#include <string>

#include "core/error.h"

namespace pal {
namespace {

constexpr int kTickBits = 20;
constexpr double kTicksPerMs = 1e15 / double(1 << kTickBits);

bool has_position(const Node& node) {
  return node.phase == Phase::forward || node.phase == Phase::backward;
}

}  // namespace

int64_t ticks_of(double ms) {
  const double ticks = ms * kTicksPerMs;
  if (!(ticks > 0)) return 0;
  return ticks < double(kMostTicks) ? int64_t(ticks) : kMostTicks;
}

ByNode<Position> positions_of(const Program& program) {
  ByNode<Position> positions(program.nodes.size(), 0);
  Position last = 0;
  for (NodeId n : program.nodes.ids()) {
    const Node& node = program.node(n);
    if (has_position(node)) {
      for (ValueId v : node.out) {
        if (v != kNone) last = std::max(last, Position(program.value(v).origin));
      }
    }
    positions[n] = last;
  }
  return positions;
}

PriceSums::PriceSums(const Prices& prices) : prices_(prices) {
  if (prices.size() > kMostPieces) {
    throw UsageError("[prices] " + std::to_string(prices.size()) + " pieces; at most " +
                     std::to_string(kMostPieces));
  }
  Wide sum = 0;
  for (size_t i = 0; i < prices.size(); ++i) {
    if (prices[i].price < 0 || (i > 0 && prices[i].begin <= prices[i - 1].begin)) {
      throw UsageError("[prices] piece " + std::to_string(i) +
                       ": pieces ascend, and no price is below 0");
    }
    if (i > 0) sum += Wide(prices[i - 1].price) * (prices[i].begin - prices[i - 1].begin);
    before_.push_back(sum);
  }
}

PriceSums::Wide PriceSums::until(Position position) const {
  const auto next =
      std::partition_point(prices_.begin(), prices_.end(),
                           [&](const PricePiece& piece) { return piece.begin < position; });
  if (next == prices_.begin()) return 0;
  const size_t i = size_t(next - prices_.begin()) - 1;
  return before_[i] + Wide(prices_[i].price) * (position - prices_[i].begin);
}

int64_t PriceSums::ticks(int64_t bytes, Position begin, Position end) const {
  if (begin >= end || bytes <= 0) return 0;
  const Wide sum = std::min<Wide>(until(end) - until(begin), std::numeric_limits<int64_t>::max());
  return int64_t(std::min<Wide>((sum * bytes) >> kTickBits, kMostTicks));
}

}  // namespace pal
