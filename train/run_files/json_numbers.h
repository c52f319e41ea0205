// Numbers in JSON that may have been written by anybody: within limits, or an error that says so.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "core/error.h"

namespace pal {

// UsageError where it is no whole number from `least` to `most`.
template <class Json>
int64_t whole_number(const Json& json, int64_t least = 0,
                     int64_t most = std::numeric_limits<int64_t>::max()) {
  const bool fits = json.is_number_unsigned() ? json.template get<uint64_t>() <= uint64_t(INT64_MAX)
                                              : json.is_number_integer();
  const int64_t number = fits ? json.template get<int64_t>() : 0;
  if (fits && number >= least && number <= most) return number;
  throw UsageError("no whole number from " + std::to_string(least) + " to " + std::to_string(most));
}

// UsageError where it is no number from 0 on.
template <class Json> double number_from_0(const Json& json) {
  const double number = json.is_number() ? json.template get<double>() : -1;
  if (number >= 0 && std::isfinite(number)) return number;
  throw UsageError("no number from 0 on");
}

}  // namespace pal
