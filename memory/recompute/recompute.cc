// One method's clones, kept where they lower the footprint.
#include "memory/recompute/recompute.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "core/text.h"
#include "memory/passes/parts.h"
#include "memory/recompute/clones.h"
#include "memory/recompute/echo.h"
#include "memory/recompute/mirror_sqrt.h"

namespace pal {
namespace {

constexpr double kMirrorHeavy = 12;  // flops a byte; 1x1 convolutions of 64 channels: 26
// Nodes that are never so far apart that one clone would not do.
constexpr NodeId kAnyDistance = std::numeric_limits<NodeId>::max();

std::string amount(double x, const char* unit) {
  char text[48];
  std::snprintf(text, sizeof text, x < 10 ? "%.2f %s" : "%.0f %s", x, unit);
  return text;
}

Clones echo_clones(const Program& program, const RecomputeOptions& options,
                   const RecomputeGoal& goal, const FootprintOf& footprint) {
  const Program parts = split_parts(program);
  return best_echo(StepView(parts, options), options, goal, footprint);
}

Clones chen_clones(const Program& program, Recompute method, const RecomputeOptions& options) {
  RecomputeOptions own = options;
  own.heavy = std::min(own.heavy, kMirrorHeavy);
  const StepView view(program, own);
  return insert_clones(view, method == Recompute::mirror ? choose_mirror(view) : choose_sqrt(view),
                       kAnyDistance);
}

}  // namespace

const char* to_string(Recompute method) {
  static constexpr const char* names[] = {"none", "mirror", "sqrt", "echo"};
  return names[size_t(method)];
}

Program recompute(const Program& program, Recompute method, const FootprintOf& footprint,
                  std::string* note, const RecomputeOptions& options, const RecomputeGoal& goal) {
  auto say = [&](const std::string& text) {
    if (note) *note = text;
  };
  if (method == Recompute::none) {
    say("off");
    return program;
  }
  const Clones best = method == Recompute::echo ? echo_clones(program, options, goal, footprint)
                                                : chen_clones(program, method, options);
  if (best.count == 0 && best.encoded == 0) {
    say("nothing to recompute");
    return program;
  }
  const std::string added =
      std::to_string(best.count) + " nodes recomputed" +
      (best.encoded ? ", " + std::to_string(best.encoded) + " values kept as bits" : "") + ": " +
      amount(best.cost.flops * 1e-9, "Gflop") + " and " +
      amount(best.cost.bytes * 1e-9, "GB moved");
  const int64_t bytes = footprint(best.program);
  if (bytes >= footprint(program)) {
    say("undone: with " + added + " the step would need " + format_bytes(bytes));
    return program;
  }
  say(added);
  return best.program;
}

}  // namespace pal
