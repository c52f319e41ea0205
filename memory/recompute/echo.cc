// The candidates, and their judging in the order of what bounds them.
#include "memory/recompute/echo.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>

#include "core/prepare.h"
#include "memory/passes/bit_stash.h"
#include "memory/passes/fuse_recompute.h"
#include "memory/recompute/echo_cut.h"
#include "memory/storages/lifetimes.h"

namespace pal {
namespace {

constexpr NodeId kAny = std::numeric_limits<NodeId>::max();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Regions in which candidates are looked for, each at all prices. What is alive while a region runs
// again is what tells them apart: short regions hold little, long ones stash less, which is right
// where the peak lies between the phases (a vocabulary's scores) and all that runs again comes
// after it. docs/decisions/echo-search.md says what each is worth.
struct Kind {
  NodeId near;
  bool products;  // compute-heavy nodes may run again
};
constexpr Kind kKinds[] = {{kAny, false}, {1024, true}, {64, true}};
// Clones of nodes whose operands are there anyway serve readers at most so far apart.
constexpr NodeId kFar = 1024;

// Prices, as the part of the footprint that must be saved for a part of the step's time: at the
// lowest, one per cent of the footprint may cost 32 of the time. Where the next price stashes
// more by a part of the footprint, prices between the two are tried as well.
constexpr double kLowestPrice = 1.0 / 32, kHighestPrice = 16;
constexpr int kPrices = 10, kPricesBetween = 12, kRounds = 4;
constexpr double kNearlySame = 1.002;
// Half a per cent, in steps of many nodes more: a candidate of 20,000 takes 2 ms to look at.
double part_of(const Program& program) { return std::max(0.005, 1e-6 * program.node_count()); }

// A bound on what fused gradients save is taken a tenth beyond where it was measured.
constexpr double kSlack = 0.9;

struct Step {
  const StepView& view;
  bool fuse;
  Prediction plain;
  int64_t bytes, kept;  // at the peak; whatever is recomputed
};

struct Candidate {
  CloneList list;
  double price = 0, last_price = 0;  // the lowest and the highest tried at which it is chosen
  bool bits = false;
  // Not below these, which take no program to find: what is stashed, and the time.
  int64_t least_bytes = 0;
  double least_overhead = 0;
  double apart = 0;  // overhead, if nothing is fused or kept as bits
};

double overhead_of(const Step& step, const Program& program) {
  return predict(program, kEchoDevice).step_ms / step.plain.step_ms - 1;
}

// State, and inputs.
int64_t kept_bytes(const Program& program) {
  int64_t bytes = 0;
  for (const Storage& storage : assign_storages(program).list) {
    if (storage.space == Space::device && (storage.persistent || storage.input)) {
      bytes += footprint(storage);
    }
  }
  return bytes;
}

// Stashes bits in the clones' program, and counts what that adds.
void encode(Clones& clones) {
  clones.program = stash_bits(clones.program, &clones.encoded);
  for (const Node& node : clones.program.nodes) {
    if (node.phase != Phase::encode) continue;
    const Specs in = specs_of(clones.program, node.in), out = specs_of(clones.program, node.out);
    const Cost cost = cost_of(*node.op, in, out, node.attrs);
    clones.cost.flops += cost.flops, clones.cost.bytes += cost.bytes;
  }
}

Clones clones_of(const Step& step, const Candidate& candidate) {
  Clones clones = insert_clones(step.view, candidate.list);
  if (candidate.bits) encode(clones);
  return clones;
}

// Clones take what their originals do.
double apart_overhead(const Step& step, const CloneList& list) {
  double ms = 0;
  for (const auto& clone : list.clones) ms += step.plain.node_ms[clone.original];
  return ms / step.plain.step_ms;
}

// With bits and fused gradients, where there are any.
double whole_overhead(const Step& step, const Candidate& candidate, const Clones& clones) {
  if (!step.fuse && !candidate.bits) return candidate.apart;
  return overhead_of(step, step.fuse ? fuse_recompute(clones.program) : clones.program);
}

// What the cut chooses at each of the prices, which rise, where it is not what it chose before.
std::vector<Candidate> candidates_at(const Step& step, const EchoRegions& regions,
                                     const std::vector<int64_t>& as_bits,
                                     const std::vector<double>& prices) {
  std::vector<Candidate> out;
  EchoCut cut(step.view, regions, step.plain.node_ms, as_bits);
  const double unit = double(step.bytes) / step.plain.step_ms;
  Choice before;
  for (const double price : prices) {
    Choice choice = cut.choose(price * unit);
    if (choice == before) {
      out.back().last_price = price;
      continue;
    }
    before = choice;
    Candidate candidate{.price = price, .last_price = price, .bits = !as_bits.empty()};
    candidate.list = list_clones(step.view, std::move(choice), std::min(regions.near, kFar));
    candidate.least_bytes = step.kept + stashed_bytes(step.view, candidate.list, as_bits);
    candidate.apart = apart_overhead(step, candidate.list);
    out.push_back(std::move(candidate));
  }
  return out;
}

// Prices between neighbours that leave a gap in what is stashed.
std::vector<double> prices_between(const Step& step, const std::vector<Candidate>& candidates) {
  auto gap = [&](size_t i) {
    return double(candidates[i + 1].least_bytes - candidates[i].least_bytes) / double(step.bytes);
  };
  const double finest = part_of(step.view.program);
  double gaps = 0;
  for (size_t i = 0; i + 1 < candidates.size(); ++i) gaps += gap(i) > finest ? gap(i) : 0;
  const double part = std::max(finest, gaps / kPricesBetween);
  std::vector<double> prices;
  for (size_t i = 0; i + 1 < candidates.size(); ++i) {
    const double low = candidates[i].last_price, ratio = candidates[i + 1].price / low;
    if (ratio < kNearlySame) continue;
    const int count = int(gap(i) / part);
    for (int k = 1; k <= count; ++k) prices.push_back(low * std::pow(ratio, k / (count + 1.0)));
  }
  return prices;
}

// In the order of prices, each choice once: a price between two that choose the same does so too.
void merge(std::vector<Candidate>& candidates, std::vector<Candidate> more) {
  std::move(more.begin(), more.end(), std::back_inserter(candidates));
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.price < b.price; });
  std::vector<Candidate> out;
  for (Candidate& candidate : candidates) {
    if (!out.empty() && candidate.list.needed == out.back().list.needed) {
      out.back().last_price = std::max(out.back().last_price, candidate.last_price);
    } else {
      out.push_back(std::move(candidate));
    }
  }
  candidates = std::move(out);
}

