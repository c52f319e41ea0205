// Trials, and what lies between two prices.
#include "memory/echo_trials.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "core/prepare.h"
#include "memory/bit_stash.h"
#include "memory/fuse_recompute.h"
#include "memory/lifetimes.h"

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

// Whether there is anything to keep as bits.
bool has_bits(const Program& program) {
  int count = 0;
  stash_bits(program, &count);
  return count > 0;
}

class Trials {
 public:
  Trials(const StepView& view, const RecomputeOptions& options, const RecomputeGoal& goal)
      : view_(view),
        options_(options),
        goal_(goal),
        bits_(options.bits && has_bits(view.program)),
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
    int64_t bytes = std::numeric_limits<int64_t>::max();
  };

  Chosen chosen_at(double price, NodeId near, bool bits) const {
    const EchoTrial trial{.near = near,
                          .exchange = options_.exchange / price,
                          .launch_bytes = price > kEchoPrices[0] ? kEchoLaunch : 0,
                          .balance = kEchoDevice.f32 / kEchoDevice.memory,
                          .bits = bits};
    return {choose_echo(view_, trial), near, bits, price};
  }

  // Of all distances; empty where none has anything to recompute.
  Chosen smallest_at(double price) {
    Chosen smallest;
    for (NodeId near : kEchoDistances) {
      for (const bool bits : {false, true}) {
        if (!bits || bits_) attempt(chosen_at(price, near, bits), &smallest);
      }
    }
    return smallest;
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

  // Prices between one that leaves too much to recompute and one that does not, then regions between
  // two of these.
  void look_between(Chosen dear, const Chosen& cheap) {
    double enough = cheap.price;
    for (int i = 0; i < kPricesBetween; ++i) {
      const double middle = std::sqrt(dear.price * enough);
      Chosen here = chosen_at(middle, dear.near, dear.bits);
      if (attempt(here)) {
        enough = middle;
      } else {
        dear = std::move(here);
      }
    }
    add_regions(dear);
  }

  // Keeps it if it is the best so far; `smallest`: the one with the smallest footprint so far,
  // whatever it costs. Whether it is cheap enough.
  bool attempt(Chosen trial, Chosen* smallest = nullptr) {
    Clones clones = insert_clones(view_, trial.choice, std::min(trial.near, kEchoFar));
    if (trial.bits) encode(clones);
    if (clones.count + clones.encoded == 0) return true;
    const Program& p = clones.program;
    const double ms = predict(goal_.fuse ? fuse_recompute(p) : p, kEchoDevice).step_ms;
    const double overhead = ms / plain_.step_ms - 1;
    const bool cheap = overhead <= options_.overhead;
    if (!cheap && !smallest && best_is_cheap()) return false;  // whatever its bytes
    trial.bytes = peak_bytes(p);
    const int mine = rank(trial.bytes, overhead), least = rank(bytes_, overhead_);
    // What fits and costs too much is judged by what it costs, the rest by bytes.
    const bool better = mine != least ? mine < least
                        : mine == 1   ? overhead < overhead_
                                      : trial.bytes < bytes_ && is_worth(trial.bytes, overhead);
    if (better) {
      best_ = std::move(clones), bytes_ = trial.bytes, overhead_ = overhead;
      chosen_ = trial.choice;
    }
    if (smallest && trial.bytes < smallest->bytes) *smallest = std::move(trial);
    return cheap;
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
    auto extra = [&](ValueId v) { return v != kNone && dear[size_t(v)] && !chosen_[size_t(v)]; };
    std::vector<NodeId> root(p.nodes.size(), kNone);
    auto find = [&](NodeId n) {
      while (root[size_t(n)] != n) n = root[size_t(n)] = root[size_t(root[size_t(n)])];
      return n;
    };
    for (NodeId n = 0; n < p.node_count(); ++n) {
      if (std::none_of(p.node(n).out.begin(), p.node(n).out.end(), extra)) continue;
      root[size_t(n)] = n;
      for (ValueId v : p.node(n).in) {
        if (extra(v)) root[size_t(find(p.value(v).producer))] = n;
      }
    }
    std::vector<int32_t> number(p.nodes.size(), -1);
    std::vector<char> counted(view_.storage_bytes.size(), 0);
    std::vector<Region> regions;
    for (NodeId n = 0; n < p.node_count(); ++n) {
      if (root[size_t(n)] == kNone) continue;
      int32_t& at = number[size_t(find(n))];
      if (at < 0) at = int32_t(regions.size()), regions.emplace_back();
      Region& region = regions[size_t(at)];
      region.nodes.push_back(n);
      region.ms += plain_.node_ms[size_t(n)];
      for (ValueId v : p.node(n).out) {
        if (!extra(v) || view_.first_use[size_t(v)] == kNone) continue;
        char& seen = counted[size_t(view_.storage[size_t(v)])];
        if (!seen) region.bytes += view_.storage_bytes[size_t(view_.storage[size_t(v)])];
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
          if (v != kNone) trial.choice[size_t(v)] |= dear.choice[size_t(v)];
        }
      }
      (attempt(std::move(trial)) ? affordable : too_many) = count;
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
