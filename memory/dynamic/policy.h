// Decides, node after node, what leaves the device and what comes back (DELTA, algorithms 1 to 4;
// DTR). It goes by predicted time alone, so it decides the same in every step and every run, and it
// touches no bytes: what it decided is written into the program (memory/dynamic/lower.h).
#pragma once
#include <cstdint>
#include <vector>

#include "memory/dynamic/facts.h"
#include "memory/dynamic/options.h"

namespace pal {

struct Action {
  enum class Kind : uint8_t {
    run,      // a node, for the first time
    again,    // a node that has run before, for some storages
    take,     // a storage gets new bytes of the room
    offload,  // a storage is copied to the host's memory; its bytes are free when that is done
    reload,   // a storage is copied back to bytes that it has just taken
    move,     // a storage is copied to other bytes of the room
  } kind;
  NodeId node = kNone;
  StorageId storage = kNone;
  int64_t place = 0;                 // in the room (take, move), or in the host's memory (offload)
  std::vector<StorageId> made = {};  // again: what is read of what the node makes
};

struct Decisions {
  std::vector<Action> actions;
  DynamicStats stats;
  int64_t room = 0, host_room = 0;  // bytes, to the end of the last that was taken
};

// `room`: bytes on the device for what comes and goes. BudgetError when a single node touches more
// than that, when a node cannot have all it touches at once, or when the step would spend its time
// on bringing back: its message names storages, and says what the manager can do.
Decisions decide(const StepFacts& facts, const DynamicOptions& options, int64_t room,
                 int64_t host_room);

}  // namespace pal
