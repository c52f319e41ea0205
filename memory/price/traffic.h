// What a step moves between the device and the host's memory, and how long it waits for that.
#pragma once
#include <cstdint>

#include "core/memory.h"
#include "core/program.h"
#include "memory/price/predict.h"

namespace pal {

struct Traffic {
  int64_t offloads = 0, reloads = 0,
          recomputes = 0;            // copies out, copies back; nodes that run again, Echo's too
  int64_t moved_bytes = 0;           // over the link, both ways
  int64_t host_bytes = 0;            // the most copies there at once
  double copy_ms = 0, stall_ms = 0;  // predicted: of all copies; compute with nothing to do

  bool any() const { return offloads + reloads > 0; }
  // The part of the copies' time in which compute does not wait.
  double overlap() const { return copy_ms > 0 ? 1 - stall_ms / copy_ms : 1; }
};

bool has_copies(const Program& program);  // to the host's memory, or back

// `times`: the prediction of that program.
Traffic traffic_of(const Program& program, const Storages& storages, const Prediction& times);

}  // namespace pal
