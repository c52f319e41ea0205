// A list schedule over two queues.
#include "memory/queues/branches.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "core/lists.h"
#include "memory/schedule/order_graph.h"

namespace pal {
namespace {

// Ready nodes that a queue looks at before it takes none.
constexpr int kLookAt = 16;

class TwoQueues {
 public:
  TwoQueues(const Program& program, const ByNode<NodeDemand>& demands, NodeId ahead)
      : program_(program),
        demands_(demands),
        ahead_(ahead),
        before_(dependencies_of(program)),
        waiting_(program.nodes.size(), 0),
        after_(program.nodes.size()),
        home_(program.nodes.size(), kNone),
        queue_(program.nodes.size(), kNone),
        held_(program.nodes.size(), kNone) {
    for (NodeId n : program.nodes.ids()) {
      waiting_[n] = int(before_[n].size());
      if (before_[n].empty()) ready_.insert(n);
      for (NodeId b : before_[n]) after_[b].push_back(n);
    }
  }

  Branched run() {
    while (order_.size() < program_.nodes.size()) {
      start_all();
      if (order_.size() == program_.nodes.size()) break;  // the last ones may take no time
      Lane& next = first_to_end();
      now_ = next.ends;
      end(next);
    }
    return written();
  }

 private:
  struct Lane {
    NodeId running = kNone;
    double ends = 0;
    NodeId ended = kNone;  // the last
    bool held = false;     // had nothing to do but what is too far ahead
  };

  // Whatever takes no time is done when it begins.
  void start_all() {
    for (bool any = true; any;) {
      any = false;
      for (int q = 0; q < 2; ++q) {
        Lane& lane = lanes_[size_t(q)];
        if (lane.running != kNone) continue;
        const NodeId n = choose(q);
        if (n == kNone) continue;
        if (lane.held) held_[n] = lanes_[size_t(1 - q)].ended, lane.held = false;
        any = true;
        ready_.erase(n);
        order_.push_back(n), queue_[n] = q;
        while (first_ < program_.node_count() && queue_[first_] != kNone) ++first_;
        const double ms = demands_[n].launch_ms + demands_[n].work_ms;
        lane.running = n, lane.ends = now_ + ms;
        if (ms <= 0) end(lane);
      }
    }
  }

  NodeId choose(int q) {
    const Lane& other = lanes_[size_t(1 - q)];
    NodeId moved = kNone;
    int looked = 0;
    for (NodeId n : ready_) {
      if (looked++ == kLookAt) break;
      if (n - first_ > ahead_) {
        lanes_[size_t(q)].held = true;
        break;
      }
      if (home_[n] == kNone || home_[n] == q) return n;
      const bool late = other.running != kNone && other.ends - now_ > demands_[n].launch_ms;
      if (late && moved == kNone) moved = n;
    }
    return moved;
  }

  Lane& first_to_end() {
    Lane &a = lanes_[0], &b = lanes_[1];
    return b.running == kNone || (a.running != kNone && a.ends <= b.ends) ? a : b;
  }
  void end(Lane& lane) {
    const NodeId n = lane.running;
    lane.running = kNone, lane.ended = n;
    for (NodeId a : after_[n]) {
      home_[a] = queue_[n];
      if (--waiting_[a] == 0) ready_.insert(a);
    }
  }

  Branched written() const {
    ByNode<NodeId> position(order_.size());
    for (size_t i = 0; i < order_.size(); ++i) position[order_[i]] = NodeId(int32_t(i));
    ByNode<NodeId> held;
    for (NodeId n : order_) held.push_back(held_[n] == kNone ? NodeId() : position[held_[n]]);
    Program p = program_;
    for (NodeId n : p.nodes.ids()) {
      Node& node = p.node(n);
      node.queue = QueueId(queue_[n]);
      for (NodeId b : before_[n]) {
        if (queue_[b] != queue_[n]) node.waits.push_back(b);
      }
    }
    return {permuted(p, order_), order_, std::move(held)};
  }

  const Program& program_;
  const ByNode<NodeDemand>& demands_;
  const NodeId ahead_;
  const ByNode<std::vector<NodeId>> before_;
  ByNode<int> waiting_;  // for so many
  ByNode<std::vector<NodeId>> after_;
  ByNode<int> home_;   // the queue of what it waited for last
  ByNode<int> queue_;  // where it began
  ByNode<NodeId> held_;
  std::set<NodeId> ready_;
  std::array<Lane, 2> lanes_;
  double now_ = 0;
  NodeId first_{0};  // in program order, of those that have not begun
  std::vector<NodeId> order_;
};

}  // namespace

Program Branched::with_held() const {
  Program p = program;
  for (NodeId n : p.nodes.ids()) {
    if (held[n] != kNone) p.node(n).waits.push_back(held[n]);
  }
  return p;
}

Branched with_branches(const Program& program, const ByNode<NodeDemand>& demands, NodeId ahead) {
  return TwoQueues(program, demands, ahead).run();
}

}  // namespace pal
