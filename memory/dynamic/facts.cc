// One walk over the nodes for each kind of fact.
#include "memory/dynamic/facts.h"

#include <algorithm>
#include <limits>

#include "core/op.h"
#include "memory/storages/storages.h"

namespace pal {
namespace {

constexpr NodeId kForever = std::numeric_limits<NodeId>::max();

void add_once(std::vector<StorageId>& list, StorageId s) {
  if (std::find(list.begin(), list.end(), s) == list.end()) list.push_back(s);
}

}  // namespace

StepFacts::StepFacts(const Program& p, const Storages& storages_of_p, const DeviceProfile& device)
    : program(p), storages(storages_of_p), device_(device) {
  const size_t count = storages.list.size();
  bytes.assign(count, 0), last_use.assign(count, kNone), remakable.resize(count);
  parents.resize(count), children.resize(count);
  uses.resize(count), touches.resize(p.nodes.size()), reads.resize(p.nodes.size());
  writes.resize(p.nodes.size());
  for (StorageId s : storages.list.ids()) {
    const Storage& storage = storages[s];
    if (!storage.is_transient() || storage.space != Space::device) continue;
    (storage.output ? fixed_bytes : bytes[s]) += align_up(storage.bytes);
  }
  writers = writers_of(p, storages);
  is_free.assign(p.nodes.size(), 1);
  for (StorageId s : writers.ids()) {
    if (storages[s].workspace_of != kNone) writers[s].clear();  // holds nothing between nodes
    for (NodeId n : writers[s]) {
      is_free[n] = 0;
      if (comes_and_goes(s)) writes[n].push_back(s);
    }
  }
  const Prediction times = predict(p, device, &storages);
  ms = times.node_ms, step_ms = times.step_ms;
  for (NodeId n : p.nodes.ids()) {
    if (is_free[n]) continue;
    const Node& node = p.node(n);
    for (ValueId v : present(node.in)) {
      if (comes_and_goes(storages.of[v])) add_once(reads[n], storages.of[v]);
    }
    touches[n] = reads[n];
    for (ValueId v : present(node.out)) {
      if (comes_and_goes(storages.of[v])) add_once(touches[n], storages.of[v]);
    }
    const StorageId workspace = storages.workspace[n];
    if (workspace != kNone && comes_and_goes(workspace)) touches[n].push_back(workspace);
    for (StorageId s : writes[n]) {
      for (StorageId o : reads[n]) {
        if (o != s) add_once(parents[s], o), add_once(children[o], s);
      }
    }
    int64_t need = 0;
    for (StorageId s : touches[n]) need += bytes[s], uses[s].push_back(n), last_use[s] = n;
    if (need > largest_bytes) largest_bytes = need, largest = n;
  }
  find_remakable();
}

double StepFacts::copy_ms(StorageId s) const {
  const auto moved = double(storages[s].bytes);
  return time_ms({.bytes = moved, .host_bytes = moved}, device_);
}

double StepFacts::move_ms(StorageId s) const {
  return time_ms({.bytes = 2 * double(storages[s].bytes)}, device_);
}

// A node can run again as long as nothing has been written over what it reads, and what it reads
// is there or can be made again.
void StepFacts::find_remakable() {
  ByStorage<size_t> done(storages.list.size(), 0);  // writers so far
  for (NodeId n : program.nodes.ids()) {
    const Node& node = program.node(n);
    bool can = true;
    for (ValueId v : present(node.out)) can &= program.value(v).role != Role::gate;
    for (StorageId s : writes[n]) {
      NodeId until = can ? kForever : NodeId(kNone);
      if (done[s] > 0) until = std::min(until, remakable[s].back());
      for (ValueId v : present(node.in)) {
        const StorageId o = storages.of[v];
        if (o == s) continue;
        const auto next = std::lower_bound(writers[o].begin(), writers[o].end(), n);
        if (next != writers[o].end()) until = std::min(until, *next);
        if (!comes_and_goes(o)) continue;
        const NodeId made = done[o] > 0 ? remakable[o][done[o] - 1] : NodeId(kNone);
        until = std::min(until, std::max(last_use[o], made));
      }
      remakable[s].push_back(until);
    }
    for (StorageId s : writes[n]) ++done[s];
  }
}

}  // namespace pal
