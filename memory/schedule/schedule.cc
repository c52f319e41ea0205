// The candidates for an order, and the choice among them.
#include "memory/schedule/schedule.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/order.h"
#include "memory/schedule/early_updates.h"
#include "memory/schedule/exact.h"
#include "memory/schedule/list.h"
#include "memory/schedule/moves.h"
#include "memory/schedule/order_graph.h"
#include "memory/schedule/order_peak.h"
#include "memory/storages/lifetimes.h"

namespace pal {
namespace {

constexpr int kRefinements = 3;  // of the best list schedule, by guiding others with it

// How many orders the local moves may look at: what 20,000 nodes leave time for.
int move_tries(NodeId nodes) {
  return std::clamp(4'000'000 / std::max<int32_t>(nodes, 1), 100, 1000);
}
// Sets of nodes that the exact search may look at; each costs time in proportion to the nodes.
int64_t most_states(NodeId nodes) { return 20'000'000 / std::max<int32_t>(nodes, 20); }

struct Candidate {
  std::string name;
  std::vector<NodeId> order;
  int64_t bytes = 0;
};

ByNode<int64_t> permuted(const ByNode<int64_t>& bytes, const std::vector<NodeId>& order) {
  ByNode<int64_t> out;
  if (bytes.empty()) return out;
  for (NodeId n : order) out.push_back(bytes[n]);
  return out;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (auto& part : parts) {
    if (!part.empty()) out += (out.empty() ? "" : "; ") + part;
  }
  return out;
}

class Portfolio {
 public:
  Portfolio(const OrderGraph& graph, OrderPeak& peak) : graph_(graph), peak_(peak) {
    for (const Node& node : graph.program.nodes) clones_ |= comes_late(node);
  }

  Candidate run() {
    const std::vector<NodeId> recorded = recorded_order();
    best_ = {"program order", recorded, peak_(recorded)};
    const std::vector<NodeId> early = early_updates_order(graph_.program);
    consider("early updates", early);
    using Pick = ListRule::Pick;
    // A slack that lets through what is too small to matter, such as a chunk's part of the loss.
    const int64_t slack = best_.bytes / 4096;
    for (auto& [name, guide] :
         {std::pair{"", &recorded}, std::pair{" after early updates", &early}}) {
      if (name[0] && early == recorded) break;
      for (bool from_end : {false, true}) {
        const std::string what = std::string(from_end ? "late" : "eager") + name;
        list(what, {.from_end = from_end, .eager = true}, *guide);
        list(what, {.from_end = from_end, .eager = true, .slack = slack}, *guide);
      }
    }
    for (auto& [name, pick] :
         {std::pair{"greedy", Pick::bytes}, std::pair{"depth-first", Pick::depth},
          std::pair{"breadth-first", Pick::breadth}}) {
      list(name, {.pick = pick, .eager = true}, recorded);
      list(name + std::string(" from the end"), {.pick = pick, .from_end = true, .eager = true},
           recorded);
    }
    for (int round = 0; round < kRefinements; ++round) {
      const Candidate guide = best_;
      for (bool from_end : {false, true}) {
        list(guide.name + (from_end ? ", late" : ", eager"),
             {.from_end = from_end, .eager = true, .slack = slack}, guide.order);
      }
      if (best_.bytes == guide.bytes) break;
    }
    return std::move(best_);
  }

 private:
  std::vector<NodeId> recorded_order() const {
    std::vector<NodeId> order(size_t(graph_.nodes()));
    std::iota(order.begin(), order.end(), 0);
    return order;
  }
  void list(const std::string& name, const ListRule& rule, const std::vector<NodeId>& guide) {
    consider(name, list_schedule(graph_, rule, guide));
  }
  void consider(const std::string& name, std::vector<NodeId> order) {
    if (clones_) order = with_late_clones(graph_, order);
    const int64_t bytes = peak_(order);
    if (bytes < best_.bytes) best_ = {name, std::move(order), bytes};
  }

  const OrderGraph& graph_;
  OrderPeak& peak_;
  bool clones_ = false;
  Candidate best_;
};

std::string plural(int count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace

const char* to_string(Schedule method) { return names(method)[size_t(method)]; }

Program schedule(const Program& program, Schedule method, std::string* note,
                 const ByNode<int64_t>& workspace_bytes, const StorageOptions& options,
                 int64_t* peak_after) {
  std::string ignored;
  std::string& said = note ? *note : ignored;
  const int64_t before = peak_bytes(program, workspace_bytes, options);
  if (peak_after) *peak_after = before;
  if (method == Schedule::program) {
    said = "program order";
    return program;
  }
  const OrderGraph graph(program, workspace_bytes, options);
  OrderPeak peak(graph);
  Candidate best = Portfolio(graph, peak).run();
  std::string moves, exact;
  const MovesEffect effect = move_at_peak(graph, peak, best.order, move_tries(graph.nodes()));
  if (effect.made > 0) moves = plural(effect.made, "move") + " at the peak";
  best.bytes = peak(best.order);

  if (method == Schedule::exact) {
    const ExactOrder found = exact_order(graph, best.order, most_states(graph.nodes()));
    exact = graph.nodes() > kExactNodes
                ? "too large for exact: more than " + std::to_string(kExactNodes) + " nodes"
            : !found.proved ? "exact gave up after " + std::to_string(found.states) + " states"
            : graph.plain   ? "proved least"
                            : "proved least but for operands that may lie in a stack";
    if (const int64_t bytes = peak(found.order); bytes < best.bytes) {
      best = {"exact order", found.order, bytes}, moves = "";
    }
  }

  const std::string blocked = early_updates_blocked(program);
  auto as_recorded = [&] {
    said = joined({"program order", exact, blocked});
    return program;
  };
  if (std::is_sorted(best.order.begin(), best.order.end())) return as_recorded();
  Program out = permuted(program, best.order);
  // The last word has the true peak; the search's is the same but where a value is gathered twice.
  const int64_t after = peak_bytes(out, permuted(workspace_bytes, best.order), options);
  if (after >= before) return as_recorded();
  if (peak_after) *peak_after = after;
  const int updates = updates_moved(program, best.order);
  const std::string moved = updates ? plural(updates, "update") + " moved" : "";
  said = joined({best.name, moved, moves, exact, blocked});
  return out;
}

Program schedule_early_updates(const Program& program, std::string* note,
                               const ByNode<int64_t>& workspace_bytes,
                               const StorageOptions& options, int64_t* peak) {
  const int64_t before = peak_bytes(program, workspace_bytes, options);
  if (peak) *peak = before;
  const std::vector<NodeId> order = early_updates_order(program);
  const std::string blocked = early_updates_blocked(program);
  auto keep = [&](const char* why) {
    if (note) *note = blocked.empty() ? why : blocked;
    return program;
  };
  if (std::is_sorted(order.begin(), order.end())) return keep("nothing to move");
  Program out = permuted(program, order);
  const int64_t after = peak_bytes(out, permuted(workspace_bytes, order), options);
  if (after > before) return keep("early updates would raise the peak: order kept");
  if (peak) *peak = after;
  const int moved = updates_moved(program, order);
  const std::string updates = plural(moved, "update") + " moved";
  if (note) *note = joined({moved || blocked.empty() ? updates : "", blocked});
  return out;
}

}  // namespace pal
