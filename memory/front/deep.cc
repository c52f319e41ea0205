// From the plan of a chain to a list of reruns and what leaves.
#include "memory/front/deep.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "memory/front/block_count.h"
#include "memory/front/block_variants.h"
#include "memory/front/choose.h"
#include "memory/front/fused_clones.h"
#include "memory/front/unbeaten.h"
#include "memory/pass.h"
#include "memory/recompute/reruns.h"

namespace pal {
namespace {

constexpr size_t kMostBlocks = 64;
// So many blocks are also taken as one; in a step of many nodes these.
constexpr size_t kTogether[] = {1, 2, 3, 4, 6, 8}, kTogetherOfMany[] = {1, 2, 4};
constexpr size_t kManyNodes = 8000;

// Every variant of every run of blocks that is looked at, as one chain.
class VariantSets {
 public:
  VariantSets(const StepView& view, const Segments& segments, const StepTimes& times,
              const CompileOptions& options, const DeviceProfile& device) {
    const bool many = view.program.nodes.size() > kManyNodes;
    for (const size_t together : many ? std::span<const size_t>(kTogetherOfMany) : kTogether) {
      for (size_t offset = 0; offset < together; ++offset) {
        add(view, segments, together, offset, times, options, device);
      }
    }
  }

  const Chain& chain() const { return chain_; }
  std::vector<NodeId> pass(int block) const { return sets_.front()->variants.pass(block); }
  std::vector<NodeId> forward(int block, int variant) const {
    const Source& from = source(block, variant);
    return sets_[from.set]->variants.forward(from.block, from.variant);
  }
  std::vector<CloneList::Clone> again(int block, int variant) const {
    const Source& from = source(block, variant);
    return sets_[from.set]->variants.again(from.block, from.variant);
  }
  std::vector<ValueId> may_leave(int block, int variant) const {
    const Source& from = source(block, variant);
    return sets_[from.set]->variants.may_leave(from.block, from.variant);
  }

 private:
  struct Set {
    Segments segments;
    BlockVariants variants;
    Set(Segments some, const StepView& view, const StepTimes& times, const CompileOptions& options,
        const DeviceProfile& device, bool anew)
        : segments(std::move(some)), variants(view, segments, times, options, device, anew) {}
  };
  struct Source {
    size_t set;
    int block, variant;
  };

  const Source& source(int block, int variant) const {
    return source_[size_t(block)][size_t(variant)];
  }

  // Of every `together` borders one; the first of them is number `offset`.
  void add(const StepView& view, const Segments& all, size_t together, size_t offset,
           const StepTimes& times, const CompileOptions& options, const DeviceProfile& device) {
    if (together > all.borders.size()) return;
    Segments some{.borders = {}, .kept = all.kept};
    std::vector<int> begins{0};
    for (size_t k = offset; k < all.borders.size(); k += together) {
      some.borders.push_back(all.borders[k]), begins.push_back(int(k) + 1);
    }
    begins.push_back(int(all.blocks()));
    const size_t set = sets_.size();
    sets_.push_back(
        std::make_unique<Set>(std::move(some), view, times, options, device, together == 1));
    const Chain& chain = sets_.back()->variants.chain();
    if (set == 0) {
      chain_ = chain, source_.resize(chain.blocks.size());
      for (ChainBlock& block : chain_.blocks) block.variants.clear();
    }
    for (size_t k = 0; k < chain.blocks.size(); ++k) {
      const int length = begins[k + 1] - begins[k];
      if (length == 1 && set > 0) continue;
      for (size_t v = 0; v < chain.blocks[k].variants.size(); ++v) {
        const auto first = size_t(begins[k]);
        chain_.blocks[first].variants.push_back(chain.blocks[k].variants[v]);
        chain_.blocks[first].variants.back().length = length;
        source_[first].push_back({set, int(k), int(v)});
      }
    }
  }

  std::vector<std::unique_ptr<Set>> sets_;
  Chain chain_;
  std::vector<std::vector<Source>> source_;  // by block and variant of the chain
};

// Walks a chain's plan in the order of time.
class RerunList {
 public:
  RerunList(const StepView& view, const Segments& segments, const VariantSets& variants,
            const ChainPlan& plan)
      : view_(view), segments_(segments), variants_(variants), plan_(plan) {}

