// A step with clones, counted: all of it, and by the blocks of its segments.
#pragma once
#include <vector>

#include "memory/compiled.h"
#include "memory/front/segments.h"
#include "memory/price/predict.h"
#include "memory/storages/lifetimes.h"

namespace pal {

// A step with early updates and its bytes: how every candidate is judged here.
struct CountedStep {
  Program program;
  Storages storages;
  ByStorage<Lifetime> lifetimes;
  std::vector<int64_t> live;  // by moment
  Prediction times;
  int64_t bytes = 0;  // the peak
};
CountedStep count_step(const Program& program, const CompileOptions& options,
                       const DeviceProfile& device);

struct BlockCounts {
  struct Block {
    int64_t kept = 0, forward_peak = 0, backward_peak = 0, base = 0;
    int64_t over_border = 0;  // bytes of the border that it reads which it writes over
    double ms = 0;
    bool border_stays = false;  // the one that it makes, between the phases
  };

  std::vector<Block> blocks;
  int64_t base = 0;  // between the phases, beside all blocks and borders
};
// `view`: of the step in parts, whose values keep their numbers in the counted step. `border_of`:
// by value, the border that it belongs to, or kNone.
BlockCounts count_blocks(const StepView& view, const Segments& segments,
                         const ByValue<int>& border_of, const CountedStep& step);

}  // namespace pal
