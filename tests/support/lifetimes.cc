// Lifetimes as a training step has them.
#include "tests/support/lifetimes.h"

#include <algorithm>
#include <random>

namespace pal::test {
namespace {

int64_t draw(std::mt19937_64& random, int64_t low, int64_t high) {  // both included
  return low + int64_t(random() % uint64_t(high - low + 1));
}

}  // namespace

std::vector<Buffer> training_lifetimes(uint64_t seed, int n, const TrainingOptions& options) {
  std::mt19937_64 random(seed);
  std::vector<int64_t> sizes;
  for (int i = 0; i < options.distinct; ++i)
    sizes.push_back(512 * (int64_t{1} << draw(random, 0, 10)) + 64 * draw(random, 0, 4000));
  auto size = [&] { return sizes[size_t(draw(random, 0, options.distinct - 1))]; };
  const int layers = std::max(n / 5, 1);
  const int64_t end = 4 * int64_t{layers};  // two moments a layer each way
  std::vector<Buffer> out;
  for (int64_t i = 0; i < layers; ++i) {
    const int64_t forward = 2 * i, backward = end - 2 * i - 2;
    // The feature map, and sometimes a smaller one beside it (a mask, statistics).
    const int64_t map = size();
    if (options.chopped && draw(random, 0, 2) == 0) {
      // Dropped after its last forward use; computed again shortly before it is needed.
      const int64_t last = std::min(forward + draw(random, 2, 8), backward);
      const int64_t again = std::max(backward - draw(random, 1, 40), last);
      out.push_back({forward, last, map});
      out.push_back({again, backward + 1, map});
    } else {
      out.push_back({forward, backward + 1, map});
    }
    if (draw(random, 0, 1)) out.push_back({forward, backward + 1, map / 32 / 64 * 64 + 64});
    out.push_back({forward, forward + draw(random, 1, 3), size()});           // forward scratch
    out.push_back({backward, backward + draw(random, 1, 4), map});            // gradient map
    if (draw(random, 0, 1)) out.push_back({backward, backward + 1, size()});  // backward scratch
    if (draw(random, 0, 3) == 0)  // a weight gradient that waits for its update
      out.push_back({backward, std::min(backward + draw(random, 2, 200), end), size()});
  }
  while (int(out.size()) < n) {
    const int64_t at = draw(random, 0, end - 2);
    out.push_back({at, at + draw(random, 1, 2), size()});
  }
  out.resize(size_t(n));
  std::shuffle(out.begin(), out.end(), random);
  return out;
}

}  // namespace pal::test
