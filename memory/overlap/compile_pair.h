// Two micro-batches of an update as one step that can run, the forward pass of the second beside
// the backward pass of the first (Zico, Lim et al. 2021, section 2.2).
//
// Each goes through the passes alone, as compile() does it for one behind the other, so its bits
// are the same. Then both are joined, laid out in time at several shifts on the priced device, and
// planned together: one grows into what the other gives up.
#pragma once
#include <vector>

#include "memory/compiled.h"
#include "memory/price/side_by_side.h"

namespace pal {

// The second beginning when the first has run for a part of its time.
struct PairShift {
  double shift = 0;   // [0, 1)
  double ms = 0;      // predicted: until both are done
  int64_t alive = 0;  // most bytes alive at once: no plan needs less
};

struct CompiledPair {
  Compiled step;
  PairShift at;
  double one_by_one_ms = 0;       // predicted, of both one behind the other
  double least_ms = 0;            // of any way to run them: what they ask of the device
  int64_t larger_bytes = 0;       // of the larger one alone, alive at its peak
  std::vector<PairShift> shifts;  // that were tried
};

enum class PairQueues : uint8_t {
  one,  // a processor's: both in the order of the timeline
  two,  // an accelerator's
};

// As compile(), for the two programs of a pair. Of the shifts within the budget the fastest; of
// those that are as fast within 1 % the one with the fewest bytes. BudgetError where
// options.must_fit and none keeps to the budget. ProgramError where a micro-batch copies to the
// host's memory or a manager decides: they have queues and addresses of their own.
CompiledPair compile_pair(const Program& first, const Program& second, KernelCache& cache,
                          const StateLayout& layout, const CompileOptions& options,
                          PairQueues queues);

}  // namespace pal
