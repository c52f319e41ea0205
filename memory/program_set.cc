// Adding programs to a set: compile against the common state, grow the arena, make a runner.
#include "memory/program_set.h"

#include "core/error.h"

namespace pal {

std::byte* Executable::input(const std::string& name) {
  return runner_->data(program().input(name));
}

ProgramSet::ProgramSet(CompileOptions options, const Device& device)
    : options_(std::move(options)), cache_(device), arena_(std::make_unique<Arena>()) {}

void ProgramSet::declare(const Program& program) {
  for (const StateSlot& slot : program.state) {
    const TensorSpec& spec = program.value(slot.start).spec;
    bool known = false;
    for (const StateTensor& have : slots_) {
      if (have.name != slot.name) continue;
      known = true;
      if (!(have.spec == spec)) {
        throw ProgramError("state " + slot.name + " is " + to_string(have.spec) + " in this set; a " +
                           "program asks for " + to_string(spec));
      }
    }
    if (known) continue;
    if (!programs_.empty()) {
      throw ProgramError("state " + slot.name + " was not declared before the first program of the "
                         "set was compiled");
    }
    slots_.push_back({slot.name, slot.role, slot.init, spec, nullptr});
  }
  layout_.add(program);
  arena_->reserve(Space::device, layout_.bytes(Space::device));
  arena_->reserve(Space::host, layout_.bytes(Space::host));
}

Executable& ProgramSet::add(const std::string& name, Program program) {
  declare(program);
  auto made = std::make_unique<Executable>();
  made->compiled_ = std::make_unique<Compiled>(compile(std::move(program), cache_, layout_, options_));
  const Compiled& c = *made->compiled_;
  arena_->reserve(c.plan);
  made->memory_ = std::make_unique<StaticPlan>(c.storages, c.plan, *arena_);
  made->runner_ =
      std::make_unique<Runner>(c.program, c.kernels, c.storages, *made->memory_, cache_.device());
  return *(programs_[name] = std::move(made));
}

Executable* ProgramSet::find(const std::string& name) {
  auto found = programs_.find(name);
  return found == programs_.end() ? nullptr : found->second.get();
}

std::vector<StateTensor> ProgramSet::state() {
  std::vector<StateTensor> out = slots_;
  for (StateTensor& slot : out) {
    const StateLayout::Slot* place = layout_.find(slot.name);
    slot.data = arena_->base(place->space) + place->offset;
  }
  return out;
}

int64_t ProgramSet::arena_bytes() const { return arena_->bytes(Space::device); }

}  // namespace pal
