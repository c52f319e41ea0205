// Where every storage lies: (region, offset), and the check that it may lie there.
//
// The device arena, from its front: the state (the same for all programs of a set), the inputs in
// two slots (of a common size, where programs of a set take turns on an accelerator), then
// everything that lives and dies within the step. Host copies have a region of their own, laid out
// likewise.
#pragma once
#include <array>
#include <map>
#include <string>
#include <vector>

#include "core/memory.h"
#include "core/program.h"
#include "memory/place/place.h"

namespace pal {

constexpr int kRegions = 2;  // by Space: the device arena, host memory
inline size_t region_of(Space space) { return size_t(space); }

// State by name, at the arena's front, and how large a slot of inputs is at least. Programs that
// share state share a layout.
class StateLayout {
 public:
  struct Slot {
    int64_t offset = 0, bytes = 0;
    Space space = Space::device;
  };

  StateLayout() = default;
  explicit StateLayout(const Program& program) { add(program); }

  // Appends the program's slots that are not there yet. ProgramError when a slot that is there has
  // another size.
  void add(const Program& program);
  const Slot* find(const std::string& name) const;
  int64_t bytes(Space space = Space::device) const { return bytes_[region_of(space)]; }

  // Slots of inputs have room for this program's from here on. Programs with slots of one size may
  // have their inputs written while another one runs.
  void make_room_for_inputs(const Program& program);
  int64_t inputs(Space space = Space::device) const { return inputs_[region_of(space)]; }
  // The same state, and slots as large as each program's own inputs.
  StateLayout with_own_inputs() const;
  // Bytes of both slots that this program does not use.
  int64_t spare_inputs(const Program& program) const;

 private:
  std::map<std::string, Slot> slots_;
  std::array<int64_t, kRegions> bytes_{}, inputs_{};
};
// Of one slot.
int64_t bytes_of_inputs(const Program& program, Space space);

struct Region {
  int64_t bytes = 0;        // all of it: state, inputs, transients
  int64_t state = 0;        // the state's bytes, at the front
  int64_t inputs = 0;       // of one slot, room to spare included; the second lies behind the first
  int64_t lower_bound = 0;  // state, inputs, and the most transients alive at once
  int64_t transients_begin() const { return state + 2 * inputs; }
  // The part of the region that packing wasted.
  double fragmentation() const { return bytes ? double(bytes - lower_bound) / double(bytes) : 0; }
};

struct Plan {
  ByStorage<int64_t> offset;  // into its region; of inputs in slot 0
  std::array<Region, kRegions> regions{};
  const char* order = "";  // the placement order that won on the device

  const Region& device() const { return regions[region_of(Space::device)]; }
  const Region& host() const { return regions[region_of(Space::host)]; }
};

// What is to be placed in a region: all that lives and dies within the step, and is counted.
struct Transients {
  std::vector<Buffer> buffers;
  std::vector<StorageId> storage;  // by buffer
};
Transients transients_of(const Program& program, const Storages& storages, Space space);

// State and inputs alone, where every plan has them. ProgramError when the layout lacks one of the
// program's state slots.
Plan plan_of_fixed(const Program& program, const Storages& storages, const StateLayout& layout);

// Places the program's storages. `enough`: placement stops improving once the device's region fits
// this many bytes.
Plan make_plan(const Program& program, const Storages& storages, const StateLayout& layout,
               int64_t enough = 0, const PlaceEffort& effort = {});

// Checks the plan without the planner's lifetimes: follows every byte of every region through the
// step and asserts that each node reads what was written for it, that nothing reads or writes bytes
// before the queues have settled who comes first, that state and outputs are whole at the end, and
// that inputs (both slots) and foreign state are left alone. ProgramError names both values.
void check_plan(const Program& program, const Storages& storages, const Plan& plan);

}  // namespace pal
