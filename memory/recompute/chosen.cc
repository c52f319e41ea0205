// A list of values as a choice, and its clones.
#include "memory/recompute/chosen.h"

#include <string>
#include <utility>
#include <vector>

#include "core/error.h"

namespace pal {
namespace {

Choice given_choice(const StepView& view, const std::vector<ValueId>& chosen) {
  Choice choice(view.program.values.size(), 0);
  for (ValueId v : chosen) {
    if (v < 0 || size_t(v) >= choice.size()) {
      throw ProgramError("[chosen] value " + std::to_string(v) + " was chosen; the step has " +
                         std::to_string(choice.size()) + ": it was chosen for another step");
    }
    choice[v] = 1;
  }
  return choice;
}

}  // namespace

Clones chosen_clones(const StepView& view, const RecomputeOptions& options) {
  Clones clones = insert_clones(view, given_choice(view, options.chosen), kClonesFar);
  if (options.bits) stash_bits(clones);
  return clones;
}

}  // namespace pal