  std::vector<Rerun> run() {
    visit(0, true);
    std::stable_sort(list_.begin(), list_.end(),
                     [](const auto& a, const auto& b) { return a.reader < b.reader; });
    return reruns_of(view_.program, list_);
  }

 private:
  // The first gradient of a block, before which the segment that it ends runs again.
  NodeId due(int block) const {
    if (size_t(block) < segments_.borders.size()) return segments_.borders[size_t(block)].later;
    const Program& p = view_.program;
    NodeId n = 0;
    while (p.node(n).phase != Phase::backward) ++n;
    return n;
  }

  void add(const std::vector<NodeId>& nodes, int due_block) {
    for (const NodeId n : nodes) list_.push_back({due(due_block), n});
  }

  void visit(int at, bool first) {
    const ChainStep& step = plan_.steps[size_t(at)];
    if (step.kind == ChainStep::Kind::pass) {
      for (int k = step.first; !first && k < step.until; ++k) add(variants_.pass(k), step.last);
      visit(step.rest, first);
      visit(step.before, false);
      return;
    }
    if (!first) add(variants_.forward(step.first, step.variant), step.last);
    if (step.rest >= 0) visit(step.rest, first);
    const std::vector<CloneList::Clone> again = variants_.again(step.first, step.variant);
    list_.insert(list_.end(), again.begin(), again.end());
  }

  const StepView& view_;
  const Segments& segments_;
  const VariantSets& variants_;
  const ChainPlan& plan_;
  std::vector<CloneList::Clone> list_;
};

std::vector<ValueId> values_of(const StepView& view, const std::vector<StorageId>& storages) {
  std::vector<ValueId> values;
  for (ValueId v : view.storage.ids()) {
    if (std::count(storages.begin(), storages.end(), view.storage[v]) > 0) values.push_back(v);
  }
  return values;
}

std::vector<ValueId> away_of(const StepView& view, const Segments& segments,
                             const VariantSets& variants, const ChainPlan& plan) {
  std::vector<ValueId> away;
  const auto add = [&](const std::vector<ValueId>& values) {
    away.insert(away.end(), values.begin(), values.end());
  };
  for (const ChainStep& step : plan.steps) {
    if (step.kept_leaves) add(variants.may_leave(step.first, step.variant));
    if (step.border_leaves) {
      add(values_of(view, segments.borders[size_t(step.first - 1)].storages));
    }
  }
  return away;
}

}  // namespace

DeepPlans deep_plans(const Program& program, const CompileOptions& options,
                     const DeviceProfile& device, int budgets) {
  RecomputeOptions asked = options.recompute_options;
  asked.heavy = std::numeric_limits<double>::infinity();
  const Program parts = before_clones(program, options);
  const StepView view(parts, asked);
  const StepTimes times = step_times(parts, device, fusions_of(options));
  const Segments segments = find_segments(view, times.alone, kMostBlocks);
  DeepPlans plans;
  if (segments.borders.empty()) return plans;
  const VariantSets variants(view, segments, times, options, device);
  const double plain_ms = count_step(parts, options, device).times.step_ms;
  for (const ChainPlan& chosen : plan_chain(variants.chain(), budgets)) {
    DeepPlan plan{.reruns = RerunList(view, segments, variants, chosen).run(),
                  .away = away_of(view, segments, variants, chosen),
                  .claimed = chosen.bytes};
    asked.reruns = plan.reruns;
    const CountedStep step = count_step(rerun_clones(view, asked).program, options, device);
    const bool copies = !plan.away.empty();
    plan.bytes = step.bytes,
    plan.least = copies ? plan.claimed : std::min(plan.claimed, plan.bytes);
    plan.ms = step.times.step_ms, plan.added_ms = plan.ms - plain_ms;
    (copies ? plans.with_copies : plans.alone).push_back(std::move(plan));
  }
  for (std::vector<DeepPlan>* each : {&plans.alone, &plans.with_copies}) {
    *each = unbeaten(std::move(*each), &DeepPlan::ms, &DeepPlan::least);
  }
  return plans;
}

}  // namespace pal
