// Discrete events: from one end of a launch or a node to the next.
#include "memory/price/side_by_side.h"

#include <algorithm>

#include "core/error.h"
#include "core/op.h"
#include "core/order.h"
#include "memory/price/node_times.h"
#include "memory/price/works.h"

namespace pal {
namespace {

class Events {
 public:
  Events(const Program& program, const ByNode<NodeDemand>& demands)
      : program_(program), demands_(demands), done_(program.nodes.size(), 0) {
    lanes_.resize(size_t(queue_count(program)));
    for (NodeId n : program.nodes.ids()) lanes_[program.node(n).queue].nodes.push_back(n);
    out_.seen.assign(program.nodes.size(), kNone), out_.end_ms.assign(program.nodes.size(), 0);
  }

  SideBySide run() {
    while (out_.order.size() < program_.nodes.size() || is_busy()) {
      begin_all();
      if (!is_busy()) {
        if (out_.order.size() == program_.nodes.size()) break;  // the last ones took no time
        throw ProgramError("[overlap] every queue waits for another");
      }
      set_speeds();
      double next = -1;
      for (const Lane& lane : lanes_) {
        if (!lane.busy) continue;
        const double left = lane.left / lane.speed;
        next = next < 0 ? left : std::min(next, left);
      }
      out_.ms += next;
      for (Lane& lane : lanes_) {
        if (!lane.busy) continue;
        lane.left -= next * lane.speed;
        if (lane.left <= 1e-12) end_part(lane);
      }
    }
    return std::move(out_);
  }

 private:
  struct Lane {
    std::vector<NodeId> nodes;
    size_t next = 0;                   // to begin, or at work
    NodeId ended = kNone;              // the last
    bool busy = false, works = false;  // launches, or works
    double left = 0, speed = 1;
  };

  bool is_busy() const {
    return std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.busy; });
  }
  const NodeDemand& demand(const Lane& lane) const { return demands_[lane.nodes[lane.next]]; }

  // Whoever has nothing under way begins its next node, if it need not wait; until nobody does. The
  // first queue goes first.
  void begin_all() {
    for (bool any = true; any;) {
      any = false;
      for (Lane& lane : lanes_) {
        while (!lane.busy && lane.next < lane.nodes.size() && may_begin(lane))
          begin(lane), any = true;
      }
    }
  }
  bool may_begin(const Lane& lane) const {
    const auto& waits = program_.node(lane.nodes[lane.next]).waits;
    return std::all_of(waits.begin(), waits.end(), [&](NodeId w) { return done_[w]; });
  }
  void begin(Lane& lane) {
    const NodeId n = lane.nodes[lane.next];
    out_.order.push_back(n);
    for (const Lane& other : lanes_) {
      if (&other != &lane) out_.seen[n] = std::max(out_.seen[n], other.ended);
    }
    lane.busy = true, lane.works = false, lane.left = demand(lane).launch_ms;
    if (lane.left <= 0) end_part(lane);
  }
  // Of its node: the launch, or all.
  void end_part(Lane& lane) {
    if (!lane.works && demand(lane).work_ms > 0) {
      lane.works = true, lane.left = demand(lane).work_ms;
      return;
    }
    lane.ended = lane.nodes[lane.next++];
    done_[lane.ended] = 1, lane.busy = false, out_.end_ms[lane.ended] = out_.ms;
  }

  void set_speeds() {
    NodeDemand sum;
    for (const Lane& lane : lanes_) {
      if (!lane.busy || !lane.works) continue;
      sum.flops += demand(lane).flops, sum.memory += demand(lane).memory;
      sum.units += demand(lane).units;
    }
    for (Lane& lane : lanes_) {
      lane.speed = 1;
      if (!lane.busy || !lane.works) continue;
      const auto share = [&](double mine, double all) {
        if (mine > 0 && all > 1) lane.speed = std::min(lane.speed, 1 / all);
      };
      share(demand(lane).flops, sum.flops);
      share(demand(lane).memory, sum.memory);
      share(demand(lane).units, sum.units);
    }
  }

  const Program& program_;
  const ByNode<NodeDemand>& demands_;
  std::vector<Lane> lanes_;
  ByNode<char> done_;
  SideBySide out_;
};

double alone_ms(const NodeDemand& d) { return d.launch_ms + d.work_ms; }

}  // namespace

ByNode<NodeDemand> demands_of(const Program& program, const DeviceProfile& device,
                              const Storages* storages) {
  ByNode<NodeDemand> out;
  Works works(program, storages);
  out.reserve(program.nodes.size());
  for (NodeId n : program.nodes.ids()) {
    const Work work = works.of(n);
    NodeDemand demand = demand_of(work, device);
    if (device.times && work.runs && work.link_bytes == 0) {
      const double ms = device.times->of(program, n, alone_ms(demand));
      demand.launch_ms = std::min(demand.launch_ms, ms), demand.work_ms = ms - demand.launch_ms;
    }
    out.push_back(demand);
  }
  return out;
}

bool computes_side_by_side(const Program& program) {
  const QueueId none = 255;
  QueueId one = none;
  for (const Node& node : program.nodes) {
    const bool copies = node.phase == Phase::offload || node.phase == Phase::reload;
    if (copies || node.op->collective || node.queue == one) continue;
    if (one != none) return true;
    one = node.queue;
  }
  return false;
}

SideBySide run_side_by_side(const Program& program, const ByNode<NodeDemand>& demands) {
  return Events(program, demands).run();
}

double one_by_one_ms(const ByNode<NodeDemand>& demands) {
  double ms = 0;
  for (const NodeDemand& d : demands) ms += alone_ms(d);
  return ms;
}

double least_ms(const Program& program, const ByNode<NodeDemand>& demands) {
  std::vector<double> queue(size_t(queue_count(program)), 0);
  double flops = 0, memory = 0, units = 0;
  for (NodeId n : program.nodes.ids()) {
    const NodeDemand& d = demands[n];
    queue[program.node(n).queue] += alone_ms(d);
    flops += d.work_ms * d.flops, memory += d.work_ms * d.memory, units += d.work_ms * d.units;
  }
  return std::max({flops, memory, units, *std::max_element(queue.begin(), queue.end())});
}

}  // namespace pal
