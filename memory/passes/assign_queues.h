// Puts the copies to and from host memory on queues of their own: the last pass.
//
// Passes before it see one logical order, in which an offload stands where its device bytes become
// free, and a reload where they are taken. Here an offload moves up to right behind the node that
// makes what it reads, onto queue 1; the compute node that came after it waits for it, so that the
// bytes are free where they were. Waits that an offload already has keep it from moving up further
// than behind the nodes that it waits for. A reload stays where it stands, on queue 2; it waits for
// the compute node before it, so that it takes no bytes earlier, and for its offload; the first
// node that reads what it brings waits for it.
#pragma once
#include <optional>
#include <string>

#include "core/program.h"

namespace pal {

constexpr QueueId kOffloadQueue = 1, kReloadQueue = 2;

// Nothing where no node is an offload or a reload. `note` says how many copies there are.
std::optional<Program> assign_queues(const Program& program, std::string* note = nullptr);

}  // namespace pal
