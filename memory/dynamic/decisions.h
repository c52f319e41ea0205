// What a dynamic manager decided about a step, in order.
#pragma once
#include <cstdint>
#include <vector>

#include "core/ids.h"
#include "memory/dynamic/options.h"

namespace pal {

struct Action {
  enum class Kind : uint8_t {
    run,      // a node, for the first time
    again,    // a node that has run before, for some storages
    take,     // a storage gets new bytes of the slab
    offload,  // a storage is copied to the host's memory; its bytes are free when that is done
    reload,   // a storage is copied back to bytes that it has just taken
    move,     // a storage is copied to other bytes of the slab
    nothing,  // an offload whose copy was dropped before anyone read it
  } kind;
  NodeId node = kNone;
  StorageId storage = kNone;
  int64_t place = 0;                 // in the slab (take, move), or in the host's memory (offload)
  std::vector<StorageId> made = {};  // again: what is read of what the node makes
};

struct Decisions {
  std::vector<Action> actions;
  DynamicStats stats;
  // Of the step, as the walk saw it. It takes no longer (predict), where the directions of the link
  // do not share it.
  double ms = 0;
  int64_t slab_bytes = 0, host_bytes = 0;  // bytes, to the end of the last that was taken
};

}  // namespace pal
