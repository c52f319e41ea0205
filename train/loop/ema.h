// An exponential moving average of the weights (Polyak & Juditsky 1992, with Adam's correction).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/builder.h"
#include "memory/run/program_set.h"

namespace pal {

inline constexpr const char* kEmaPrefix = "ema/";

// Appends an update node a weight, after the optimizer's: "ema/<weight>" <- decay ema +
// (1 - decay) weight, from the weight's next value. The slots start at zero and count as optimizer
// state. `gate` holds them still as it holds the weights. `weights`: values at the step's start.
void append_ema(Builder& builder, std::span<const Val> weights, double decay, Val gate);

// While it lives, the weights of a set are their averages, ema / (1 - decay^updates): the
// correction makes the average of the first updates one of weights alone, not of weights and the
// slots' zero. Keeps a copy of the weights meanwhile, in memory that no plan counts, and puts it
// back bit for bit. After no update at all, or in a set without averages, it does nothing.
class EmaWeights {
 public:
  EmaWeights(ProgramSet& programs, double decay, int64_t updates);
  ~EmaWeights();
  EmaWeights(const EmaWeights&) = delete;
  EmaWeights& operator=(const EmaWeights&) = delete;

 private:
  ProgramSet& programs_;
  struct Kept {
    std::string name;
    std::vector<std::byte> bytes;
  };
  std::vector<Kept> kept_;
};

}  // namespace pal
