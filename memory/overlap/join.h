// Two micro-batches as one program: the nodes of the first on the compute queue, those of the
// second on a queue of their own, which waits where it needs what the first makes.
#pragma once
#include <string>

#include "core/program.h"

namespace pal {

constexpr QueueId kSecondQueue = 1;

// "first/loss", "second/loss": inputs and outputs of a pair.
std::string name_in_pair(int part, const std::string& name);

// Nodes of the first, then those of the second. State that both carry begins in the second as it
// ends in the first: a node of the second that reads it waits for who makes it, and one that writes
// it also for the first's last reader. Where both have an output "gate", the second's is shut where
// the first's is, as the second would not have run behind it. ProgramError where one of them has
// several queues already, or they carry state of one name and other specs.
Program join_micro_batches(const Program& first, const Program& second);

}  // namespace pal
