// A memory in which a program's state, inputs and outputs have planned places in an arena.
#pragma once
#include "core/memory.h"

namespace pal {

class PlannedMemory : public Memory {
 public:
  // Of the arena. State and inputs lie in it as the plan has placed them.
  virtual std::byte* base(Space space) const = 0;
  // The slot, 0 or 1, that steps read inputs from; a prefetcher fills the other meanwhile.
  void set_input_slot(int slot) { slot_ = slot; }
  int input_slot() const { return slot_; }

 private:
  int slot_ = 0;
};

}  // namespace pal
