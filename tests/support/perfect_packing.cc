// Cutting of rectangles.
#include "tests/support/perfect_packing.h"

#include <algorithm>
#include <array>
#include <random>

namespace pal::test {
namespace {

constexpr std::array kShapes{
    PackingShape{"fine", 1000, 1 << 20},
    PackingShape{"few_times", 40, 1 << 20},
    PackingShape{"coarse", 100, 1000},
    PackingShape{"dense", 50, 400},
    PackingShape{"uneven", 200, 4096, false},
    PackingShape{"skewed", 300, 1 << 14, true, 0, true},
    PackingShape{"halves", 96, 3 << 10, true, 0, false, true},
    PackingShape{"pinwheels", 400, 1 << 16, true, 0.4},
    PackingShape{"pinwheels_coarse", 100, 1000, true, 0.4},
};

int64_t draw(std::mt19937_64& random, int64_t low, int64_t high) {  // both included
  return low + int64_t(random() % uint64_t(high - low + 1));
}

int64_t duration(const Buffer& b) { return b.upper - b.lower; }
double area(const Buffer& b) { return double(b.size) * double(duration(b)); }

// Where to cut something `length` long, from 1 to length - 1.
int64_t line(const PackingShape& shape, std::mt19937_64& random, int64_t length) {
  if (shape.halves) {
    const int64_t parts = draw(random, 2, 3);
    if (length % parts == 0) return length / parts;
    if (length % 2 == 0) return length / 2;
  }
  if (!shape.skewed) return draw(random, 1, length - 1);
  const int64_t near = draw(random, 1, std::max<int64_t>(length / 6, 1));
  return random() % 2 ? near : length - near;
}

// Four pieces around a fifth: bottom and left, right and top share a side.
void pinwheel(std::mt19937_64& random, size_t at, std::vector<Buffer>& pieces) {
  const Buffer whole = pieces[at];
  const int64_t a = draw(random, whole.lower + 1, whole.upper - 2);
  const int64_t b = draw(random, a + 1, whole.upper - 1);
  const int64_t low = draw(random, 1, whole.size - 2);
  const int64_t high = draw(random, low + 1, whole.size - 1);
  pieces[at] = {whole.lower, b, low};
  pieces.push_back({whole.lower, a, whole.size - low});
  pieces.push_back({b, whole.upper, high});
  pieces.push_back({a, whole.upper, whole.size - high});
  pieces.push_back({a, b, high - low});
}

void cut(const PackingShape& shape, std::mt19937_64& random, size_t at,
         std::vector<Buffer>& pieces) {
  Buffer a = pieces[at], b = a;
  if (a.size == 1 || (duration(a) > 1 && random() % 2)) {
    a.upper = b.lower = a.lower + line(shape, random, duration(a));
  } else {
    b.size = line(shape, random, a.size);
    a.size -= b.size;
  }
  pieces[at] = a;
  pieces.push_back(b);
}

}  // namespace

std::span<const PackingShape> packing_shapes() { return kShapes; }

std::vector<Buffer> perfect_packing(const PackingShape& shape, int n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Buffer> pieces{{0, shape.steps, shape.height}};
  const double most = double(shape.steps) * double(shape.height);
  while (int(pieces.size()) < n && double(pieces.size()) < most) {
    size_t at = size_t(draw(random, 0, int64_t(pieces.size()) - 1));
    if (shape.largest_first) {
      at = 0;
      for (size_t i = 1; i < pieces.size(); ++i)
        if (area(pieces[i]) > area(pieces[at])) at = i;
    }
    if (pieces[at].size == 1 && duration(pieces[at]) == 1) continue;
    const bool wheel = double(random() % 1000) < 1000 * shape.pinwheels / 4;  // four pieces at once
    if (wheel && pieces[at].size > 2 && duration(pieces[at]) > 2 && int(pieces.size()) + 4 <= n) {
      pinwheel(random, at, pieces);
    } else {
      cut(shape, random, at, pieces);
    }
  }
  std::shuffle(pieces.begin(), pieces.end(), random);
  return pieces;
}

std::vector<Buffer> perfect_packing(uint64_t seed, int n, int64_t steps, int64_t height,
                                    bool even) {
  return perfect_packing({"", steps, height, even}, n, seed);
}

}  // namespace pal::test
