// Iterates over one view of the step.
#include "memory/front/dual.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "memory/pass.h"
#include "memory/passes/fuse_recompute.h"
#include "memory/passes/parts.h"
#include "memory/recompute/priced.h"
#include "memory/schedule/schedule.h"
#include "memory/storages/lifetimes.h"

namespace pal {
namespace {

// The first height: what moving a byte this many times costs.
constexpr double kPriceMoves = 4;
// From a height to the next, while none was high (or low) enough.
constexpr double kPriceStride = 3;
// The part of the shape that an iterate's violations make up.
constexpr double kPriceLean = 0.5;
constexpr double kAttosecondsPerMs = 1e15;

RecomputeOptions nothing_heavy(RecomputeOptions options) {
  options.heavy = std::numeric_limits<double>::infinity();
  return options;
}

}  // namespace

Dual::Dual(const Program& program, const CompileOptions& options, const DeviceProfile& device)
    : options_(options),
      device_(device),
      parts_(split_parts(program)),
      view_(parts_, nothing_heavy(options.recompute_options)),
      positions_(std::max<Position>(Position(program.values.size()), 1)),
      plain_(judge(program)),
      height_(kPriceMoves * 1e3 / device.memory) {}

size_t Dual::piece_of(Position position) const {
  return size_t(int64_t(position) * int64_t(kMostPieces) / positions_);
}

Dual::Judged Dual::judge(const Program& program) const {
  const StorageOptions counted = storage_options(options_);
  Program step = options_.fuse_recompute ? fuse_recompute(program) : program;
  if (options_.schedule != Schedule::program) {
    step = schedule_early_updates(step, nullptr, {}, counted);
  }
  const Storages storages = assign_storages(step, {}, counted);
  const std::vector<int64_t> live = live_bytes(step, storages, lifetimes_of(step, storages));
  const ByNode<Position> position = positions_of(step);
  Judged out{.ms = predict(step, device_, &storages).step_ms};
  for (NodeId n : step.nodes.ids()) {
    const int64_t bytes = std::max(live[size_t(start_of(n))], live[size_t(done_of(n))]);
    double& most = out.alive[piece_of(position[n])];
    most = std::max(most, double(bytes)), out.bytes = std::max(out.bytes, bytes);
  }
  return out;
}

// Zero where nothing was violated yet.
Prices Dual::prices() const {
  Prices prices;
  for (size_t k = 0; k < kMostPieces; ++k) {
    const auto begin =
        Position((int64_t(k) * positions_ + int64_t(kMostPieces) - 1) / int64_t(kMostPieces));
    const auto end =
        Position((int64_t(k + 1) * positions_ + int64_t(kMostPieces) - 1) / int64_t(kMostPieces));
    if (begin >= end) continue;
    const double price = height_ * shape_[k] * kAttosecondsPerMs / double(end - begin);
    prices.push_back({begin, price < 1e18 ? int64_t(price) : int64_t(1e18)});
  }
  return prices;
}

void Dual::lean_towards(const Judged& judged, int64_t target) {
  ByPiece above;
  for (size_t k = 0; k < kMostPieces; ++k)
    above[k] = std::max(0.0, judged.alive[k] - double(target));
  const double sum = std::accumulate(above.begin(), above.end(), 0.0);
  if (!(sum > 0)) return;
  const bool first =
      std::all_of(shape_.begin(), shape_.end(), [](double part) { return part == 0; });
  const double lean = first ? 1 : kPriceLean;
  for (size_t k = 0; k < kMostPieces; ++k) {
    shape_[k] = (1 - lean) * shape_[k] + lean * above[k] / sum;
  }
}

std::vector<DualIterate> Dual::iterate(int64_t target, int iterations) {
  std::vector<DualIterate> iterates;
  lean_towards(plain_, target);
  double low = 0, high = 0;  // 0: none yet
  for (int i = 0; i < iterations; ++i) {
    RecomputeOptions asked = options_.recompute_options;
    asked.prices = prices();
    const Judged judged = judge(priced_clones(view_, asked, device_).program);
    iterates.push_back({std::move(asked.prices), judged.bytes, judged.ms});
    (judged.bytes > target ? low : high) = height_;
    if (low > 0 && high > low) {
      height_ = std::sqrt(low * high);
    } else {
      height_ *= judged.bytes > target ? kPriceStride : 1 / kPriceStride;
    }
    lean_towards(judged, target);
  }
  if (high > 0) height_ = high;
  return iterates;
}

}  // namespace pal
