// One method's clones, kept where they lower the footprint.
#include "memory/recompute/recompute.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <utility>

#include "core/text.h"
#include "memory/passes/parts.h"
#include "memory/recompute/chosen.h"
#include "memory/recompute/echo_trials.h"
#include "memory/recompute/mirror_sqrt.h"
#include "memory/recompute/reruns.h"

namespace pal {

namespace {

constexpr double kMirrorHeavy = 12;  // flops a byte; 1x1 convolutions of 64 channels: 26

std::string amount(double x, const char* unit) {
  char text[48];
  std::snprintf(text, sizeof text, x < 10 ? "%.2f %s" : "%.0f %s", x, unit);
  return text;
}

// Nodes that are never so far apart that one clone would not do.
constexpr NodeId kAnyDistance = std::numeric_limits<NodeId>::max();

}  // namespace

const char* to_string(Recompute method) {
  if (method == Recompute::chosen) return "chosen";
  return method == Recompute::reruns ? "reruns" : names(method)[size_t(method)];
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
  // Chen et al. run whole layers again, but no convolution, however few its channels.
  const bool echo = method == Recompute::echo, chosen = method == Recompute::chosen;
  const bool reruns = method == Recompute::reruns;
  const bool chen = !echo && !chosen && !reruns;
  RecomputeOptions own = options;
  if (chen) own.heavy = std::min(own.heavy, kMirrorHeavy);
  if (chosen) own.heavy = std::numeric_limits<double>::infinity();
  const Program parts = chen ? Program{} : split_parts(program);
  const StepView view(chen ? program : parts, own);
  Clones best;
  if (echo) {
    best = best_echo(view, options, goal, footprint);
  } else if (chosen) {
    best = chosen_clones(view, options);
  } else if (reruns) {
    best = rerun_clones(view, options);
  } else {
    Choice choice = method == Recompute::mirror ? choose_mirror(view) : choose_sqrt(view);
    best = insert_clones(view, std::move(choice), kAnyDistance);
  }
  if (best.count == 0 && best.encoded == 0) {
    say("nothing to recompute");
    return program;
  }
  const std::string added =
      std::to_string(best.count) + " nodes recomputed" +
      (best.encoded ? ", " + std::to_string(best.encoded) + " values kept as bits" : "") + ": " +
      amount(best.cost.flops * 1e-9, "Gflop") + " and " +
      amount(best.cost.bytes * 1e-9, "GB moved");
  // What a planner chose stands.
  if (chosen || reruns) return say(added), std::move(best.program);
  const int64_t bytes = echo ? best.bytes : footprint(best.program);
  if (bytes >= footprint(program)) {
    say("undone: with " + added + " the step would need " + format_bytes(bytes));
    return program;
  }
  say(added);
  return std::move(best.program);
}

}  // namespace pal
