// The list of reproductions, and planning a recipe.
#include "train/papers/reproduce.h"

#include "train/config/wording.h"
#include "train/loop/run_options.h"
#include "train/loop/step_program.h"
#include "train/tasks/make_task.h"

namespace pal {
std::vector<Reproduction> reproductions() {
  std::vector<Reproduction> list;
  for (const auto& some : {echo_reproductions(), echo_model_reproductions(), olla_reproductions(),
                           zoo_reproductions()}) {
    list.insert(list.end(), some.begin(), some.end());
  }
  return list;
}

std::string gigabytes(int64_t bytes, int digits) { return fixed(double(bytes) * 1e-9, digits); }

std::string percent(double fraction) { return fixed(100 * fraction, 1) + " %"; }

PlannedRecipe plan_recipe(const Recipe& recipe, const DeviceProfile& device,
                          void (*adjust)(CompileOptions&)) {
  std::vector<Override> overrides;
  for (const std::string& set : recipe.sets) overrides.push_back(parse_set(set));
  PlannedRecipe out;
  out.config = load_config(find_config(recipe.config), overrides);
  out.recorded = record_plan_step(*make_task(out.config), out.config, recipe.bucket);
  const StateLayout layout(out.recorded);
  KernelCache cache(choose_device(out.config.device));
  CompileOptions options = compile_options(out.config.memory);
  options.profile = device;
  if (adjust) adjust(options);
  out.step = compile(out.recorded, cache, layout, options);
  out.step_ms = out.step.time->step_ms;
  out.samples_per_s = 1000 * double(*out.config.train.batch_size) / out.step_ms;
  return out;
}

}  // namespace pal
