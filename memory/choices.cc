// Each tries its answers by the final peak, or the scheduled one.
#include "memory/choices.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/rewrite.h"
#include "memory/passes/counted_maps.h"
#include "memory/passes/encode.h"
#include "memory/passes/fuse_recompute.h"
#include "memory/swap/swap.h"

namespace pal {

using Context = const PassContext&;
using Made = std::optional<Program>;

namespace {

Encodings encodings_of(Context context) {
  Encodings encodings = context.options.encode;
  encodings.direct = context.cache.device().kind == DeviceKind::cpu;
  return encodings;
}

}  // namespace

namespace {

// The parts of a step's time that echo is given, in turn, where the rest is swapped.
constexpr double kEchoBesideSwap[] = {0.01, 0.02, 0.03, 0.05, 0.07, 0.09, 0.12, 0.2, 0.5};

// Echo at several targets, and swapping for the rest: the fastest that keeps to the budget; where
// there is none, the smallest.
Made echo_beside_swap(const Program& p, Context context, RecomputeGoal goal, std::string* note) {
  const CompileOptions& options = context.options;
  const int64_t budget = *options.budget;
  FinalStep least = context.final_step(p);
  *note = "the rest is swapped: nothing is recomputed";
  Made best;
  const auto consider = [&](const RecomputeOptions& some) {
    std::string said;
    Program out = recompute(p, options.recompute, context.final_peak, &said, some, goal);
    if (out.nodes.size() == p.nodes.size()) return;
    const FinalStep step = context.final_step(out);
    const bool better = least.bytes > budget ? step.bytes < least.bytes
                                             : step.bytes <= budget && step.ms < least.ms;
    if (!better) return;
    least = step, best = std::move(out), *note = said;
  };
  consider(options.recompute_options);
  goal.budget.reset();
  for (const double part : kEchoBesideSwap) {
    RecomputeOptions some = options.recompute_options;
    some.overhead = part;
    consider(some);
  }
  return best;
}

}  // namespace

Made recompute_some(const Program& p, Context context, std::string* note) {
  const CompileOptions& options = context.options;
  const bool echo = options.recompute == Recompute::echo;
  RecomputeGoal goal{
      .budget = options.budget, .fuse = options.fuse_recompute, .maps_alone = options.maps_alone};
  const Encodings encodings = encodings_of(context).without_counts();
  if (encodings.keeps_codes()) goal.encodings = &encodings;
  if (context.memory) goal.memory = &context.memory->echo;
  if (echo && options.swap.method == Swap::planned && options.budget) {
    return echo_beside_swap(p, context, goal, note);
  }
  Program out = recompute(p, options.recompute, echo ? context.final_peak : context.scheduled_peak,
                          note, options.recompute_options, goal);
  if (out.nodes.size() == p.nodes.size()) return {};
  return out;
}

Made swap_some(const Program& p, Context context, std::string* note) {
  const CompileOptions& options = context.options;
  return swapped(p, options.swap,
                 {.budget = options.budget,
                  .host_budget = options.host_budget,
                  .device = priced_device(options),
                  .workspace = context.workspace,
                  .storages = storage_options(options)},
                 note);
}

namespace {

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

}  // namespace

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
  std::vector<const Rewrite*> rewrites(all_rewrites().begin(), all_rewrites().end());
  std::erase_if(rewrites, [&](const Rewrite* rewrite) {
    return rewrite->when != Rewrite::When::always || (rewrite->cards_alone && !is_card(context));
  });
  Program all = fuse_epilogues(p, note, rewrites);
  if (all.nodes.size() == p.nodes.size()) return note->clear(), std::nullopt;
  const int64_t peak = context.final_peak(p);
  if (context.final_peak(all) <= peak) return all;
  *note = "some would raise the peak: kept apart";
  Program some = p;
  for (const Rewrite* rewrite : rewrites) {
    Program fused = fuse_epilogues(some, nullptr, {&rewrite, 1});
    if (context.final_peak(fused) <= peak) some = std::move(fused);
  }
  if (some.nodes.size() == p.nodes.size()) return {};
  return some;
}

namespace {

// What the options allow, and what of it does not raise the peak.
struct FormChoice {
  Forms allowed, lowered;
};

FormChoice choice_of(const Program& p, const Encodings& encodings, const StorageOptions& storages) {
  FormChoice choice;
  choice.lowered = lowered_forms(p, encodings, storages, &choice.allowed);
  return choice;
}

// Sparse codes beside what is kept already, or, where nothing is rounded, in place of it.
std::vector<FormChoice> sparse_choices(const Program& p, const Encodings& encodings,
                                       const Forms& kept, const StorageOptions& storages) {
  std::vector<Forms> bases{kept};
  const bool rounds =
      std::any_of(kept.begin(), kept.end(), [](const Form& form) { return form.dpr.has_value(); });
  if (!rounds && count_encoded(kept) > 0) bases.emplace_back(p.values.size());
  std::vector<FormChoice> choices;
  for (const Forms& base : bases) {
    Encodings some = encodings;
    some.binarize &= count_encoded(base) > 0;
    Forms forms = add_sparse(p, some, base);
    choices.push_back({forms, lowered(p, forms, base, storages)});
  }
  return choices;
}

}  // namespace

// All that the options allow where that lowers the final peak; else what is exact of it, where that
// does. Sparse codes come last: which values are rounded does not depend on how many are zero.
Made encode_maps(const Program& p, Context context, std::string* note) {
  const Encodings all = encodings_of(context);
  Encodings exact = all;
  exact.dpr = {}, exact.dpr_layers.clear();
  const StorageOptions counted{.maps_alone = context.options.maps_alone};
  Forms best(p.values.size());
  int64_t least = context.final_peak(p);
  bool eligible = false;  // some map
  if (context.dense_maps) *context.dense_maps = dense_reasons(p, all);
  auto consider = [&](const FormChoice& choice) {
    const bool here = count_encoded(choice.allowed) > 0, left = count_encoded(choice.lowered) > 0;
    const std::string what = describe(p, left ? choice.lowered : choice.allowed);
    if (note->empty() || (here && count_encoded(best) == 0)) *note = what;
    eligible |= here;
    if (!left) return;
    const int64_t peak = context.final_peak(encode(p, choice.lowered));
    if (peak >= least) return;
    best = choice.lowered, least = peak, *note = what;
  };
  if (exact.binarize || exact.dropout_bits) consider(choice_of(p, exact, counted));
  if (all.is_lossy()) consider(choice_of(p, all, counted));
  if (all.ssdc && (!all.density.empty() || all.assumed_density)) {
    for (const FormChoice& choice : sparse_choices(p, all, Forms(best), counted)) consider(choice);
  } else if (all.ssdc && note->empty()) {
    *note = "the density of no map is known";
  }
  const bool encoded = count_encoded(best) > 0;
  if (all.observe) {
    *note += (note->empty() ? "" : "; ") + std::string("nonzeros are counted");
  } else if (!encoded && eligible) {
    *note += ": the peak would be no lower, so all stay as they are";
  }
  if (!encoded && !all.observe) return {};
  Program out = encoded ? encode(p, best) : p;
  return all.observe ? count_nonzeros_of_maps(out) : out;
}

}  // namespace pal
