// The plan: state, inputs, then transients by the best greedy placement.
#include "memory/plan/plan.h"

#include <algorithm>

#include "core/error.h"
#include "memory/storages/lifetimes.h"
#include "memory/storages/storages.h"

namespace pal {

void StateLayout::add(const Program& program) {
  for (const StateSlot& slot : program.state) {
    const Value& value = program.value(slot.start);
    const int64_t bytes = value.spec.bytes();
    if (const Slot* known = find(slot.name)) {
      if (known->bytes != bytes || known->space != value.space) {
        throw ProgramError("state " + slot.name + " has " + std::to_string(known->bytes) +
                           " bytes in the state layout, and " + std::to_string(bytes) + " as " +
                           to_string(value.spec) + ": programs of one set must agree on it");
      }
      continue;
    }
    int64_t& end = bytes_[region_of(value.space)];
    slots_.emplace(slot.name, Slot{end, bytes, value.space});
    end += align_up(bytes);
  }
}

const StateLayout::Slot* StateLayout::find(const std::string& name) const {
  auto at = slots_.find(name);
  return at == slots_.end() ? nullptr : &at->second;
}

Transients transients_of(const Program& program, const Storages& storages, Space space) {
  const ByStorage<Lifetime> lifetimes = lifetimes_of(program, storages);
  Transients out;
  for (StorageId s : storages.list.ids()) {
    const Storage& storage = storages[s];
    if (storage.space != space || !storage.is_transient() || !storage.counted) continue;
    out.buffers.push_back({lifetimes[s].begin, lifetimes[s].end, align_up(storage.bytes)});
    out.storage.push_back(s);
  }
  return out;
}

Plan plan_of_fixed(const Program& program, const Storages& storages, const StateLayout& layout) {
  Plan plan;
  plan.offset.assign(storages.list.size(), 0);
  for (const StateSlot& slot : program.state) {
    const StateLayout::Slot* at = layout.find(slot.name);
    if (!at)
      throw ProgramError("the state layout has no slot " + slot.name + "; add the program to it");
    plan.offset[storages.of[slot.start]] = at->offset;
  }
  for (Space space : {Space::device, Space::host}) {
    Region& region = plan.regions[region_of(space)];
    region.state = layout.bytes(space);
    for (StorageId s : storages.list.ids()) {
      if (!storages[s].input || storages[s].space != space) continue;
      plan.offset[s] = region.state + region.inputs;
      region.inputs += align_up(storages[s].bytes);
    }
  }
  return plan;
}

Plan make_plan(const Program& program, const Storages& storages, const StateLayout& layout,
               int64_t enough, const PlaceEffort& effort) {
  Plan plan = plan_of_fixed(program, storages, layout);
  for (Space space : {Space::device, Space::host}) {
    Region& region = plan.regions[region_of(space)];
    const Transients transients = transients_of(program, storages, space);
    const int64_t left = space == Space::device ? enough - region.transients_begin() : 0;
    const Placement placement = place(transients.buffers, {.enough = left, .effort = effort});
    for (size_t i = 0; i < transients.storage.size(); ++i) {
      plan.offset[transients.storage[i]] = region.transients_begin() + placement.offset[i];
    }
    region.bytes = region.transients_begin() + placement.height;
    region.lower_bound = region.transients_begin() + placement.lower_bound;
    if (space == Space::device) plan.order = placement.order;
  }
  return plan;
}

}  // namespace pal
