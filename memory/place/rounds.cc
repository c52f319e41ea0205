// Weights, and the orders that they make.
#include "memory/place/rounds.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "memory/place/buffers/load.h"
#include "memory/place/skyline.h"

namespace pal {
namespace {

constexpr int kAnew = 16;  // rounds: after so many they hardly find anything, and begin anew
// Beyond these a search does more in the time; so many looks take a third of a second or so.
constexpr size_t kMostBuffers = 100'000;
constexpr int64_t kMostLooks = 100'000'000;

double first_weight(const Buffer& b, int beginning) {
  const double alive = double(b.upper - b.lower), size = double(b.size);
  switch (beginning % 4) {
    case 0: return std::sqrt(alive) * size;
    case 1: return size;
    case 2: return alive;
    default: return alive * size;
  }
}

}  // namespace

void try_rounds(std::span<const Buffer> buffers, int64_t enough, int rounds,
                const Deadline& deadline, Placement& best) {
  const size_t count = buffers.size();
  if (rounds <= 0 || count > kMostBuffers) return;
  const int64_t aim = std::max(enough, lower_bound_of(buffers));
  if (best.height <= aim) return;
  Skyline skyline(buffers);
  int64_t looks = kMostLooks;
  std::vector<double> weight(count);
  std::vector<int32_t> order(count);
  for (int round = 0; round < rounds && best.height > aim && !is_past(deadline); ++round) {
    if (round % kAnew == 0) {
      for (size_t i = 0; i < count; ++i) weight[i] = first_weight(buffers[i], round / kAnew);
    }
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int32_t i, int32_t j) {
      const double a = weight[size_t(i)], b = weight[size_t(j)];
      return a != b ? a > b : i < j;
    });
    Placement p = skyline.run(order, looks);
    if (p.height == INT64_MAX) return;
    for (size_t i = 0; i < count; ++i) {
      if (p.offset[i] + buffers[i].size > aim) weight[i] *= 2;
    }
    if (p.height < best.height) best = std::move(p), best.order = "rounds";
  }
}

}  // namespace pal
