// What a step spends on exchanges between ranks: as it runs, and what a queue of their own would
// hide of it.
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
  // If they had a queue of their own, on which each begins when its operands are made and those
  // before it are done, while every other queue goes on with the first of its nodes that need no
  // wait: so readers come as late as they must. The step, and what would be exposed of exchanges.
  double own_queue_step_ms = 0, own_queue_exposed_ms = 0;
};

// `times`: the prediction of that program.
ExchangeTimes exchange_times(const Program& program, const Prediction& times);

}  // namespace pal
