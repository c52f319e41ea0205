// Echo's candidates: choices at several distances and prices, judged by the footprints that they
// leave and by what a roofline says that they cost.
#pragma once
#include <array>
#include <memory>

#include "memory/recompute/clones.h"
#include "memory/recompute/echo.h"
#include "memory/recompute/echo_tried.h"

namespace pal {

// The parts of a step's time that are told apart: what may be added counts as the next lower of
// these. At every second one, trials are made for just so much time.
struct EchoLevel {
  double part;
  bool filled = false;
};
constexpr std::array<EchoLevel, 12> kEchoLevels = {{{0.01},
                                                    {0.02, true},
                                                    {0.03},
                                                    {0.05, true},
                                                    {0.07},
                                                    {0.09, true},
                                                    {0.12},
                                                    {0.15, true},
                                                    {0.2},
                                                    {0.3, true},
                                                    {0.5},
                                                    {1, true}}};
// Nodes of all the programs that are tried at a level, about.
constexpr size_t kEchoNodes = 100'000;
// The passes that follow are taken to save at most a tenth more of one step than of another.
constexpr double kEchoSlack = 0.9;
// Regions are taken to save at most a quarter of a step's bytes.
constexpr double kEchoHope = 0.75;

// What counts as near, tried in turn; the one with the smallest footprint is used, at all prices.
// The last is any distance: where the peak lies between the phases (a vocabulary's scores), even a
// whole chain that is made again at once is better than one that is kept, as it comes after the
// peak.
constexpr std::array<NodeId, 4> kEchoDistances = {64, 256, 1024, NodeId{1} << 30};

// The smallest footprint that costs at most options.overhead; with a budget that this does not fit,
// the cheapest step that does. More time never costs bytes. `footprint`: of the step with the
// clones once all passes are done, in bytes. Where the goal has encodings, time is counted from
// that of the encoded step.
Clones best_echo(const StepView& view, const RecomputeOptions& options, RecomputeGoal goal,
                 const FootprintOf& footprint);

// What was tried on a step. Asked for more and more time, best_echo() answers as without it, and
// each trial and each footprint is made once.
class EchoMemory {
 public:
  struct Tried {
    virtual ~Tried() = default;
    // Whether what is asked is the same step, but for more time.
    virtual bool goes_on_to(const StepView& view, const RecomputeOptions& options,
                            const RecomputeGoal& goal) const = 0;
    virtual Clones best(double overhead, const FootprintOf& footprint) = 0;
  };

  Clones best(const StepView& view, const RecomputeOptions& options, const RecomputeGoal& goal,
              const FootprintOf& footprint);

 private:
  std::unique_ptr<Tried> tried_;
};

}  // namespace pal
