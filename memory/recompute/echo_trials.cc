// Trials, and what lies between two prices.
#include "memory/recompute/echo_trials.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "core/prepare.h"
#include "memory/passes/bit_stash.h"
#include "memory/passes/fuse_recompute.h"
#include "memory/storages/lifetimes.h"

namespace pal {
namespace {

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

class Trials {
 public:
  Trials(const StepView& view, const RecomputeOptions& options, const RecomputeGoal& goal)
      : view_(view),
        options_(options),
        goal_(goal),
        bits_(options.bits && count_bits(view.program) > 0),
        plain_(predict(view.program, kEchoDevice)),
        plain_bytes_(peak_bytes(view.program)) {}

  Clones run() {
    Chosen dear = smallest_at(kEchoPrices[0]);
    if (best_is_cheap() && options_.heavier > options_.heavy) {  // time is left
      view_.set_heavy(options_.heavier);
      light_bytes_ = bytes_, light_overhead_ = overhead_;
      Chosen heavier = chosen_at(kEchoPrices[0], dear.near, dear.bits);
      if (attempt(heavier)) return std::move(best_);
      dear = std::move(heavier);
    }
    if (!dear.choice.empty()) raise_price(std::move(dear));
    return std::move(best_);
  }

 private:
  struct Chosen {
    Choice choice;
    NodeId near = 0;
    bool bits = false;
    double price = 0;
  };
  // What follows from it, as far as it was asked for.
  struct Trial {
    Chosen chosen;
    std::optional<CloneList> list = {};
    std::optional<Clones> clones = {};
    std::optional<int64_t> bytes = {};
    std::optional<double> overhead = {};
  };

  Chosen chosen_at(double price, NodeId near, bool bits) const {
    const EchoTrial trial{.near = near,
                          .exchange = options_.exchange / price,
                          .launch_bytes = price > kEchoPrices[0] ? kEchoLaunch : 0,
                          .balance = kEchoDevice.f32 / kEchoDevice.memory,
                          .bits = bits};
    return {choose_echo(view_, trial), near, bits, price};
  }

  const CloneList& list_of(Trial& trial) const {
    if (!trial.list) {
      const Chosen& chosen = trial.chosen;
      trial.list = list_clones(view_, chosen.choice, std::min(chosen.near, kEchoFar));
    }
    return *trial.list;
  }
  const Clones& clones_of(Trial& trial) const {
    if (!trial.clones) {
      trial.clones = insert_clones(view_, list_of(trial));
      if (trial.chosen.bits) encode(*trial.clones);
    }
    return *trial.clones;
  }
  int64_t bytes_of(Trial& trial) const {
    if (!trial.bytes) trial.bytes = peak_bytes(clones_of(trial).program);
    return *trial.bytes;
  }
  // Of the step's time. Clones take what their originals do.
  double overhead_of(Trial& trial) const {
    if (!trial.overhead) {
      double ms = plain_.step_ms;
      if (goal_.fuse) {
        ms = predict(fuse_recompute(clones_of(trial).program), kEchoDevice).step_ms;
      } else if (trial.chosen.bits) {
        ms = predict(clones_of(trial).program, kEchoDevice).step_ms;
      } else {
        for (const auto& clone : list_of(trial).clones) ms += plain_.node_ms[clone.original];
      }
      trial.overhead = ms / plain_.step_ms - 1;
    }
    return *trial.overhead;
  }
  bool is_cheap(Trial& trial) const { return overhead_of(trial) <= options_.overhead; }
  // Bits may be kept where nothing runs again.
  bool is_empty(Trial& trial) const {
    return list_of(trial).clones.empty() && (!trial.chosen.bits || clones_of(trial).encoded == 0);
  }

  // Of all distances; empty where none has anything to recompute. Smaller ones first: once one of
  // them is cheap, nobody asks what the others cost.
  Chosen smallest_at(double price) {
    std::vector<Trial> trials;
    for (NodeId near : kEchoDistances) {
      for (const bool bits : {false, true}) {
        if (bits && !bits_) continue;
        Trial trial{chosen_at(price, near, bits)};
        if (is_empty(trial)) continue;
        bytes_of(trial);
        trials.push_back(std::move(trial));
      }
    }
    if (trials.empty()) return {};
    std::stable_sort(trials.begin(), trials.end(),
                     [](const Trial& a, const Trial& b) { return *a.bytes < *b.bytes; });
    for (Trial& trial : trials) {
      if (!best_is_cheap()) keep_if_best(trial);
    }
    return std::move(trials.front().chosen);
  }

  // From what the first price led to.
  void raise_price(Chosen dear) {
    for (size_t i = 1; i < kEchoPrices.size(); ++i) {
      Chosen here = chosen_at(kEchoPrices[i], dear.near, dear.bits);
      if (attempt(here)) {
        if (best_is_cheap()) look_between(std::move(dear), here);
        break;
      }
      dear = std::move(here);
    }
  }

  // Prices between one that leaves too much to recompute and one that does not, then regions
  // between two of these.
  void look_between(Chosen dear, const Chosen& cheap) {
    double enough = cheap.price;
    for (int i = 0; i < kPricesBetween; ++i) {
      const double middle = std::sqrt(dear.price * enough);
      Chosen here = chosen_at(middle, dear.near, dear.bits);
      if (here.choice == cheap.choice || attempt(here)) {
        enough = middle;
      } else {
        dear = std::move(here);
      }
    }
    add_regions(dear);
  }

