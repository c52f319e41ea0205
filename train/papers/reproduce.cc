// The list of reproductions, planning a recipe, and what its layers take.
#include "train/papers/reproduce.h"

#include <algorithm>

#include "memory/plan/report.h"
#include "train/config/wording.h"
#include "train/loop/ranks_of_run.h"
#include "train/loop/run_options.h"
#include "train/loop/step_program.h"
#include "train/tasks/make_task.h"

namespace pal {
std::vector<Reproduction> reproductions() {
  std::vector<Reproduction> list;
  for (const auto& some :
       {echo_reproductions(), echo_device_reproductions(), echo_model_reproductions(),
        olla_reproductions(), zoo_reproductions(), gist_reproductions(),
        gist_encoded_reproductions(), gist_priced_reproductions(), gist_measured_reproductions(),
        gist_trained_reproductions(), delta_reproductions(), zico_reproductions(),
        zico_table_reproductions(), zico_bucket_reproductions(), zico_rate_reproductions(),
        zico_accumulate_reproductions()}) {
    list.insert(list.end(), some.begin(), some.end());
  }
  return list;
}

std::map<std::string, int64_t> by_layer(const PlannedRecipe& p, const LayerTypes& types,
                                        const char* rest) {
  std::map<std::string, int64_t> out;
  const Footprint f = footprint_of(p.step.program, p.step.storages, p.step.plan);
  for (const LayerBytes& layer : f.layers) {
    const auto found = std::find_if(types.begin(), types.end(), [&](const auto& type) {
      return layer.scope.find(type.first) != std::string::npos;
    });
    const char* type = found == types.end() ? rest : found->second;
    for (const Role role : {Role::weight, Role::weight_gradient, Role::optimizer_state}) {
      if (layer.type == to_string(role)) type = "weights";
    }
    out[type] += layer.bytes;
  }
  return out;
}

ReproducedTable breakdown(const std::string& title, const std::vector<std::string>& names,
                          const std::vector<PlannedRecipe>& plans, const LayerTypes& types,
                          const char* rest, const std::vector<const char*>& order) {
  ReproducedTable table{.title = title, .columns = {"layer type"}};
  for (const char* type : order) table.rows.push_back({type});
  table.rows.push_back({"in all"});
  for (size_t i = 0; i < plans.size(); ++i) {
    table.columns.push_back(names[i] + ", GB");
    std::map<std::string, int64_t> bytes = by_layer(plans[i], types, rest);
    for (size_t t = 0; t < order.size(); ++t) table.rows[t].push_back(gigabytes(bytes[order[t]]));
    table.rows.back().push_back(gigabytes(plans[i].step.plan.device().bytes));
  }
  return table;
}

std::string gigabytes(int64_t bytes, int digits) { return fixed(double(bytes) * 1e-9, digits); }

std::string percent(double fraction) { return fixed(100 * fraction, 1) + " %"; }

DeviceProfile joined(DeviceProfile device, const Links& links) {
  device.links = std::make_shared<const Links>(links);
  return device;
}

PlannedRecipe plan_recipe(const Recipe& recipe, const DeviceProfile& device,
                          void (*adjust)(CompileOptions&)) {
  std::vector<Override> overrides;
  for (const std::string& set : recipe.sets) overrides.push_back(parse_set(set));
  PlannedRecipe out;
  out.config = load_config(find_config(recipe.config), overrides);
  if (device.links) out.config = with_ranks(out.config, device.links->ranks);
  out.recorded = record_plan_step(*make_task(out.config), out.config, recipe.bucket);
  const StateLayout layout(out.recorded);
  KernelCache cache(choose_device(out.config.device));
  CompileOptions options = compile_options(out.config.memory);
  options.profile = device;
  if (out.config.ranks > 1) options.exchange_device = device;
  if (adjust) adjust(options);
  out.step = compile(out.recorded, cache, layout, options);
  out.step_ms = out.step.time->step_ms;
  const int64_t samples = *out.config.train.batch_size * out.config.ranks;
  out.samples_per_s = 1000 * double(samples) / out.step_ms;
  return out;
}

}  // namespace pal
