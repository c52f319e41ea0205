// The bytes of a set's state, to be compared with another run's.
#pragma once
#include <string>

#include "memory/run/program_set.h"

namespace pal::test {

// All slots, in the order in which they were declared.
inline std::string state_bytes(ProgramSet& programs) {
  std::string all;
  for (const StateTensor& slot : programs.state()) {
    all.append(reinterpret_cast<const char*>(slot.data), size_t(slot.spec.bytes()));
  }
  return all;
}

}  // namespace pal::test
