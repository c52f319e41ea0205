// What a step spends on exchanges between ranks, and how much of that it waits for.
#pragma once
#include <cstdint>

#include "core/program.h"
#include "memory/price/predict.h"

namespace pal {

struct ExchangeTimes {
  int64_t count = 0;  // of exchanges
  double ms = 0;      // of all of them
  // What the step would take less if they took no time.
  double exposed_ms = 0;
};

// `times`: the prediction of that program.
ExchangeTimes exchange_times(const Program& program, const Prediction& times);

}  // namespace pal
