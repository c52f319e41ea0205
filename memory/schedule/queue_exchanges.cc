// A list schedule: which node begins next, on every queue, where exchanges do not hold up the rest.
#include "memory/schedule/queue_exchanges.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/op.h"
#include "core/order.h"
#include "core/rewriter.h"
#include "memory/schedule/order_graph.h"

namespace pal {
namespace {

bool is_exchange(const Node& node) { return node.op->collective; }

// What exchanges hold.
class ExchangedBytes {
 public:
  explicit ExchangedBytes(const Program& program) : program_(program) {}

  // Operands that nodes have made.
  int64_t operands(const Node& node) const {
    int64_t bytes = 0;
    for (const ValueId v : present(node.in)) {
      if (program_.value(v).producer != kNone) bytes += bytes_of(node, v);
    }
    return bytes;
  }
  int64_t results(const Node& node) const {
    int64_t bytes = 0;
    for (const ValueId v : present(node.out)) bytes += bytes_of(node, v);
    return bytes;
  }

 private:
  // State has its place all the time.
  int64_t bytes_of(const Node& node, ValueId v) const {
    return node.op->writes_state ? 0 : program_.value(v).spec.bytes();
  }

  const Program& program_;
};

class StepSimulation {
 public:
  StepSimulation(const Program& program, const ByNode<double>& node_ms, QueueOptions options)
      : program_(program),
        node_ms_(node_ms),
        most_held_(options.most_held),
        early_(options.early),
        slack_part_(options.slack),
        sole_(program.nodes.size(), 0),
        waiting_(program.nodes.size(), 0),
        followers_(program.nodes.size()),
        before_(dependencies_of(program)),
        lanes_(kExchangeQueue + 1),
        operands_waiting_(program.nodes.size(), 0),
        unread_(program.nodes.size(), 0) {
    for (const Node& node : program.nodes) {
      queue_.push_back(is_exchange(node) ? kExchangeQueue : node.queue);
    }
    find_late();
    if (early_ == EarlyOperands::sole) find_sole();
    add_edges();
    rank_nodes();
  }

  QueuedProgram run() {
    for (NodeId n : program_.nodes.ids()) {
      if (waiting_[n] == 0) lane_of(n).ready.push({turn_[n], n});
      if (is_exchange(program_.node(n)) && operands_waiting_[n] == 0) operands_made(n);
    }
    double now = 0;
    while (order_.size() < program_.nodes.size()) {
      // Exchanges first: whether others may go on depends on the one that is under way.
      for (size_t q = lanes_.size(); q-- > 0;) start_next(lanes_[q], now, false);
      Lane* next = first_to_end();
      if (!slack_.empty() && (!next || slack_.top().first <= next->ends)) {
        now = slack_.top().first;
        for (; !slack_.empty() && slack_.top().first <= now; slack_.pop()) {
          release(slack_.top().second);
        }
        continue;
      }
      // Over the limit with nothing under way: the limit gives in.
      for (Lane& lane : lanes_) {
        if (next) break;
        if (start_next(lane, now, true)) next = &lane;
      }
      if (!next) throw ProgramError("[queue_exchanges] nodes wait for each other");
      now = next->ends;
      end(*next);
    }
    return {written(), order_};
  }

 private:
  using Turn = std::pair<int, NodeId>;
  using Earliest = std::priority_queue<Turn, std::vector<Turn>, std::greater<>>;
  struct Lane {
    Earliest ready;
    NodeId running = kNone;
    double ends = 0;
  };

  Lane& lane_of(NodeId n) { return lanes_[queue_[n]]; }

  bool start_next(Lane& lane, double now, bool over_limit) {
    if (lane.running != kNone || lane.ready.empty()) return false;
    const NodeId n = lane.ready.top().second;
    if (!over_limit && must_wait(n)) return false;
    lane.ready.pop();
    lane.running = n, lane.ends = now + node_ms_[n];
    order_.push_back(n);
    for (const NodeId exchange : reads_[n]) {
      held_ -= std::exchange(unread_[exchange], 0);
    }
    if (is_exchange(program_.node(n))) {
      const ExchangedBytes bytes(program_);
      const int64_t results = readers_of_exchange_[n] ? bytes.results(program_.node(n)) : 0;
      unread_[n] = results, held_ += results;
    }
    return true;
  }

