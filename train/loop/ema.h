// An exponential moving average of the weights (Polyak & Juditsky 1992, with Adam's correction).
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/builder.h"
#include "memory/run/program_set.h"
#include "train/loop/sharded_state.h"

namespace pal {

inline constexpr const char* kEmaPrefix = "ema/";

// Appends an update node a weight, after the optimizer's: "ema/<weight>" <- decay ema +
// (1 - decay) weight, from the weight's next value. The slots start at zero and count as optimizer
// state. `gate` holds them still as it holds the weights. `weights`: values at the step's start.
// `ranks`: above 1 every rank keeps its piece of the averages.
void append_ema(Builder& builder, std::span<const Val> weights, double decay, Val gate,
                int64_t ranks = 1);

// While it lives, the weights of a set are their averages, ema / (1 - decay^updates): the
// correction makes the average of the first updates one of weights alone, not of weights and the
// slots' zero. The weights themselves wait in a temporary file, which takes no memory that the plan
// does not count, and come back bit for bit. After no update at all, or in a set without averages,
// it does nothing. Error with kExitFailed where there is no room for the file.
class EmaWeights {
 public:
  // All ranks make one at the same time.
  EmaWeights(ProgramSet& programs, double decay, int64_t updates, const ShardedState& sharded = {});
  ~EmaWeights();
  void restore();  // at the end of its life, or now
  EmaWeights(const EmaWeights&) = delete;
  EmaWeights& operator=(const EmaWeights&) = delete;

 private:
  ProgramSet& programs_;
  std::vector<std::string> kept_;  // names of the weights in the file, in its order
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{nullptr, &std::fclose};
};

}  // namespace pal