  // Keeps it if it is the best so far. Whether it is cheap enough.
  bool attempt(const Chosen& chosen) {
    Trial trial{chosen};
    if (is_empty(trial)) return true;
    const bool cheap = is_cheap(trial);
    if (cheap || !best_is_cheap()) keep_if_best(trial);
    return cheap;
  }

  void keep_if_best(Trial& trial) {
    const int64_t bytes = bytes_of(trial);
    const double overhead = overhead_of(trial);
    const int mine = rank(bytes, overhead), least = rank(bytes_, overhead_);
    // What fits and costs too much is judged by what it costs, the rest by bytes.
    const bool better = mine != least ? mine < least
                        : mine == 1   ? overhead < overhead_
                                      : bytes < bytes_ && is_worth(bytes, overhead);
    if (!better) return;
    clones_of(trial);
    best_ = std::move(*trial.clones), bytes_ = bytes, overhead_ = overhead;
    chosen_ = trial.chosen.choice;
  }

  // Of what runs heavier nodes again: a per cent of the footprint for each of the step's time.
  bool is_worth(int64_t bytes, double overhead) const {
    return !light_bytes_ ||
           double(*light_bytes_ - bytes) >= double(plain_bytes_) * (overhead - light_overhead_);
  }

  bool best_is_cheap() const { return rank(bytes_, overhead_) == 0; }

  // 0: fits the budget and costs little enough; 1: fits; 2: does not, or saves nothing.
  int rank(int64_t bytes, double overhead) const {
    if (bytes >= plain_bytes_ || (goal_.budget && bytes > *goal_.budget / 100 * 99)) return 2;
    return overhead > options_.overhead;
  }

  // Nodes that `dear` recomputes and the best so far does not, where one reads another as one
  // region.
  struct Region {
    std::vector<NodeId> nodes;
    int64_t bytes = 0;  // of what need not be stashed
    double ms = 0;
  };
  std::vector<Region> regions_of(const Choice& dear) const {
    const Program& p = view_.program;
    auto extra = [&](ValueId v) { return v != kNone && dear[v] && !chosen_[v]; };
    ByNode<NodeId> root(p.nodes.size(), kNone);
    auto find = [&](NodeId n) {
      while (root[n] != n) n = root[n] = root[root[n]];
      return n;
    };
    for (NodeId n = 0; n < p.node_count(); ++n) {
      if (std::none_of(p.node(n).out.begin(), p.node(n).out.end(), extra)) continue;
      root[n] = n;
      for (ValueId v : p.node(n).in) {
        if (extra(v)) root[size_t(find(p.value(v).producer))] = n;
      }
    }
    ByNode<int32_t> number(p.nodes.size(), -1);
    std::vector<char> counted(view_.storage_bytes.size(), 0);
    std::vector<Region> regions;
    for (NodeId n = 0; n < p.node_count(); ++n) {
      if (root[n] == kNone) continue;
      int32_t& at = number[find(n)];
      if (at < 0) at = int32_t(regions.size()), regions.emplace_back();
      Region& region = regions[at];
      region.nodes.push_back(n);
      region.ms += plain_.node_ms[n];
      for (ValueId v : p.node(n).out) {
        if (!extra(v) || view_.first_use[v] == kNone) continue;
        char& seen = counted[view_.storage[v]];
        if (!seen) region.bytes += view_.storage_bytes[view_.storage[v]];
        seen = 1;
      }
    }
    return regions;
  }

  // A region that is too much as a whole is recomputed from somewhere to its end.
  void add_regions(const Chosen& dear) {
    const Choice base = chosen_;
    std::vector<Region> regions = regions_of(dear.choice);
    std::stable_sort(regions.begin(), regions.end(), [](const Region& a, const Region& b) {
      return double(a.bytes) * b.ms > double(b.bytes) * a.ms;
    });
    std::vector<NodeId> nodes;
    for (const Region& region : regions)
      nodes.insert(nodes.end(), region.nodes.rbegin(), region.nodes.rend());
    size_t affordable = 0, too_many = nodes.size() + 1;
    for (int i = 0; i < kSteps && affordable + 1 < too_many; ++i) {
      const size_t count = (affordable + too_many) / 2;
      Chosen trial{base, dear.near, dear.bits};
      for (size_t k = 0; k < count; ++k) {
        for (ValueId v : view_.program.node(nodes[k]).out) {
          if (v != kNone) trial.choice[v] |= dear.choice[v];
        }
      }
      (attempt(trial) ? affordable : too_many) = count;
    }
  }
  static constexpr int kPricesBetween = 2, kSteps = 6;  // of bisection

  StepView view_;
  const RecomputeOptions& options_;
  const RecomputeGoal& goal_;
  const bool bits_;
  const Prediction plain_;
  const int64_t plain_bytes_;
  Clones best_;
  Choice chosen_;  // of the best
  int64_t bytes_ = std::numeric_limits<int64_t>::max();
  double overhead_ = std::numeric_limits<double>::infinity();
  std::optional<int64_t> light_bytes_;  // of the best without heavier nodes, once these are tried
  double light_overhead_ = 0;
};

}  // namespace

Clones best_echo(const StepView& view, const RecomputeOptions& options, const RecomputeGoal& goal) {
  return Trials(view, options, goal).run();
}

}  // namespace pal