  // Whether it would have exchanges hold more than they may.
  bool must_wait(NodeId n) const {
    const Node& node = program_.node(n);
    if (is_exchange(node)) {
      const ExchangedBytes bytes(program_);
      // What gives back as much as it takes is always welcome.
      const int64_t more = bytes.results(node) - bytes.operands(node);
      return more > 0 && held_ > 0 && held_ > most_held_ - more;
    }
    return queue_[n] == kComputeQueue && !late_[n] && held_ > most_held_ &&
           lanes_[kExchangeQueue].running != kNone;
  }

  Lane* first_to_end() {
    Lane* first = nullptr;
    for (Lane& lane : lanes_) {
      if (lane.running != kNone && (!first || lane.ends < first->ends)) first = &lane;
    }
    return first;
  }

  void end(Lane& lane) {
    const NodeId done = std::exchange(lane.running, NodeId(kNone));
    if (is_exchange(program_.node(done))) {
      held_ -= ExchangedBytes(program_).operands(program_.node(done));
    }
    for (const NodeId n : followers_[done]) {
      if (is_exchange(program_.node(done)) && late_[n] && queue_[n] == kComputeQueue) {
        slack_.push({lane.ends + slack_part_ * node_ms_[done], n});
      } else {
        release(n);
      }
    }
    for (const NodeId n : makes_operands_of_[done]) {
      if (--operands_waiting_[n] == 0) operands_made(n);
    }
  }

  // One of those that it follows is done.
  void release(NodeId n) {
    if (--waiting_[n] == 0) lane_of(n).ready.push({turn_[n], n});
  }

  void operands_made(NodeId exchange) {
    held_ += ExchangedBytes(program_).operands(program_.node(exchange));
  }

  // Compute nodes behind an exchange that only lead to updates, outputs and other exchanges.
  void find_late() {
    late_ = ByNode<char>(program_.nodes.size(), 0);
    ByNode<char> behind(program_.nodes.size(), 0), leads_on(program_.nodes.size(), 0);
    const auto each_maker = [&](NodeId n, const auto& use) {
      for (const ValueId v : present(program_.node(n).in)) {
        if (const NodeId maker = program_.value(v).producer; maker != kNone) use(maker);
      }
    };
    for (NodeId n : program_.nodes.ids()) {
      each_maker(n, [&](NodeId maker) {
        behind[n] |= behind[maker] || is_exchange(program_.node(maker));
      });
    }
    for (NodeId n = program_.node_count(); n-- > 0;) {
      const Node& node = program_.node(n);
      const bool ends_here = is_exchange(node) || node.phase == Phase::update;
      const bool is_late = ends_here || (behind[n] && !leads_on[n]);
      late_[n] = behind[n] && is_late;
      if (!is_late) each_maker(n, [&](NodeId maker) { leads_on[maker] = 1; });
    }
  }

  // What runs again, and what forms of maps need, stays behind the node that it was put behind.
  static bool stays(const Node& node) {
    return node.phase != Phase::forward && node.phase != Phase::backward &&
           node.phase != Phase::update;
  }

  void find_sole() {
    ByNode<int> readers(program_.nodes.size(), 0);
    ByNode<NodeId> reader(program_.nodes.size(), kNone);
    for (NodeId n : program_.nodes.ids()) {
      for (const ValueId v : present(program_.node(n).in)) {
        const NodeId maker = program_.value(v).producer;
        if (maker == kNone || reader[maker] == n) continue;
        ++readers[maker], reader[maker] = n;
      }
    }
    for (NodeId n = program_.node_count(); n-- > 0;) {
      const Node& node = program_.node(n);
      if (stays(node) || queue_[n] != kComputeQueue || late_[n] || readers[n] != 1) continue;
      sole_[n] = is_exchange(program_.node(reader[n])) || sole_[reader[n]];
    }
  }

  void follow(NodeId before, NodeId n) {
    followers_[before].push_back(n);
    ++waiting_[n];
  }

