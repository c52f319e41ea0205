// The list of the passes, and the way from what they leave to a plan.
#include "memory/compile.h"

#include <algorithm>
#include <cstdio>

#include "core/clock.h"
#include "core/rewrite.h"
#include "core/text.h"
#include "core/verify.h"
#include "memory/budget.h"
#include "memory/pass.h"
#include "memory/passes/assign_queues.h"
#include "memory/passes/fuse_recompute.h"
#include "memory/passes/fuse_updates.h"
#include "memory/passes/layouts.h"
#include "memory/plan/report.h"
#include "memory/schedule/delay_forward.h"
#include "memory/storages/lifetimes.h"

namespace pal {
namespace {

using Options = const CompileOptions&;
using Context = const PassContext&;
using Made = std::optional<Program>;

Made recompute_some(const Program& p, Context context, std::string* note) {
  const CompileOptions& options = context.options;
  const bool echo = options.recompute == Recompute::echo;
  Program out = recompute(p, options.recompute, echo ? context.final_peak : context.scheduled_peak,
                          note, options.recompute_options,
                          {.budget = options.budget, .fuse = options.fuse_recompute});
  if (out.nodes.size() == p.nodes.size()) return {};
  return out;
}

bool has_clones(const Program& p) {
  return std::any_of(p.nodes.begin(), p.nodes.end(),
                     [](const Node& node) { return node.phase == Phase::recompute; });
}
// A clone with other readers stays, so that there may be as many nodes as before.
bool same_operators(const Program& a, const Program& b) {
  return std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(),
                    [](const Node& x, const Node& y) { return x.op == y.op; });
}

Made fold(const Program& p, std::string* note) {
  Program out = fuse_recompute(p, note);
  if (same_operators(out, p)) return {};
  return out;
}
// With clones: the final peak is compared once, for recomputation and this together.
Made fold_clones(const Program& p, Context, std::string* note) {
  return has_clones(p) ? fold(p, note) : Made{};
}
// Some forms fit a step that recomputes nothing, too.
Made fold_plain(const Program& p, Context, std::string* note) {
  return has_clones(p) ? Made{} : fold(p, note);
}

// All forms, or else one after the other, so far as they do not raise the final peak: they may by a
// kernel's scratch memory, or because the passes that follow make less of what is left.
Made fold_epilogues(const Program& p, Context context, std::string* note) {
  Program all = fuse_epilogues(p, note);
  if (all.nodes.size() == p.nodes.size()) return note->clear(), std::nullopt;
  const int64_t peak = context.final_peak(p);
  if (context.final_peak(all) <= peak) return all;
  *note = "some would raise the peak: kept apart";
  Program some = p;
  for (const Rewrite* rewrite : all_rewrites()) {
    if (rewrite->when != Rewrite::When::always) continue;
    Program fused = fuse_epilogues(some, nullptr, {&rewrite, 1});
    if (context.final_peak(fused) <= peak) some = std::move(fused);
  }
  return some;
}

// All that the options allow; where that raises the final peak, what needs no decoding.
Made encode_maps(const Program& p, Context context, std::string* note) {
  const Encodings& encodings = context.options.encode;
  Program all = encode(p, encodings, note);
  if (all.nodes.size() == p.nodes.size()) return {};
  if (!encodings.is_lossy() || context.final_peak(all) <= context.final_peak(p)) return all;
  Encodings exact = encodings;
  exact.dpr = {}, exact.dpr_layers.clear();
  Program bits = encode(p, exact, note);
  *note += ", none rounded, as that would raise the peak";
  if (bits.nodes.size() == p.nodes.size()) return {};
  return bits;
}

Made order(const Program& p, Context context, std::string* note) {
  return schedule(p, context.options.schedule, note, context.workspace,
                  storage_options(context.options));
}

Made choose_operand_layouts(const Program& p, Context context, std::string* note) {
  LayoutsEffect effect;
  Program out = choose_layouts(p, context.cache, &effect);
  *note = std::to_string(effect.reorders) + " reorders of " + format_bytes(effect.bytes) + " for " +
          std::to_string(effect.readers) + " readers";
  return out;
}

// The order of the passes. A pass is a row here, and a file of its own.
constexpr bool kTradesTime = true;
const Pass kPasses[] = {
    {"delay", [](const Program& p, Context, std::string* note) { return delay_forward(p, note); },
     [](Options o) { return o.schedule != Schedule::program; }, Keep::if_peak_not_higher},
    {"mirror", recompute_some, [](Options o) { return o.recompute == Recompute::mirror; },
     Keep::if_final_peak_not_higher, kTradesTime},
    {"sqrt", recompute_some, [](Options o) { return o.recompute == Recompute::sqrt; },
     Keep::if_final_peak_not_higher, kTradesTime},
    {"echo", recompute_some, [](Options o) { return o.recompute == Recompute::echo; },
     Keep::if_final_peak_not_higher, kTradesTime},
    {"fuse_recompute", fold_clones,
     [](Options o) { return o.fuse_recompute && o.recompute != Recompute::none; },
     Keep::if_scheduled_peak_not_higher, kTradesTime},
    {"fuse_recompute", fold_plain,
     [](Options o) { return o.fuse_recompute && o.recompute != Recompute::none; },
     Keep::if_final_peak_not_higher, kTradesTime},
    {"fuse_epilogues", fold_epilogues, [](Options o) { return o.fuse_epilogues; }},
    {"encode", encode_maps, [](Options o) { return o.encode.any(); },
     Keep::if_final_peak_not_higher, kTradesTime},
    {"schedule", order, [](Options o) { return o.schedule != Schedule::program; }},
    {"fuse_updates",
     [](const Program& p, Context, std::string* note) { return fuse_updates(p, note); },
     [](Options o) { return o.fuse_updates; }, Keep::if_peak_not_higher},
    {"layouts", choose_operand_layouts, [](Options o) { return o.layouts; }},
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

void place(Compiled& out, const StateLayout& layout) {
  const Clock::time_point start = Clock::now();
  out.plan = make_plan(out.program, out.storages, layout);
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

void price(Compiled& out, const DeviceProfile& profile) {
  const double ms = predict(out.program, profile, &out.storages).step_ms;
  double traded = 0;
  for (const PassReport& report : out.passes) traded += report.trades ? report.added_ms : 0;
  out.time = StepTime{.profile = profile.name,
                      .measured = profile.measured,
                      .step_ms = ms,
                      .overhead = traded / (ms - traded)};
}

}  // namespace

int64_t least_bytes(Program program, KernelCache& cache, const StateLayout& layout,
                    const CompileOptions& options, Compiled* passed) {
  Passed last = run_passes(kPasses, prepared(std::move(program), cache), cache, options, true);
  int64_t foreign = layout.bytes();  // state of the set that this program does not carry
  for (const StateSlot& slot : last.program.state) {
    const Value& value = last.program.value(slot.start);
    if (value.space == Space::device) foreign -= align_up(value.spec.bytes());
  }
  const int64_t peak = peak_of(last, options);
  if (passed) {
    passed->program = std::move(last.program), passed->kernels = std::move(last.kernels);
    passed->storages = assign_storages(passed->program, last.workspace, storage_options(options));
  }
  return foreign + peak;
}

Compiled compile(Program program, KernelCache& cache, const StateLayout& layout,
                 const CompileOptions& options) {
  const Clock::time_point start = Clock::now();
  verify(program);
  Program recorded;  // for trying other options
  if (options.budget && options.must_fit) recorded = program;
  Passed passed = prepared(std::move(program), cache);
  Compiled out;
  out.baselines = baselines_of(passed.program, passed.workspace);
  passed = run_passes(kPasses, std::move(passed), cache, options, false);
  out.program = std::move(passed.program), out.kernels = std::move(passed.kernels);
  out.passes = std::move(passed.reports);
  share(out, passed.workspace, options);
  place(out, layout);
  if (options.profile) price(out, *options.profile);
  out.seconds = seconds_since(start);
  check_budget(out, options, [&](const CompileOptions& other) {
    return least_bytes(recorded, cache, layout, other);
  });
  return out;
}

}  // namespace pal