std::vector<Candidate> candidates_of(const Step& step, const EchoRegions& regions,
                                     const std::vector<int64_t>& as_bits) {
  std::vector<double> prices;
  for (int i = 0; i < kPrices; ++i) {
    prices.push_back(kLowestPrice *
                     std::pow(kHighestPrice / kLowestPrice, double(i) / (kPrices - 1)));
  }
  std::vector<Candidate> out;
  for (int round = 0; round < kRounds && !prices.empty(); ++round) {
    std::vector<Candidate> more = candidates_at(step, regions, as_bits, prices);
    merge(out, std::move(more));
    prices = prices_between(step, out);
  }
  return out;
}

// Fused gradients change what clones cost. By how much is seen where the most light nodes run
// again; a candidate counts as gaining no more than a little beyond that part of its own time.
void bound_times(const Step& step, std::vector<Candidate>& candidates) {
  double part = 1;
  if (step.fuse && !candidates.empty() && candidates.front().apart > 0) {
    const Candidate& most = candidates.front();
    part = whole_overhead(step, most, clones_of(step, most)) / most.apart;
    part = std::min(1.0, part > 0 ? part * kSlack : part / kSlack);
  }
  for (Candidate& candidate : candidates) candidate.least_overhead = part * candidate.apart;
}

std::vector<Candidate> all_candidates(const Step& step, const RecomputeOptions& options) {
  const std::vector<int64_t> none, as_bits = options.bits ? bytes_as_bits(step.view) : none;
  const bool bits = std::any_of(as_bits.begin(), as_bits.end(), [](int64_t b) { return b >= 0; });
  std::vector<Candidate> all;
  for (const Kind& kind : kKinds) {
    if (kind.products && !options.products) continue;
    const EchoRegions regions{.near = kind.near,
                              .heavy = kind.products ? kInfinity : options.heavy};
    for (const auto* coded : {&none, &as_bits}) {
      if (coded == &as_bits && !bits) continue;
      std::vector<Candidate> more = candidates_of(step, regions, *coded);
      std::move(more.begin(), more.end(), std::back_inserter(all));
    }
  }
  bound_times(step, all);
  return all;
}

