// The new order, then the waits.
#include "memory/passes/assign_queues.h"

#include <algorithm>
#include <vector>

#include "core/order.h"
#include "core/rewriter.h"

namespace pal {
namespace {

bool is_copy(const Node& node) {
  return node.phase == Phase::offload || node.phase == Phase::reload;
}

// The node after which an offload runs: the last one that makes an operand, or for which it waits;
// kNone: inputs and state alone.
NodeId maker_of(const Program& p, const Node& node) {
  NodeId maker = kNone;
  for (ValueId v : present(node.in)) maker = std::max(maker, p.value(v).producer);
  for (NodeId w : node.waits) maker = std::max(maker, w);
  return maker;
}

// The nodes in their new order: offloads right behind their makers.
std::vector<NodeId> order_of(const Program& p) {
  std::vector<NodeId> first;  // offloads of inputs and state
  ByNode<std::vector<NodeId>> behind(p.nodes.size());
  for (NodeId n : p.nodes.ids()) {
    if (p.node(n).phase != Phase::offload) continue;
    const NodeId maker = maker_of(p, p.node(n));
    (maker == kNone ? first : behind[maker]).push_back(n);
  }
  std::vector<NodeId> order;
  order.reserve(p.nodes.size());
  const auto emit = [&](const auto& self, NodeId n) -> void {
    order.push_back(n);
    for (NodeId offload : behind[n])
      self(self, offload);  // one offload may read what another makes
  };
  for (NodeId n : first) emit(emit, n);
  for (NodeId n : p.nodes.ids()) {
    if (p.node(n).phase != Phase::offload) emit(emit, n);
  }
  return order;
}

// The nodes that must have ended before each node, in the old numbers: those that make its
// operands, and for a copy's bytes the nodes around it in the logical order.
ByNode<std::vector<NodeId>> waits_of(const Program& p) {
  ByNode<std::vector<NodeId>> waits(p.nodes.size());
  std::vector<NodeId> offloads;  // since the last compute node
  NodeId compute = kNone;        // the last one
  for (NodeId n : p.nodes.ids()) {
    const Node& node = p.node(n);
    for (ValueId v : present(node.in)) {
      if (p.value(v).producer != kNone) waits[n].push_back(p.value(v).producer);
    }
    if (node.phase == Phase::offload) {
      waits[n].insert(waits[n].end(), node.waits.begin(), node.waits.end());
      offloads.push_back(n);
    } else if (node.phase == Phase::reload) {
      if (compute != kNone) waits[n].push_back(compute);
    } else {
      waits[n].insert(waits[n].end(), offloads.begin(), offloads.end());
      offloads.clear();
      compute = n;
    }
  }
  return waits;
}

QueueId queue_of(const Node& node) {
  return node.phase == Phase::offload  ? kOffloadQueue
         : node.phase == Phase::reload ? kReloadQueue
                                       : kComputeQueue;
}

}  // namespace

std::optional<Program> assign_queues(const Program& program, std::string* note) {
  const auto copies = std::count_if(program.nodes.begin(), program.nodes.end(), is_copy);
  if (copies == 0) return {};
  const std::vector<NodeId> order = order_of(program);
  ByNode<NodeId> position(program.nodes.size());
  for (size_t i = 0; i < order.size(); ++i) position[order[i]] = NodeId(i);
  const ByNode<std::vector<NodeId>> waits = waits_of(program);
  ByNode<QueueId> queue;
  for (const Node& node : program.nodes) queue.push_back(queue_of(node));
  Rewriter out(program);
  for (NodeId n : order) {
    Node node = program.node(n);
    node.queue = queue[n];
    node.waits = last_on_others(waits[n], node.queue, queue, position);
    out.replace(n, std::move(node));
  }
  if (note) *note = std::to_string(copies) + " copies on queues of their own";
  return out.finish();
}

}  // namespace pal
