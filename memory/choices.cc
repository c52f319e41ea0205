// Each tries its answers by the final peak, or the scheduled one.
#include "memory/choices.h"

#include <algorithm>

#include "core/rewrite.h"
#include "memory/passes/encode.h"
#include "memory/passes/fuse_recompute.h"

namespace pal {

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
  if (some.nodes.size() == p.nodes.size()) return {};
  return some;
}

// All that the options allow where that lowers the final peak; else what is exact of it, where that
// does.
Made encode_maps(const Program& p, Context context, std::string* note) {
  Encodings exact = context.options.encode;
  exact.dpr = {}, exact.dpr_layers.clear();
  Made best;
  int64_t least = context.final_peak(p);
  std::string said;
  auto consider = [&](const Encodings& encodings) {
    Program tried = encode(p, encodings, &said);
    if (!best) *note = said;
    if (tried.nodes.size() == p.nodes.size()) return;
    const int64_t peak = context.final_peak(tried);
    if (peak >= least) return;
    best = std::move(tried), least = peak, *note = said;
  };
  consider(exact);
  if (context.options.encode.is_lossy()) consider(context.options.encode);
  if (!best) *note += ": the peak would be no lower, so all stay as they are";
  return best;
}

}  // namespace pal