  // Besides what a node depends on: queues keep their order, but for late and early nodes.
  void add_edges() {
    const size_t count = program_.nodes.size();
    makes_operands_of_.resize(count), reads_.resize(count), readers_of_exchange_.resize(count, 0);
    std::vector<NodeId> last(lanes_.size(), kNone);
    for (NodeId n : program_.nodes.ids()) {
      const Node& node = program_.node(n);
      for (const NodeId other : before_[n]) follow(other, n);
      for (const ValueId v : present(node.in)) {
        const NodeId maker = program_.value(v).producer;
        if (maker == kNone) continue;
        if (is_exchange(node)) makes_operands_of_[maker].push_back(n), ++operands_waiting_[n];
        if (is_exchange(program_.node(maker))) {
          reads_[n].push_back(maker), readers_of_exchange_[maker] = 1;
        }
      }
      if ((late_[n] || sole_[n]) && queue_[n] == kComputeQueue) continue;
      NodeId& before = last[queue_[n]];
      const bool free = early_ == EarlyOperands::all && queue_[n] == kComputeQueue && !stays(node);
      if (before != kNone && !free) follow(before, n);
      before = n;
    }
  }

  // First those which take what an exchange brought to another exchange, sums of pieces; then what
  // else is late, and sole operands; then the rest in the program's order, or where all operands
  // are made early in that of the first exchange that they lead to.
  void rank_nodes() {
    constexpr int kSums = -2, kLate = -1, kNoExchange = std::numeric_limits<int>::max();
    const size_t count = program_.nodes.size();
    turn_.resize(count, kNoExchange);
    int exchanges = 0;
    for (NodeId n : program_.nodes.ids()) {
      if (is_exchange(program_.node(n))) turn_[n] = exchanges, exchanges += 2;
    }
    ByNode<char> leads_to(count, 0);
    for (NodeId n = program_.node_count(); n-- > 0;) {
      if (is_exchange(program_.node(n))) continue;
      for (const NodeId f : followers_[n]) {
        leads_to[n] |= is_exchange(program_.node(f)) || (late_[f] && leads_to[f]);
        turn_[n] = std::min(turn_[n], turn_[f]);
      }
    }
    for (NodeId n : program_.nodes.ids()) {
      if (is_exchange(program_.node(n))) continue;
      if (turn_[n] == kNoExchange) {
        // No exchange waits for it: it comes behind those beside which it can run.
        turn_[n] = 1;
        for (const NodeId b : before_[n]) turn_[n] = std::max(turn_[n], turn_[b] | 1);
      }
      if (early_ != EarlyOperands::all) turn_[n] = 0;
    }
    for (NodeId n : program_.nodes.ids()) {
      if (late_[n]) turn_[n] = leads_to[n] ? kSums : kLate;
      if (sole_[n]) turn_[n] = kLate;
    }
  }

  // By when they begin. A wait for a node of the same queue has become their order.
  Program written() const {
    ByNode<NodeId> position(program_.nodes.size());
    for (size_t i = 0; i < order_.size(); ++i) position[order_[i]] = NodeId(i);
    Rewriter out(program_);
    for (const NodeId n : order_) {
      Node node = program_.node(n);
      node.queue = queue_[n];
      node.waits = last_on_others(before_[n], node.queue, queue_, position);
      out.replace(n, std::move(node));
    }
    return out.finish();
  }

  const Program& program_;
  const ByNode<double>& node_ms_;
  const int64_t most_held_;
  const EarlyOperands early_;
  const double slack_part_;
  // Late nodes that an exchange is done for, and when they may count on that.
  using Due = std::pair<double, NodeId>;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> slack_;
  int64_t held_ = 0;
  ByNode<QueueId> queue_;
  ByNode<char> sole_;  // with EarlyOperands::sole: those
  ByNode<char> late_;
  ByNode<int> waiting_;  // for how many others
  ByNode<std::vector<NodeId>> followers_;
  const ByNode<std::vector<NodeId>> before_;  // what a node depends on
  ByNode<int> turn_;                          // lower ones first
  std::vector<Lane> lanes_;
  std::vector<NodeId> order_;  // as they began
  // Of exchanges: operands that are not made yet, whom a node makes them for; results that nobody
  // has read yet, whose a node reads, and whether any does.
  ByNode<int> operands_waiting_;
  ByNode<std::vector<NodeId>> makes_operands_of_, reads_;
  ByNode<char> readers_of_exchange_;
  ByNode<int64_t> unread_;
};

}  // namespace

QueuedProgram queue_exchanges(const Program& program, const ByNode<double>& node_ms,
                              QueueOptions options) {
  return StepSimulation(program, node_ms, options).run();
}

int64_t exchanged_bytes(const Program& program) {
  const ExchangedBytes bytes(program);
  int64_t sum = 0;
  for (const Node& node : program.nodes) {
    if (is_exchange(node)) sum += bytes.operands(node) + bytes.results(node);
  }
  return sum;
}

}  // namespace pal
