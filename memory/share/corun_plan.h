// How jobs share a device and its memory: the circle, the addresses and the waits that are
// predicted to do most within a budget.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "memory/share/circle.h"
#include "memory/share/gate.h"
#include "memory/share/programs_gate.h"
#include "memory/share/simulate.h"
#include "memory/share/step_shape.h"

namespace pal {

enum class CorunGoal : uint8_t {
  total,  // the highest sum of rates relative to alone
  fair,   // likewise, and no job slower than in turns
};
constexpr auto names(CorunGoal) { return std::array{"total", "fair"}; }

// One way for jobs to run beside each other, and what it is predicted to do. Bytes are those of all
// jobs: what is their own, and the pool.
struct CorunWay {
  enum class Kind : uint8_t {
    beside,   // each has all the memory that it needs
    circle,   // one placement for all, waits where storages lie over one another
    tickets,  // placed apart, regions of the pool taken as they become free
    turns,    // one step at a time
    zico,     // regions as they become free, steps that begin late enough (zico_plan.h)
    groups,   // some jobs this way, some that, each group in a part of the pool (pairs_plan.h)
  };
  Kind kind = Kind::turns;
  int64_t pool_bytes = 0;
  std::vector<double> rate = {};  // by job, predicted: steps relative to alone
  double total = 1;               // their sum
  PoolPlacement placement = {};   // of a circle and of tickets
  Circle circle = {};
  CircleWaits waits = {};
  bool paced = false;               // they have those of pace.h
  bool has_local = false;           // what lives for a moment lies apart (local_areas.h)
  ProgramWaits program_waits = {};  // where other programs are on the circle too
  Preference first = {};            // whose nodes go first where all cannot have what they ask for

  // Of the kind groups: how each goes, one behind the other in the pool, and whose they are.
  std::vector<CorunWay> groups = {};
  std::vector<std::vector<JobId>> members = {};

  // Not of the kind zico, which goes by a clock: zico_gate_of().
  std::unique_ptr<PoolGate> gate(const std::vector<const StepShape*>& shapes) const;
};
const char* to_string(CorunWay::Kind kind);

// What each job's rate is in turns: its part of a round in which every job takes a step.
std::vector<double> rates_in_turns(const std::vector<const StepShape*>& shapes);

// Whether letting some nodes go first leaves a job much less than its rate in turns.
bool starves(const CorunWay& way, const std::vector<double>& in_turns);

// Simulates a way, and fills in its rates, relative to each job alone. Returns them relative to the
// shapes' own times.
std::vector<double> simulate_way(CorunWay& way, const std::vector<const StepShape*>& shapes);

// Puts other programs of the jobs on a way's circle, by job, the commonest first: as many of them
// as there is room for in a pool of so many bytes, with what they need for waits. Those that take
// longer than the circle's steps are left out. A way of another kind, and one for which there is no
// room, stays as it is.
void add_programs(CorunWay& way, const std::vector<std::vector<const StepShape*>>& others,
                  int64_t pool_bytes);

struct CorunSearchOptions {
  int64_t grain = 64;      // bytes by which storages of two jobs are told apart
  bool can_prefer = true;  // the device can let some nodes go first (Accelerator::prefer)
};

// All ways that are worth trying, whatever the budget, so that more of it is never slower.
class CorunSearch {
 public:
  // Shapes must outlive this.
  explicit CorunSearch(std::vector<const StepShape*> shapes,
                       const CorunSearchOptions& options = {});

  // The fastest within the budget; nothing where not even turns fit.
  std::optional<CorunWay> within(int64_t budget, CorunGoal goal = CorunGoal::total);
  // Likewise, of those in which no job waits for its turn; nothing where none fits.
  std::optional<CorunWay> side_by_side(int64_t budget, CorunGoal goal = CorunGoal::total);

  int64_t own_bytes() const { return own_bytes_; }
  // Least bytes: turns.
  int64_t least_bytes() const { return own_bytes_ + turns_.pool_bytes; }
  int64_t most_bytes() const { return own_bytes_ + beside_.pool_bytes; }
  const CorunWay& beside() const { return beside_; }
  const CorunWay& turns() const { return turns_; }
  // What a job holds that others may hold at other times, as its own plan has placed it.
  int64_t part_of(size_t job) const { return shapes_[job]->alone_bytes - shapes_[job]->own_bytes; }

 private:
  struct Try {
    Circle circle;
    Preference first = {};
    bool paced = false;           // jobs keep their shift (pace.h)
    double paced_total = 0;       // what they do if they wait for nothing else
    int64_t at_least = 0;         // most bytes alive
    std::optional<CorunWay> way;  // once it has been placed and simulated
    // Likewise in more bytes, where jobs wait for each other's: what lives for a moment lies in
    // local areas; of jobs that keep a pace, all of each job's lies apart.
    std::optional<CorunWay> roomier;
  };
  // Each job with all that it needs, and what its speed is then relative to the shape's own time.
  struct Beside {
    CorunWay way;
    std::vector<double> speed;
  };
  Beside beside_with(Preference first) const;
  void add_tickets(Preference first);
  void add_circles(const Beside& beside);
  void add_tries(const Beside& beside, const std::vector<int>& steps);
  void add_paced(const Beside& beside, const std::vector<int>& steps, Preference first);
  double paced_total(const Circle& circle, Preference first) const;
  const CorunWay& place(Try& t);
  PoolPlacement placed_apart() const;  // nothing of one job lies over another's
  enum class Placing : uint8_t { joint, local, apart };
  CorunWay placed(const Try& t, Placing placing) const;
  const CorunWay* best(int64_t budget, CorunGoal goal, const CorunWay* best);

  std::vector<const StepShape*> shapes_;
  int64_t grain_, own_bytes_ = 0;
  bool can_prefer_;
  double round_ms_ = 0;            // a step of each, alone
  CorunWay turns_, beside_;        // the latter: the best of all
  std::vector<CorunWay> besides_;  // with nobody first, with a job, with light nodes
  std::vector<CorunWay> tickets_;  // in pools of several heights
  std::vector<Try> tries_;
};

}  // namespace pal
