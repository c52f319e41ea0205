// The time at which a search must end, where there is one.
#pragma once
#include <optional>

#include "core/clock.h"

namespace pal {

using Deadline = std::optional<Clock::time_point>;

inline bool is_past(const Deadline& deadline) { return deadline && Clock::now() >= *deadline; }

// Part of the time that is left.
inline Deadline share(const Deadline& deadline, double part) {
  if (!deadline) return {};
  const auto now = Clock::now();
  return now + std::chrono::duration_cast<Clock::duration>((*deadline - now) * part);
}

}  // namespace pal
