// Steps and circles made by hand, and who holds which bytes of a pool.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "memory/share/circle.h"
#include "memory/share/step_shape.h"

namespace pal::test {

class Random {
 public:
  explicit Random(uint64_t seed) : random_(seed) {}
  int64_t below(int64_t n) { return int64_t(random_() % uint64_t(n)); }
  int64_t between(int64_t first, int64_t last) { return first + below(last - first + 1); }
  bool one_in(int64_t n) { return below(n) == 0; }

 private:
  std::mt19937_64 random_;
};

// Eight nodes of a millisecond; each of the first four makes 64 bytes that are read in reverse
// order. In regions of 64: 1, 2, 3, 4, 4, 3, 2, 1.
inline StepShape hill() {
  StepShape shape;
  shape.name = "hill";
  int64_t now = 0;
  for (int32_t n = 0; n < 8; ++n) {
    shape.tick.push_back(now), shape.tick.push_back(now += 1'000'000);
    shape.nodes.push_back({.work_ms = 1, .units = 0.1}), shape.node.push_back(NodeId(n));
  }
  shape.tick.push_back(now);
  for (int64_t i = 0; i < 4; ++i) shape.buffers.push_back({{2 * i, 2 * (7 - i) + 1}, 64, {}});
  shape.alone_bytes = 4 * 64;
  return shape;
}

struct ShapeOptions {
  int64_t nodes = 8, buffers = 10;
  int64_t bytes = 64;  // a storage has 1 to 20 times as many
  int64_t ticks = 1;   // a node takes 1 to 6 times as many
};

// Some nodes are copies, which take no time of compute. Storages live from the start of a node of
// compute, or of the step, until a node of compute is done, or the step.
inline StepShape random_shape(Random& random, const ShapeOptions& o = {}) {
  StepShape shape;
  shape.name = "step";
  int64_t now = 0;
  for (int64_t n = 0; n < o.nodes; ++n) {
    if (n + 1 < o.nodes && random.one_in(8)) {
      shape.tick.insert(shape.tick.end(), 2, now);
      continue;
    }
    const int64_t idle = random.one_in(6) ? o.ticks * random.between(1, 3) : 0;
    const int64_t takes = o.ticks * random.between(1, 6);
    const double part = double(random.between(0, 3)) / 8;
    const double ms = double(takes) * 1e-6;
    shape.nodes.push_back({.idle_ms = double(idle) * 1e-6,
                           .launch_ms = ms * part,
                           .work_ms = ms * (1 - part),
                           .flops = double(random.between(0, 10)) / 10,
                           .memory = double(random.between(0, 10)) / 10,
                           .units = double(random.between(1, 10)) / 10});
    shape.node.push_back(NodeId(int32_t(n)));
    shape.tick.push_back(now += idle);
    shape.tick.push_back(now += takes);
  }
  shape.tick.push_back(now);
  const auto nodes = int64_t(shape.node.size());
  for (int64_t i = 0; i < o.buffers; ++i) {
    const int64_t first = random.below(nodes);
    const int64_t last = std::min(nodes - 1, first + random.below(random.one_in(3) ? nodes : 3));
    const Lifetime life{first == 0 ? 0 : start_of(shape.node[size_t(first)]),
                        random.one_in(7) ? shape.moments() : done_of(shape.node[size_t(last)])};
    shape.buffers.push_back({life, o.bytes * random.between(1, 20), {}});
  }
  shape.own_bytes = 64 * random.below(20);
  PoolOffsets offset;
  shape.alone_bytes = shape.own_bytes + place_longest_first(shape, offset);
  return shape;
}

// A circle and the shapes on it.
struct RandomCircle {
  std::vector<std::unique_ptr<StepShape>> shapes;
  Circle circle;
};

inline RandomCircle random_circle(Random& random, size_t jobs, int64_t most_steps = 4) {
  RandomCircle out;
  int64_t together = 0;
  for (size_t j = 0; j < jobs; ++j) {
    const ShapeOptions options{.nodes = random.between(2, 10),
                               .buffers = random.between(1, 12),
                               .bytes = random.one_in(2) ? 64 : 1024};
    out.shapes.push_back(std::make_unique<StepShape>(random_shape(random, options)));
    const int64_t ticks = out.shapes.back()->ticks();
    const int64_t lasts = random.one_in(2) ? ticks : ticks + random.below(ticks);
    const auto steps = int(random.between(1, most_steps));
    out.circle.jobs.push_back({out.shapes.back().get(), steps, 0, lasts});
    together = std::max(together, steps * lasts);
  }
  out.circle.period = random.one_in(3) ? together : together + random.below(together);
  for (JobOnCircle& job : out.circle.jobs) {
    if (!random.one_in(4)) job.begins = random.below(out.circle.period);
  }
  return out;
}

// Who holds the bytes of a pool, in grains of 64.
class OwnerMap {
 public:
  explicit OwnerMap(int64_t bytes) : owner_(size_t((bytes + 63) / 64), 0) {}

  // False where somebody holds some of them, or where they are no grains of the pool.
  bool claim(int owner, int64_t begin, int64_t bytes) {
    if (begin < 0 || begin % 64 || bytes % 64 || begin + bytes > 64 * int64_t(owner_.size())) {
      return false;
    }
    const auto from = owner_.begin() + begin / 64, to = from + bytes / 64;
    if (std::any_of(from, to, [](int o) { return o != 0; })) return false;
    std::fill(from, to, owner + 1);
    held_ += bytes;
    return true;
  }
  void free(int owner, int64_t begin, int64_t bytes) {
    const int64_t end = std::min<int64_t>((begin + bytes) / 64, int64_t(owner_.size()));
    for (int64_t grain = std::max<int64_t>(begin / 64, 0); grain < end; ++grain) {
      if (owner_[size_t(grain)] == owner + 1) owner_[size_t(grain)] = 0, held_ -= 64;
    }
  }
  void free_all_of(int owner) { free(owner, 0, 64 * int64_t(owner_.size())); }
  int64_t held() const { return held_; }

 private:
  std::vector<int> owner_;
  int64_t held_ = 0;
};

// A step of nodes of the same kind.
inline StepShape step_like(const NodeDemand& demand, int32_t nodes = 4) {
  StepShape shape;
  int64_t now = 0;
  for (int32_t n = 0; n < nodes; ++n) {
    shape.tick.push_back(now += int64_t(demand.idle_ms * 1e6));
    shape.tick.push_back(now += int64_t((demand.launch_ms + demand.work_ms) * 1e6));
    shape.nodes.push_back(demand), shape.node.push_back(NodeId(n));
  }
  shape.tick.push_back(now);
  return shape;
}

}  // namespace pal::test
