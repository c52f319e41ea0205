// naive: every feature map that the backward pass reads. vDNN (Rhu et al. 2016, section III): the
// inputs of layers, each copied out beside its layer's forward pass and fetched beside the backward
// pass of the layer before it in that pass.
#include <algorithm>
#include <optional>

#include "memory/passes/forms.h"
#include "memory/swap/swap.h"

namespace pal {
namespace {

bool is_heavy(const Program& p, NodeId n) {
  const Work work = work_of(p, n);
  return work.runs && work.flops >= kProductIntensity * work.bytes;
}

}  // namespace

std::vector<Trip> naive_trips(const Program& p, const std::vector<SwapUnit>& units) {
  std::vector<Trip> trips;
  for (size_t u = 0; u < units.size(); ++u) {
    const auto gap = units[u].is_map ? stashed_gap(p, units[u]) : std::nullopt;
    // The copy begins when the last reader is done.
    if (gap) trips.push_back({u, gap->after, gap->before, NodeId(gap->after + 1)});
  }
  return trips;
}

std::vector<Trip> vdnn_trips(const Program& p, const std::vector<SwapUnit>& units,
                             VdnnInputs inputs) {
  std::vector<Trip> trips;
  for (size_t u = 0; u < units.size(); ++u) {
    const auto gap = units[u].is_map ? stashed_gap(p, units[u]) : std::nullopt;
    if (!gap) continue;
    const NodeId layer = gap->after;  // the last that reads it in the forward pass
    const auto is_heavy_reader = [&](NodeId n) {
      return units[u].made < n && n <= layer && is_heavy(p, n);
    };
    if (inputs == VdnnInputs::all ||
        std::any_of(units[u].touches.begin(), units[u].touches.end(), is_heavy_reader)) {
      trips.push_back({u, layer, gap->before, layer});
    }
  }
  // Fetched while the layer before it in the backward pass runs.
  std::sort(trips.begin(), trips.end(),
            [](const Trip& a, const Trip& b) { return a.come < b.come; });
  NodeId first = kNone;  // of the backward pass
  for (NodeId n : p.nodes.ids()) {
    if (first == kNone && is_later(p.node(n))) first = n;
  }
  NodeId before = first, now = first;
  for (Trip& trip : trips) {
    if (trip.come != now) before = now, now = trip.come;
    trip.come = std::max(before, NodeId(trip.leave + 1));
  }
  return trips;
}

}  // namespace pal
