// Four maps that are made one after the other and read from the last to the first: a step small
// enough that what a manager decides can be read.
#pragma once
#include <cstdint>
#include <vector>

#include "core/builder.h"
#include "memory/dynamic/facts.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/sums/reduce.h"
#include "tests/memory/running.h"

namespace pal::test {

inline constexpr int64_t kSide = 128, kBytes = kSide * kSide * 4;

inline constexpr int64_t kMuch = 1 << 30;  // bytes of the host's memory

// y0 .. y3 are made one after the other and read from the last to the first.
inline Program ladder() {
  Builder b;
  Val x = b.input("x", {{kSide, kSide}});
  std::vector<Val> y{tanh(x)};
  for (int i = 1; i < 4; ++i) y.push_back(tanh(y.back()));
  Val g = mul(y[3], y[3]);
  for (int i = 3; i-- > 0;) g = mul(g, y[size_t(i)]);
  b.output("loss", sum_all(g));
  Program p = b.take();
  for (NodeId n = 4; n < p.node_count(); ++n) p.node(n).phase = Phase::backward;
  return p;
}

struct Ladder {
  Ready ready{ladder(), {.inplace = false}};
  DeviceProfile card{
      .name = "card", .f32 = 1e12, .vector = 1e11, .memory = 1e11, .link = 1e10, .tile = 1};
  StepFacts facts() const { return {ready.program, ready.storages, card}; }
  // The storage of y_i.
  StorageId y(int i) const { return ready.storages.of[ready.program.node(i).out[0]]; }
};

}  // namespace pal::test