// The candidates, those with the least of a bound first.
template <class Bound>
std::vector<const Candidate*> in_order(const std::vector<Candidate>& candidates,
                                       Bound Candidate::*bound) {
  std::vector<const Candidate*> order;
  for (const Candidate& candidate : candidates) order.push_back(&candidate);
  std::stable_sort(order.begin(), order.end(),
                   [&](const Candidate* a, const Candidate* b) { return a->*bound < b->*bound; });
  return order;
}

// A candidate's bytes and time count as no less than what bounds them, so that those which a bound
// rules out need not be looked at: the answer is as if all had been judged.
int64_t bytes_of(const Candidate& candidate, const Clones& clones) {
  return std::max(candidate.least_bytes, peak_bytes(clones.program));
}

struct Answer {
  Clones clones;  // none: the step as it is
  int64_t bytes = 0;
  double apart = 0;
};

// The fewest bytes within the overhead; of equal ones those for which the least is run again.
Answer smallest(const Step& step, const std::vector<Candidate>& candidates, double overhead) {
  Answer best{.bytes = step.bytes};
  for (const Candidate* candidate : in_order(candidates, &Candidate::least_bytes)) {
    if (candidate->least_bytes > best.bytes) break;
    if (candidate->least_overhead > overhead) continue;
    Clones clones = clones_of(step, *candidate);
    const int64_t bytes = bytes_of(*candidate, clones);
    if (bytes > best.bytes || (bytes == best.bytes && candidate->apart >= best.apart)) continue;
    const bool sure = candidate->apart <= overhead && !candidate->bits;
    if (sure || whole_overhead(step, *candidate, clones) <= overhead) {
      best = {std::move(clones), bytes, candidate->apart};
    }
  }
  return best;
}

// The fastest of those that fit, where there is one.
std::optional<Clones> fastest(const Step& step, const std::vector<Candidate>& candidates,
                              int64_t room, const FootprintOf& footprint) {
  std::optional<Clones> best;
  double least = kInfinity;
  for (const Candidate* candidate : in_order(candidates, &Candidate::least_overhead)) {
    if (candidate->least_overhead >= least) break;
    if (candidate->least_bytes > room) continue;
    Clones clones = clones_of(step, *candidate);
    if (bytes_of(*candidate, clones) > room) continue;
    const double overhead =
        std::max(candidate->least_overhead, whole_overhead(step, *candidate, clones));
    if (overhead >= least || footprint(clones.program) > room) continue;
    best = std::move(clones), least = overhead;
  }
  return best;
}

}  // namespace

Clones best_echo(const StepView& view, const RecomputeOptions& options, const RecomputeGoal& goal,
                 const FootprintOf& footprint) {
  const Step step{.view = view,
                  .fuse = goal.fuse,
                  .plain = predict(view.program, kEchoDevice),
                  .bytes = peak_bytes(view.program),
                  .kept = kept_bytes(view.program)};
  const std::vector<Candidate> candidates = all_candidates(step, options);
  Answer best = smallest(step, candidates, options.overhead);
  if (!goal.budget) return std::move(best.clones);
  const int64_t room = *goal.budget / 100 * 99;  // placement may need a little beyond the peak
  if (best.bytes <= room / 100 * 90) return std::move(best.clones);
  const Program& chosen = best.clones.program.nodes.empty() ? view.program : best.clones.program;
  if (footprint(chosen) <= room) return std::move(best.clones);
  if (std::optional<Clones> fits = fastest(step, candidates, room, footprint)) {
    return std::move(*fits);
  }
  return smallest(step, candidates, kInfinity).clones;
}

}  // namespace pal
