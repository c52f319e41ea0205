// Which plan a step runs with memory.encode: ssdc. First one whose maps are dense and that counts
// their nonzeros; from memory.ssdc_observe runs on one whose maps are sparse, with room for
// memory.ssdc_margin times the most that were counted. Where a run has more, its gates are shut, so
// that no state has changed (memory/passes/encode.h), and the first plan runs the same step again:
// the results are the same bits whichever plan runs when. A step is planned anew where that happens
// twice, and where maps have far fewer nonzeros than they had. A step of which no map is worth
// being sparse runs on a third plan, that counts nothing, but for the runs that judge it anew.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "memory/run/program_set.h"
#include "train/config/config.h"
#include "train/run_files/metrics.h"

namespace pal {

// The options of a step's dense plan; and with a budget that it does not keep to, and without
// rounding forms, which another plan would round otherwise, those to try instead: it recomputes.
std::vector<CompileOptions> dense_options(const CompileOptions& options);
// The bytes below which a step with sparse maps is worth it.
int64_t most_sparse_bytes(int64_t dense_bytes);
// What to say where the i-th of them does not keep to the budget either.
BudgetError dense_over(const std::string& what, size_t i);

class SparseSteps {
 public:
  SparseSteps(const MemoryConfig& config, ProgramSet& programs)
      : config_(config), programs_(programs) {}

  // Off: every step has one plan, and nothing below is to be called.
  bool on() const { return programs_.options().encode.ssdc; }

  // Compiles a step's dense plan: the first of dense_options() that keeps to the budget.
  // BudgetError where none does.
  Executable& add(const std::string& name, const Program& recorded);

  // The plan to run, of a step that was added. It may be compiled now: `recorded` makes the program
  // anew, `made` is told of it.
  Executable& choose(const std::string& name, const std::function<Program()>& recorded,
                     const std::function<void(Executable&)>& made);

  // After a run of the chosen plan: the layers whose maps had too little room. If there are any,
  // the run does not count, and the dense plan (ProgramSet::find) is to run the same step. Waits
  // for an accelerator.
  std::vector<std::string> overflows(const std::string& name, Executable& ran);
  // After a run of the dense plan.
  void observe(const std::string& name, Executable& ran);

  // A line for each step that has a sparse plan, or that there is none.
  std::vector<std::string> described() const;

  // What the last run of a plan counted, for metrics.
  std::vector<MapDensity> densities(Executable& ran) const;

 private:
  struct Step {
    int64_t runs = 0;                   // of either plan
    int64_t sparse_since = 0;           // which of them was the first with the sparse plan
    int64_t late_in_all = 0;            // those with too little room
    std::map<ValueId, double> densest;  // seen so far, by Value::origin
    std::map<ValueId, int> overflows;   // of which a value was the cause
    std::vector<int64_t> late;          // runs with too little room since the plan was made
    Executable* sparse = nullptr;
    Executable* uncounted = nullptr;   // where no map is kept sparse
    bool tried = false;                // for what is known now
    bool recomputes = false;           // the dense plan does, to keep to the budget
    int64_t settled_since = 0;         // the first run with this plan, or after it was judged
    std::map<ValueId, double> recent;  // the most in the runs that judge it
  };

  // After a run that counts: whether the plan's room is much more than maps need by now.
  void judge(Step& step, Executable& ran) const;
  bool is_judged(const Step& step) const;

  const MemoryConfig& config_;
  ProgramSet& programs_;
  std::map<std::string, Step> steps_;
};

}  // namespace pal
