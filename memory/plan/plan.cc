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

int64_t bytes_of_inputs(const Program& program, Space space) {
  int64_t bytes = 0;
  for (const NamedValue& input : program.inputs) {
    const Value& value = program.value(input.value);
    if (value.space == space) bytes += align_up(value.spec.bytes());
  }
  return bytes;
}

void StateLayout::make_room_for_inputs(const Program& program) {
  for (const Space space : {Space::device, Space::host}) {
    int64_t& room = inputs_[region_of(space)];
    room = std::max(room, bytes_of_inputs(program, space));
  }
}

StateLayout StateLayout::with_own_inputs() const {
  StateLayout out = *this;
  out.inputs_ = {};
  return out;
}

int64_t StateLayout::spare_inputs(const Program& program) const {
  return 2 * std::max<int64_t>(inputs() - bytes_of_inputs(program, Space::device), 0);
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
    region.inputs = std::max(region.inputs, layout.inputs(space));
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
