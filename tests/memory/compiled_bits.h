// Runs what compile() made in its own arena, on made-up numbers, and keeps the bits that come out.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "core/order.h"
#include "core/runner.h"
#include "core/scalars.h"
#include "memory/compile.h"
#include "memory/run/static_plan.h"
#include "tests/memory/bits.h"

namespace pal::test {

// Outputs and state after two steps. `poison`: bytes that are no value's are overwritten.
inline Bits bits_in(const Compiled& c, StaticPlan& memory, bool poison) {
  Runner runner(c.program, c.kernels, c.storages, memory, Device{},
                {.poison = poison && queue_count(c.program) == 1});
  auto put = [&](const std::string& name, ValueId v) {
    const TensorSpec& spec = c.program.value(v).spec;
    const std::vector<std::byte> bytes = encode(spec, made_up(name, spec));
    std::copy(bytes.begin(), bytes.end(), runner.data(v));
  };
  for (auto& slot : c.program.state) put(slot.name, slot.start);
  for (int step = 0; step < 2; ++step) {
    for (auto& in : c.program.inputs) {
      if (in.name != "scalars")
        put(in.name + std::to_string(step), in.value);
      else
        *reinterpret_cast<StepScalars*>(runner.data(in.value)) = {.learning_rate = 0.1f,
                                                                  .step = step};
    }
    runner.run();
  }
  Bits out;
  auto get = [&](const std::string& name, ValueId v) {
    const std::byte* data = runner.data(v);
    out[name].assign(data, data + c.program.value(v).spec.bytes());
  };
  for (auto& o : c.program.outputs) get(o.name, o.value);
  for (auto& slot : c.program.state) get(slot.name, slot.end);
  return out;
}

// In the plan's own arena.
inline Bits bits_of(const Compiled& c) {
  Arena arena(c.plan);
  StaticPlan memory(c.storages, c.plan, arena);
  return bits_in(c, memory, true);
}

}  // namespace pal::test
