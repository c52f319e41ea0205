// Choices of what is recomputed that Echo's search has looked at, and what each comes to.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "memory/passes/forms.h"
#include "memory/price/predict.h"
#include "memory/recompute/clones.h"
#include "memory/recompute/echo.h"

namespace pal {

// The card of the paper (RTX 2080 Ti), as its data sheet has it: whatever the step will run on, the
// same is recomputed.
inline const DeviceProfile kEchoDevice{.name = "RTX 2080 Ti",
                                       .f32 = 13.4e12,
                                       .vector = 13.4e12,
                                       .memory = 616e9,
                                       .link = 15.75e9,
                                       .launch = 5e-6,
                                       .tile = 1};

// Prices tried in turn: bytes moved for a byte saved are divided by these. After the first,
// starting a node counts as moving kEchoLaunch bytes (5 us of that card).
constexpr std::array<double, 6> kEchoPrices = {1, 2, 4, 8, 16, 32};
constexpr double kEchoLaunch = 3e6;

// What is recomputed, and what the step then needs and costs.
struct EchoChoice {
  Choice choice;
  NodeId near = 0;
  bool bits = false, codes = false, heavier = false;  // codes: the cut knows of them
  double price = kEchoPrices[0];
  int64_t bytes = 0;
  double overhead = 0;  // of the step's time
};

// Of equal bytes the one that takes less time comes first.
bool fewer_bytes(const EchoChoice& a, const EchoChoice& b);
// The step with it.
Clones clones_of(const StepView& view, const EchoChoice& trial);

// All that were tried on a step, each looked at once.
class EchoChoices {
 public:
  EchoChoices(const StepView& view, const RecomputeOptions& options, const RecomputeGoal& goal);

  const ByNode<double>& node_ms() const { return node_ms_; }
  bool has_codes() const;

  // The step with this choice. Null where nothing runs again and no bits are stashed.
  const EchoChoice* look_at(EchoChoice trial);
  // The choice that the price leads to, with all else as in `trial`.
  const EchoChoice* look_at(double price, EchoChoice trial);

  // From now on heavier nodes are run again for a per cent of the footprint for each of the step's
  // time, counted from the footprint and the time of `light`.
  void compare_heavier_with(const EchoChoice& light) {
    light_bytes_ = light.bytes, light_overhead_ = light.overhead;
  }
  // From now on, where nothing is cheap enough, the cheapest so far is, and what costs little more.
  void allow_cheapest();
  double limit(double most) const { return std::max(most, 1.1 * least_overhead_); }

  // The fewest bytes for at most so much time; of `like`, only those of its distance, and with bits
  // where it has them. Null: nothing saves any.
  const EchoChoice* best_within(double most, const EchoChoice* like = nullptr) const;
  // Those that save bytes, whatever time they cost; the cheapest first.
  std::vector<const EchoChoice*> by_overhead() const;

 private:
  bool saves(const EchoChoice& trial) const { return trial.bytes < plain_bytes_; }
  static bool is_like(const EchoChoice& a, const EchoChoice& b) {
    return a.near == b.near && a.bits == b.bits && a.codes == b.codes;
  }
  bool is_worth(const EchoChoice& trial) const {
    return !trial.heavier || double(light_bytes_ - trial.bytes) >=
                                 double(plain_bytes_) * (trial.overhead - light_overhead_);
  }

  StepView view_;
  const RecomputeOptions& options_;
  const RecomputeGoal& goal_;
  const Forms forms_;  // of the step as it is
  const ByNode<double> node_ms_;
  int64_t plain_bytes_ = 0;
  double plain_ms_ = 0;
  std::deque<EchoChoice> list_;
  int64_t light_bytes_ = 0;
  double light_overhead_ = 0, least_overhead_ = 0;
};

}  // namespace pal
