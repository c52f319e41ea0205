// A step's time, from its nodes': queue by queue, over a shared link, or side by side.
#include <algorithm>
#include <utility>

#include "memory/price/node_times.h"
#include "memory/price/predict.h"
#include "memory/price/side_by_side.h"
#include "memory/price/works.h"

namespace pal {
namespace {

// When nodes end if copies that are under way at once run at `part` of their speed: from one end of
// a node to the next.
void share_link(const Program& program, double part, Prediction& out) {
  struct Lane {
    std::vector<NodeId> nodes;
    size_t next = 0;
    double left = -1;  // milliseconds of work; negative: nothing runs
    bool copies = false;
  };
  std::vector<Lane> lanes;
  for (NodeId n : program.nodes.ids()) {
    const Node& node = program.node(n);
    if (lanes.size() <= node.queue) lanes.resize(size_t(node.queue) + 1);
    lanes[node.queue].nodes.push_back(n);
  }
  ByNode<char> done(program.nodes.size(), 0);
  double now = 0;
  while (true) {
    int copies = 0;
    bool any = false;
    for (Lane& lane : lanes) {
      if (lane.left < 0 && lane.next < lane.nodes.size()) {
        const Node& node = program.node(lane.nodes[lane.next]);
        if (std::all_of(node.waits.begin(), node.waits.end(), [&](NodeId w) { return done[w]; })) {
          lane.left = out.node_ms[lane.nodes[lane.next]];
          lane.copies = node.phase == Phase::offload || node.phase == Phase::reload;
        }
      }
      any |= lane.left >= 0, copies += lane.left > 0 && lane.copies;
    }
    if (!any) break;
    const auto speed = [&](const Lane& lane) { return lane.copies && copies > 1 ? part : 1.0; };
    double step = -1;
    for (const Lane& lane : lanes) {
      if (lane.left >= 0 && (step < 0 || lane.left / speed(lane) < step)) {
        step = lane.left / speed(lane);
      }
    }
    now += step;
    for (Lane& lane : lanes) {
      if (lane.left < 0) continue;
      const bool ends = lane.left / speed(lane) <= step;
      lane.left -= step * speed(lane);
      if (!ends) continue;
      lane.left = -1;
      const NodeId n = lane.nodes[lane.next++];
      done[n] = 1, out.end_ms[n] = now;
    }
  }
  out.step_ms = now;
}

// Every queue in order; returns how many there are.
size_t run_queues(const Program& program, const ByNode<double>& node_ms, ByNode<double>& end_ms,
                  double& step_ms) {
  end_ms.resize(program.nodes.size());
  std::vector<double> clock;  // by queue
  for (NodeId n : program.nodes.ids()) {
    const Node& node = program.node(n);
    if (clock.size() <= node.queue) clock.resize(size_t(node.queue) + 1, 0);
    double& now = clock[node.queue];
    for (NodeId other : node.waits) now = std::max(now, end_ms[other]);
    end_ms[n] = now += node_ms[n];
    step_ms = std::max(step_ms, now);
  }
  return clock.size();
}

}  // namespace

double step_ms_of(const Program& program, const ByNode<double>& node_ms) {
  ByNode<double> end_ms;
  double step_ms = 0;
  run_queues(program, node_ms, end_ms, step_ms);
  return step_ms;
}

Prediction predict(const Program& program, const DeviceProfile& device, const Storages* storages) {
  Prediction out;
  out.node_ms.resize(program.nodes.size());
  Works works(program, storages);
  for (NodeId n : program.nodes.ids()) {
    const Node& node = program.node(n);
    const Work work = works.of(n);
    double ms = time_ms(work, device);
    const bool on_the_way = work.link_bytes > 0;  // nobody has measured that here
    if (device.times && work.runs && !on_the_way) ms = device.times->of(program, n, ms);
    out.node_ms[n] = ms;
    out.by_phase[size_t(node.phase)] += ms;
    out.flops += work.flops, out.bytes += work.bytes, out.host_bytes += work.host_bytes;
    out.link_bytes += work.link_bytes;
  }
  if (computes_side_by_side(program)) {
    SideBySide run = run_side_by_side(program, demands_of(program, device, storages));
    out.step_ms = run.ms, out.end_ms = std::move(run.end_ms);
    return out;
  }
  const size_t queues = run_queues(program, out.node_ms, out.end_ms, out.step_ms);
  const double part = device.link > 0 ? device.link_both / (2 * device.link) : 0;
  if (part > 0 && part < 1 && queues > 2) share_link(program, part, out);
  return out;
}

}  // namespace pal
