// The list of the passes, and the way from what they leave to a plan.
#include "memory/compile.h"

#include <algorithm>
#include <cstdio>

#include "core/clock.h"
#include "core/error.h"
#include "core/order.h"
#include "core/text.h"
#include "core/verify.h"
#include "memory/branch_queue.h"
#include "memory/budget.h"
#include "memory/choices.h"
#include "memory/dynamic/manage.h"
#include "memory/exchange_queue.h"
#include "memory/pass.h"
#include "memory/passes/assign_queues.h"
#include "memory/passes/card_copies.h"
#include "memory/passes/even_rows.h"
#include "memory/passes/fuse_recompute.h"
#include "memory/passes/fuse_updates.h"
#include "memory/passes/layouts.h"
#include "memory/plan/report.h"
#include "memory/schedule/delay_forward.h"
#include "memory/schedule/early_copies.h"
#include "memory/schedule/late_updates.h"
#include "memory/storages/lifetimes.h"

namespace pal {
namespace {

using Options = const CompileOptions&;
using Context = const PassContext&;
using Made = std::optional<Program>;

Made order(const Program& p, Context context, std::string* note) {
  return schedule(p, context.options.schedule, note, context.workspace,
                  storage_options(context.options));
}

// Updates wait for each other where that stays a part below the peak: placement needs some room.
// The peak is to come down to the budget where maps are copied away or a manager decides.
Made postpone_updates(const Program& p, Context context, std::string* note) {
  constexpr int64_t kRoom = 32;
  const CompileOptions& options = context.options;
  const StorageOptions storages = storage_options(options);
  int64_t most = peak_bytes(p, context.workspace, storages);
  const bool falls = options.swap.method != Swap::none || options.dynamic.manager != Manager::fixed;
  if (falls) most = std::min(most, options.budget.value_or(0));
  return late_updates(p, most - most / kRoom, context.workspace, storages, note, is_card(context));
}

// A processor has a copy in its cache where it makes it right before it is read.
Made copy_early(const Program& p, Context context, std::string* note) {
  return is_card(context) ? early_copies(p, note) : Made();
}

Made copy_for_card(const Program& p, Context context, std::string* note) {
  return is_card(context) ? card_copies(p, note) : Made();
}

Made widen_for_card(const Program& p, Context context, std::string* note) {
  return is_card(context) ? even_rows(p, note) : Made();
}

Made fuse_gradients(const Program& p, Context, std::string* note) {
  Program out = fuse_first(p, note);
  if (out.nodes.size() == p.nodes.size()) return note->clear(), std::nullopt;
  return out;
}

// Bits by the kernel that makes the value.
Made fuse_bits(const Program& p, Context, std::string* note) {
  Program out = fuse_encoders(p, note);
  if (out.nodes.size() == p.nodes.size()) return note->clear(), std::nullopt;
  return out;
}

Made choose_operand_layouts(const Program& p, Context context, std::string* note) {
  LayoutsEffect effect;
  Program out = choose_layouts(p, context.cache, &effect);
  *note = std::to_string(effect.reorders) + " reorders of " + format_bytes(effect.bytes) + " for " +
          std::to_string(effect.readers) + " readers";
  return out;
}

bool may_pack(Options o) { return o.layouts && !(o.profile && o.profile->elsewhere); }

// A manager drops copies of weights, and makes them one by one.
bool copies_together(Options o) {
  return o.fuse_updates && o.schedule != Schedule::program && o.dynamic.manager == Manager::fixed;
}

// Clones were chosen with what they fuse to in mind.
bool is_chosen(Options o) { return is_planned(o.recompute); }

// The order of the passes. A pass is a row here and a function of its room, or of memory/choices.h.
constexpr bool kTradesTime = true;
const Pass kPasses[] = {
    {"fuse_gradients", fuse_gradients, [](Options o) { return o.fuse_epilogues; }},
    {"even_rows", widen_for_card, [](Options) { return true; }},
    {"delay", [](const Program& p, Context, std::string* note) { return delay_forward(p, note); },
     [](Options o) { return o.schedule != Schedule::program; }, Keep::if_peak_not_higher},
    {"mirror", recompute_some, [](Options o) { return o.recompute == Recompute::mirror; },
     Keep::if_final_peak_not_higher, kTradesTime},
    {"sqrt", recompute_some, [](Options o) { return o.recompute == Recompute::sqrt; },
     Keep::if_final_peak_not_higher, kTradesTime},
    {"echo", recompute_some, [](Options o) { return o.recompute == Recompute::echo; },
     Keep::if_final_peak_not_higher, kTradesTime},
    {"chosen", recompute_some, [](Options o) { return o.recompute == Recompute::chosen; },
     Keep::always, kTradesTime},
    {"reruns", recompute_some, [](Options o) { return o.recompute == Recompute::reruns; },
     Keep::always, kTradesTime},
    {"fuse_recompute", fold_clones,
     [](Options o) { return o.fuse_recompute && o.recompute != Recompute::none && !is_chosen(o); },
     Keep::if_scheduled_peak_not_higher, kTradesTime},
    {"fuse_recompute", fold_clones, [](Options o) { return o.fuse_recompute && is_chosen(o); },
     Keep::always, kTradesTime},
    {"fuse_recompute", fold_plain,
     [](Options o) { return o.fuse_recompute && o.recompute != Recompute::none; },
     Keep::if_final_peak_not_higher, kTradesTime},
    {"fuse_epilogues", fold_epilogues, [](Options o) { return o.fuse_epilogues; }},
    {"encode", encode_maps, [](Options o) { return o.encode.any(); }, Keep::always, kTradesTime},
    {"schedule", order, [](Options o) { return o.schedule != Schedule::program; }},
    {"fuse_encoders", fuse_bits,
     [](Options o) {
       return o.fuse_epilogues &&
              (o.encode.any() || o.recompute == Recompute::echo || is_chosen(o));
     },
     Keep::if_peak_not_higher},
    {"early_copies", copy_early, copies_together, Keep::if_peak_not_higher},
    {"card_copies", copy_for_card, copies_together, Keep::if_peak_not_higher},
    {"late_updates", postpone_updates,
     [](Options o) { return o.late_updates && o.fuse_updates && o.schedule != Schedule::program; },
     Keep::if_peak_not_higher},
    {"fuse_updates",
     [](const Program& p, Context, std::string* note) { return fuse_updates(p, note); },
     [](Options o) { return o.fuse_updates; }, Keep::if_peak_not_higher},
    {"layouts", choose_operand_layouts, may_pack, Keep::if_within_budget},
    {"swap", swap_some, [](Options o) { return o.swap.method != Swap::none; }, Keep::always,
     kTradesTime},
    {"assign_queues",
     [](const Program& p, Context, std::string* note) { return assign_queues(p, note); },
     [](Options) { return true; }},
};

// Which values share bytes, and what that saves.
void share(Compiled& out, const ByNode<int64_t>& workspace, Options options) {
  const StorageOptions apart{.inplace = false, .windows = options.windows};
  PassReport report{.name = "inplace", .before_bytes = peak_bytes(out.program, workspace, apart)};
  const Clock::time_point start = Clock::now();
  StorageEffect effect;
  out.storages = assign_storages(out.program, workspace, storage_options(options), &effect);
  report.seconds = seconds_since(start);
  report.after_bytes = peak_of(out.storages, lifetimes_of(out.program, out.storages)).bytes;
  report.note = std::to_string(effect.inplace) + " values in place, " +
                std::to_string(effect.windows) + " windows";
  out.passes.push_back(std::move(report));
}

void place(Compiled& out, const StateLayout& layout, Options options) {
  const Clock::time_point start = Clock::now();
  out.plan = plan_passed(out, layout, options);
  PassReport report{.name = "place",
                    .before_bytes = out.plan.device().lower_bound,
                    .after_bytes = out.plan.device().bytes,
                    .seconds = seconds_since(start)};
  check_plan(out.program, out.storages, out.plan);
  char note[96];
  std::snprintf(note, sizeof note, "%.1f%% fragmentation, order by %s",
                100 * out.plan.device().fragmentation(), out.plan.order);
  report.note = note;
  out.passes.push_back(std::move(report));
}

std::string describe(const DynamicStats& stats) {
  return std::to_string(stats.evictions) + " evictions, " + std::to_string(stats.offloads) +
         " offloads, " + std::to_string(stats.reloads) + " reloads (" +
         std::to_string(stats.prefetch_hits) + " in use after a prefetch), " +
         std::to_string(stats.recomputes) + " nodes run again";
}

// In place of a plan for the whole step: what a dynamic manager decides within the budget. Without
// must_fit within the least that it can, where the budget is too small.
void manage_step(Compiled& out, KernelCache& cache, const StateLayout& layout, Options options) {
  if (!options.budget) {
    throw UsageError("memory.manager: " + name_of(options.dynamic.manager) +
                     " needs memory.budget: it keeps a step to so many bytes");
  }
  const Clock::time_point start = Clock::now();
  PassReport report{
      .name = name_of(options.dynamic.manager),
      .before_bytes = peak_of(out.storages, lifetimes_of(out.program, out.storages)).bytes,
      .trades = true};
  const DeviceProfile device = priced_device(options);
  const StepFacts facts(out.program, out.storages, device);
  int64_t budget = *options.budget;
  if (!options.must_fit) {
    budget = std::max(budget, least_managed(facts, layout));
    if (!is_managed_within(facts, layout, options.dynamic, budget, options.host_budget)) {
      budget = least_working(facts, layout, options.dynamic, options.host_budget).value_or(budget);
    }
  }
  Managed managed = manage(facts, layout, options.dynamic, budget, options.host_budget);
  report.added_ms =
      options.profile
          ? predict(managed.step.program, device, &managed.step.storages).step_ms - facts.step_ms
          : 0;
  Passed now = prepared(std::move(managed.step.program), cache);
  out.program = std::move(now.program), out.kernels = std::move(now.kernels);
  out.storages = std::move(managed.step.storages), out.plan = std::move(managed.step.plan);
  out.dynamic = managed.stats;
  verify(out.program);
  check_plan(out.program, out.storages, out.plan);
  report.after_bytes = out.plan.device().bytes, report.seconds = seconds_since(start);
  report.note = describe(managed.stats);
  out.passes.push_back(std::move(report));
}

// The step's times, where a profile was given, and its copies' where there are any.
void price(Compiled& out, Options options) {
  const bool copies = out.dynamic || has_copies(out.program);
  if (!options.profile && !copies) return;
  const DeviceProfile device = priced_device(options);
  Prediction times = predict(out.program, device, &out.storages);
  if (options.profile) {
    double traded = 0;
    for (const PassReport& report : out.passes) traded += report.trades ? report.added_ms : 0;
    out.time = StepTime{.profile = device.name,
                        .measured = device.measured,
                        .step_ms = times.step_ms,
                        .overhead = traded / (times.step_ms - traded)};
  }
  if (!copies) return;
  out.traffic = traffic_of(out.program, out.storages, times);
  out.timeline = std::move(times);
}

void note_encodings(Compiled& out, const Program& recorded, const Encodings& encodings) {
  out.encode = encodings;
  if (!encodings.any()) return;
  const GistFloor floor = gist_floor(recorded);
  out.floor_bytes = floor.bytes;
  if (floor.node != kNone) out.floor_layer = layer_of(recorded, recorded.node(floor.node));
}

// Bytes of the set's state that this program does not carry, and of its slots that it does not
// fill.
int64_t foreign_bytes(const Program& program, const StateLayout& layout) {
  int64_t foreign = layout.bytes() + layout.spare_inputs(program);
  for (const StateSlot& slot : program.state) {
    const Value& value = program.value(slot.start);
    if (value.space == Space::device) foreign -= align_up(value.spec.bytes());
  }
  return foreign;
}

// The budget that passes have: what they see of the step has to fit beside what they do not see.
CompileOptions without_foreign(CompileOptions options, int64_t foreign) {
  if (options.budget) options.budget = std::max<int64_t>(*options.budget - foreign, 0);
  return options;
}

// Passes keep the numbers, so that what was observed of a value in one plan is known in another.
Passed recorded(Program program, KernelCache& cache) {
  for (ValueId v : program.values.ids()) program.value(v).origin = v;
  return prepared(std::move(program), cache);
}

}  // namespace

int64_t least_bytes(Program program, KernelCache& cache, const StateLayout& layout,
                    const CompileOptions& options, Compiled* passed, PassMemory* memory) {
  const int64_t foreign = foreign_bytes(program, layout);
  Passed last = run_passes(kPasses, recorded(std::move(program), cache), cache,
                           without_foreign(options, foreign), true, memory);
  Storages storages = assign_storages(last.program, last.workspace, storage_options(options));
  int64_t peak = peak_of(storages, lifetimes_of(last.program, storages)).bytes;
  if (options.dynamic.manager != Manager::fixed) {
    const StepFacts facts(last.program, storages, priced_device(options));
    peak = least_working(facts, StateLayout(last.program), options.dynamic, options.host_budget)
               .value_or(peak);
  }
  if (passed) {
    passed->program = std::move(last.program), passed->kernels = std::move(last.kernels);
    passed->storages = std::move(storages);
  }
  return foreign + peak;
}

Plan plan_passed(const Compiled& passed, const StateLayout& layout, const CompileOptions& options) {
  const auto made = [&](int64_t enough) {
    return make_plan(passed.program, passed.storages, layout, enough, options.place_effort);
  };
  Plan plan = made(0);
  // A search for a given height finds what one for the least may not.
  if (options.budget && !is_planned(options.recompute) && plan.device().bytes > *options.budget &&
      plan.device().lower_bound <= *options.budget) {
    Plan within = made(*options.budget);
    if (within.device().bytes < plan.device().bytes) plan = std::move(within);
  }
  return plan;
}

MapsAlone plan_maps_alone(Program program, KernelCache& cache, CompileOptions options) {
  options.maps_alone = true;
  Passed first = recorded(std::move(program), cache);
  const StorageOptions as_ours{.maps_alone = true};
  MapsAlone out{.program = {}, .ours = peak_bytes(first.program, first.workspace, as_ours)};
  Passed last = run_passes(kPasses, std::move(first), cache, options, true);
  const Storages storages = assign_storages(last.program, last.workspace, storage_options(options));
  const Placement placement =
      place(transients_of(last.program, storages, Space::device).buffers, {});
  out.lower_bound = peak_of(storages, lifetimes_of(last.program, storages)).bytes;
  out.bytes = placement.height;
  out.program = std::move(last.program);
  return out;
}

Compiled compile(Program program, KernelCache& cache, const StateLayout& layout,
                 const CompileOptions& options) {
  if (options.maps_alone) {
    throw ProgramError("[compile] a step that counts maps alone has no plan: plan_maps_alone()");
  }
  const Clock::time_point start = Clock::now();
  verify(program);
  Program again;  // for trying other options
  if (options.budget && (options.must_fit || packs_within_budget(options))) again = program;
  Passed passed = recorded(std::move(program), cache);
  Compiled out;
  out.baselines = baselines_of(passed.program, passed.workspace);
  note_encodings(out, passed.program, options.encode);
  const CompileOptions inner = without_foreign(options, foreign_bytes(passed.program, layout));
  passed = run_passes(kPasses, std::move(passed), cache, inner, false);
  out.program = std::move(passed.program), out.kernels = std::move(passed.kernels);
  out.passes = std::move(passed.reports), out.dense_maps = std::move(passed.dense_maps);
  share(out, passed.workspace, options);
  if (options.dynamic.manager == Manager::fixed) {
    place(out, layout, options);
    const auto placed = [&](const Compiled& c) { return plan_passed(c, layout, options); };
    if (options.exchange_device) queue_exchanges_of(out, cache, options, placed);
    if (options.branch_device) queue_branches_of(out, cache, options, placed);
  } else {
    manage_step(out, cache, layout, options);
  }
  // What is alive at the peak left room for packed operands, and its placement did not.
  if (may_pack(options) && packs_within_budget(options) &&
      out.plan.device().bytes > *options.budget) {
    CompileOptions other = options;
    other.layouts = other.must_fit = false;
    Compiled plain = compile(again, cache, layout, other);
    if (plain.plan.device().bytes <= *options.budget) return plain;
  }
  price(out, options);
  out.seconds = seconds_since(start);
  check_budget(out, options, [&](const CompileOptions& other) {
    return least_bytes(again, cache, layout, other);
  });
  return out;
}

}  // namespace pal
