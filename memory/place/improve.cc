// Orders, and whom they blame.
#include "memory/place/improve.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "memory/place/first_fit.h"

namespace pal {
namespace {

// Largest first, by one of several keys; every key but for chance is blurred by up to `blur`.
std::vector<int32_t> draw_order(std::span<const Buffer> buffers, uint64_t which, double blur,
                                std::mt19937_64& random) {
  std::vector<double> key;
  for (const Buffer& b : buffers) {
    const double duration = double(b.upper - b.lower), size = double(b.size);
    const double k = which % 4 == 0   ? size
                     : which % 4 == 1 ? size * duration
                     : which % 4 == 2 ? duration
                                      : size * size * duration;
    key.push_back(k * (1 + blur * double(random() >> 11) * 0x1p-53));
  }
  std::vector<int32_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return key[size_t(a)] != key[size_t(b)] ? key[size_t(a)] > key[size_t(b)] : a < b;
  });
  return order;
}

}  // namespace

int64_t improve_order(std::span<const Buffer> buffers, int64_t enough, const SearchLimits& limits,
                      Placement& best) {
  FirstFit fit(buffers);
  std::mt19937_64 random(buffers.size());
  std::vector<int32_t> order;
  int64_t nodes = 0;
  size_t farthest = 0;  // culprit of this order's forebears
  int since = 0;
  for (uint64_t round = 0; best.height > enough && nodes < limits.nodes;) {
    if (limits.deadline && std::chrono::steady_clock::now() >= *limits.deadline) break;
    if (order.empty() || since > 200) {
      order = draw_order(buffers, round, round < 4 ? 0 : 0.5, random);
      ++round, since = 0, farthest = 0;
    }
    Placement p = fit.run(order, best.height);
    if (p.height < best.height) {
      nodes += 1 + int64_t(buffers.size());
      best = std::move(p);
      best.order = "improved";
      since = 0, farthest = 0;
      continue;
    }
    const size_t culprit = fit.culprit();
    nodes += 1 + int64_t(culprit);
    if (culprit > farthest) {
      farthest = culprit, since = 0;
    } else {
      ++since;
    }
    if (culprit == 0) break;  // too large for any order
    // Mostly a little earlier, sometimes to the front.
    const double chance = double(random() >> 11) * 0x1p-53;
    const size_t to = size_t(double(culprit) * (1 - chance * chance * chance));
    std::rotate(order.begin() + long(to), order.begin() + long(culprit),
                order.begin() + long(culprit) + 1);
    if (to == culprit) ++since;
  }
  return nodes;
}

}  // namespace pal
