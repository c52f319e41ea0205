// The slab, what may be made again, and who has to go.
#include "memory/run/dynamic.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "core/error.h"
#include "core/op.h"
#include "core/order.h"
#include "memory/storages/storages.h"

namespace pal {
namespace {

constexpr NodeId kForever = std::numeric_limits<NodeId>::max();
// Nodes run again to bring one storage back: more would pin too much at once.
constexpr int kDeepest = 4;

// State and inputs (one slot) on the device.
int64_t fixed_bytes(const Storages& storages, const StateLayout& layout) {
  int64_t bytes = layout.bytes();
  for (const Storage& s : storages.list) {
    if (s.input && s.space == Space::device) bytes += align_up(s.bytes);
  }
  return bytes;
}

bool in_slab(const Storage& s) { return s.is_transient() && s.space == Space::device; }

}  // namespace

Dynamic::Dynamic(const Program& program, const Storages& storages, const StateLayout& layout,
                 Arena& arena, const DynamicOptions& options)
    : program_(program),
      storages_(storages),
      arena_(arena),
      options_(options),
      facts_(storages.list.size()),
      live_(storages.list.size()),
      made_of_(storages.list.size()) {
  if (queue_count(program) > 1) {
    throw ProgramError(
        "the dynamic memory manager runs programs on one queue; use memory.manager: "
        "static for programs that swap");
  }
  const int64_t least = smallest_budget(program, storages, layout);
  if (options.budget < least) {
    throw BudgetError("the budget of " + std::to_string(options.budget) + " bytes is " +
                      std::to_string(least - options.budget) +
                      " short of what state, inputs and the largest node need (" +
                      std::to_string(least) + "); use a smaller batch or a larger memory.budget");
  }
  learn(layout);
  learn_makers();
  arena_.reserve(Space::device, options.budget);
}

int64_t Dynamic::smallest_budget(const Program& program, const Storages& storages,
                                 const StateLayout& layout) {
  ByNode<int64_t> need(program.nodes.size(), 0);
  const auto touches = touches_of(program, storages);
  for (StorageId s : touches.ids()) {
    if (!in_slab(storages[s])) continue;
    for (NodeId n : touches[s]) need[n] += align_up(storages[s].bytes);
  }
  const int64_t most = need.empty() ? 0 : *std::max_element(need.begin(), need.end());
  return fixed_bytes(storages, layout) + most;
}

void Dynamic::learn(const StateLayout& layout) {
  const auto touches = touches_of(program_, storages_);
  int64_t input = layout.bytes(), host = layout.bytes(Space::host);
  for (StorageId i : facts_.ids()) {
    const Storage& s = storages_[i];
    facts_[i].fixed = !in_slab(s);
    facts_[i].last_use = s.output ? kForever : touches[i].empty() ? kNone : touches[i].back();
    if (s.persistent || !facts_[i].fixed) continue;
    int64_t& end = s.space == Space::host ? host : input;
    live_[i].offset = end;
    end += align_up(s.bytes);
  }
  for (auto& slot : program_.state) {
    const StateLayout::Slot* at = layout.find(slot.name);
    if (!at) throw ProgramError("the state layout has no slot " + slot.name);
    live_[storages_.of[slot.start]].offset = at->offset;
  }
  fixed_bytes_ = fixed_bytes(storages_, layout);
  arena_.reserve(Space::host, host);
}

void Dynamic::learn_makers() {
  const auto writers = writers_of(program_, storages_);
  ByStorage<NodeId> valid_until(facts_.size(), kNone);
  ByStorage<int> depth(facts_.size(), 0);
  ByNode<std::vector<StorageId>> made_at(program_.nodes.size());
  for (StorageId s : facts_.ids()) {
    const bool can = !facts_[s].fixed && !storages_[s].output && writers[s].size() == 1 &&
                     storages_[s].workspace_of == kNone;
    if (can) made_at[writers[s][0]].push_back(s);
  }
  for (NodeId n : program_.nodes.ids()) {
    const Node& node = program_.node(n);
    bool can = !made_at[n].empty() && !node.op->writes_state;
    for (ValueId v : present(node.out)) {
      // Running it again must not touch what others have written since into its other outputs.
      auto& list = writers[storages_.of[v]];
      can &= list.size() == 1 || std::find(list.begin(), list.end(), n) == list.end();
      can &= program_.value(v).role != Role::gate;
    }
    if (!can) continue;
    NodeId until = kForever;
    std::vector<StorageId> operands;
    for (ValueId v : present(node.in)) {
      const StorageId o = storages_.of[v];
      operands.push_back(o);
      auto next = std::upper_bound(writers[o].begin(), writers[o].end(), n);
      if (next != writers[o].end()) until = std::min(until, *next);
      if (facts_[o].fixed) continue;
      const NodeId made = facts_[o].maker == kNone ? NodeId() : valid_until[o];
      until = std::min(until, std::max(facts_[o].last_use, made));
    }
    const Cost cost = cost_of(program_, node);
    for (StorageId s : made_at[n]) {
      Facts& facts = facts_[s];
      valid_until[s] = until;
      depth[s] = 1;
      for (StorageId o : operands) {
        const bool dies = !facts_[o].fixed && facts_[o].last_use < facts.last_use;
        if (dies) depth[s] = std::max(depth[s], 1 + depth[o]);
      }
      if (until < facts.last_use || depth[s] > kDeepest) continue;
      facts.maker = n;
      facts.cost = cost.flops / options_.flops_per_s + cost.bytes / options_.bytes_per_s;
      made_of_[s] = operands;
    }
  }
}

void Dynamic::begin_step(Replayer& replayer) {
  replayer_ = &replayer;
  replaying_.clear();
  done_ = kNone, in_use_ = 0, clock_ = 0;
  slab_ = Gaps(fixed_bytes_, options_.budget / kAlignment * kAlignment);
  for (StorageId s : live_.ids()) {
    if (!facts_[s].fixed) live_[s].where = Where::unborn, live_[s].pins = 0;
  }
}

bool Dynamic::still_needed(StorageId s) const { return facts_[s].last_use > done_; }

bool Dynamic::makes(StorageId s) const {
  if (replaying_.empty()) return false;
  const NodeId n = replaying_.back();
  if (storages_[s].workspace_of == n) return true;
  const Node& node = program_.node(n);
  auto is_in = [&](const std::vector<ValueId>& list) {
    return std::any_of(list.begin(), list.end(),
                       [&](ValueId v) { return v != kNone && storages_.of[v] == s; });
  };
  return is_in(node.out) && !is_in(node.in);
}

std::byte* Dynamic::acquire(StorageId id, QueueId) {
  Live& h = live_[id];
  std::byte* base = arena_.base(storages_[id].space);
  if (facts_[id].fixed) return base + h.offset;
  if (h.where == Where::unborn || (h.where != Where::slab && makes(id))) {
    h.offset = take(id);
    h.where = Where::slab;
  } else if (h.where == Where::host) {
    h.offset = take(id);
    std::memcpy(base + h.offset, h.copy.get(), size_t(storages_[id].bytes));
    h.where = Where::slab;
    ++stats_.reloads;
  } else if (h.where != Where::slab) {
    bring_back(id);
  }
  ++h.pins;
  return base + h.offset;
}

void Dynamic::bring_back(StorageId id) {
  Live& h = live_[id];
  const NodeId maker = facts_[id].maker;
  if (maker == kNone) {
    throw ProgramError("the dynamic memory manager lost " + name_of(program_, storages_, id));
  }
  h.offset = take(id);
  h.where = Where::slab;
  ++h.pins;
  replaying_.push_back(maker);
  replayer_->replay(maker);
  replaying_.pop_back();
  --h.pins;
  ++stats_.replays;
}

void Dynamic::release(StorageId id, QueueId) {
  Live& h = live_[id];
  if (facts_[id].fixed) return;
  h.used_at = ++clock_;
  if (--h.pins == 0 && !still_needed(id)) drop(id, Where::dead);
}

void Dynamic::after_node(NodeId node, QueueId) { done_ = node; }

void Dynamic::drop(StorageId id, Where where) {
  Live& h = live_[id];
  const int64_t bytes = align_up(storages_[id].bytes);
  if (bytes > 0) slab_.give_back(h.offset, h.offset + bytes);
  in_use_ -= bytes;
  h.where = where;
}

int64_t Dynamic::take(StorageId id) {
  const int64_t bytes = align_up(storages_[id].bytes);
  for (;;) {
    const int64_t at = bytes == 0 ? fixed_bytes_ : slab_.take(bytes);
    if (at >= 0) {
      in_use_ += bytes;
      stats_.peak = std::max(stats_.peak, fixed_bytes_ + in_use_);
      return at;
    }
    if (!evict_one()) {
      throw BudgetError("the budget of " + std::to_string(options_.budget) + " bytes has no " +
                        std::to_string(bytes) + " in one piece for " +
                        name_of(program_, storages_, id) + ": " + std::to_string(fixed_bytes_) +
                        " are state and inputs, " + std::to_string(in_use_) +
                        " are in use by running nodes; raise memory.budget");
    }
  }
}

// The nodes to run before the storage is back, as the length of the longest chain; adds their cost.
int Dynamic::closure(StorageId id, double* cost, int depth) const {
  *cost += facts_[id].cost;
  if (depth >= kDeepest) return depth + 1;
  int deepest = depth;
  for (StorageId o : made_of_[id]) {
    const Where where = live_[o].where;
    if (facts_[o].fixed || where == Where::slab || where == Where::host) continue;
    deepest = std::max(deepest, closure(o, cost, depth + 1));
  }
  return deepest;
}

bool Dynamic::evict_one() {
  // Dropping what a dropped storage is made of would lengthen the chain behind its back.
  ByStorage<char> wanted(live_.size(), 0);
  for (StorageId s : live_.ids()) {
    if (facts_[s].fixed || live_[s].where != Where::dropped) continue;
    for (StorageId o : made_of_[s]) wanted[o] = 1;
  }
  StorageId victim = kNone;
  bool rerun = false;
  double lowest = 0;
  for (StorageId s : live_.ids()) {
    const Live& h = live_[s];
    const int64_t bytes = storages_[s].bytes;
    if (facts_[s].fixed || h.where != Where::slab || h.pins > 0 || bytes == 0) continue;
    double again = 0;
    const bool can = options_.recompute && facts_[s].maker != kNone && !wanted[s] &&
                     closure(s, &again, 1) <= kDeepest;
    const double copies = 2 * double(bytes) / options_.host_bytes_per_s;
    const bool by_rerun = can && (!options_.offload || again <= copies);
    const double staleness = double(clock_ - h.used_at + 1);
    const double value = (by_rerun ? again : copies) / (double(bytes) * staleness);
    if (victim == kNone || value < lowest) victim = s, lowest = value, rerun = by_rerun;
  }
  if (victim == kNone) return false;
  ++stats_.evictions;
  if (!rerun) {
    Live& h = live_[victim];
    const size_t bytes = size_t(storages_[victim].bytes);
    if (!h.copy) h.copy = std::make_unique<std::byte[]>(bytes);
    std::memcpy(h.copy.get(), arena_.base(Space::device) + h.offset, bytes);
    ++stats_.offloads;
  }
  drop(victim, rerun ? Where::dropped : Where::host);
  return true;
}

std::byte* Dynamic::outside_step(StorageId id) {
  const Live& h = live_[id];
  if (facts_[id].fixed || h.where == Where::slab) {
    return arena_.base(storages_[id].space) + h.offset;
  }
  if (h.where == Where::host) return h.copy.get();
  throw ProgramError(name_of(program_, storages_, id) +
                     " is not there outside a step: it is no input, state or output");
}

}  // namespace pal
