// Adding programs to a set: compile against the common state, grow the arena, make a runner.
#include "memory/run/program_set.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "memory/overlap/join.h"

namespace pal {
namespace {

constexpr QueueId kInputQueue = 255;  // beside the queues of programs, which count from 0

}  // namespace

std::byte* StateMirror::fetch(int64_t bytes) {
  accelerator_->synchronize();
  const int64_t have = int64_t(copy_.size());
  copy_.resize(size_t(bytes));
  const int64_t from = fetched_ ? have : 0;  // what was fetched may have been written to since
  accelerator_->copy(kComputeQueue, copy_.data() + from, arena_.base(Space::device) + from,
                     bytes - from);
  accelerator_->synchronize();
  fetched_ = true;
  return copy_.data();
}

void StateMirror::send() {
  if (!fetched_) return;
  accelerator_->copy(kComputeQueue, arena_.base(Space::device), copy_.data(),
                     int64_t(copy_.size()));
  accelerator_->synchronize();  // the copy may be fetched into again
  fetched_ = false;
}

void Turns::admit(Executable& program) {
  program.last_run_ = runs_;
  if (!program.to_be_recorded_) return;
  if (std::find(recorded_.begin(), recorded_.end(), &program) != recorded_.end()) return;
  if (recorded_.size() < kMostRecorded) {
    recorded_.push_back(&program);
  } else {
    const auto oldest = std::min_element(
        recorded_.begin(), recorded_.end(),
        [](const Executable* a, const Executable* b) { return a->last_run_ < b->last_run_; });
    if (runs_ - (*oldest)->last_run_ < kLongUnused) return;
    accelerator_.synchronize();  // it may be running
    (*oldest)->runner_->set_recording(false);
    *oldest = &program;
  }
  program.runner_->set_recording(true);
}

std::string Executable::in_program(const std::string& name) const {
  return part_ == kNone ? name : name_in_pair(part_, name);
}

const TensorSpec& Executable::input_spec(const std::string& name) const {
  return program().value(program().input(in_program(name))).spec;
}

std::byte* Executable::input(const std::string& name) {
  const ValueId value = program().input(in_program(name));
  if (!accelerator_) return runner_->data(value);
  const Storages& storages = compiled_->storages;
  const StorageId id = storages.of[value];
  const int64_t within = storages.offset[value];
  if (storages[id].space == Space::host) {
    return host_inputs_.data() + compiled_->plan.offset[id] - compiled_->plan.host().state + within;
  }
  accelerator_->wait(sent_);
  return staging_->base(Space::host) + compiled_->plan.offset[id] - compiled_->plan.device().state +
         within;
}

void Executable::run() {
  if (!accelerator_) return runner_->run();
  const Region &region = compiled_->plan.device(), &host = compiled_->plan.host();
  const int slot = turns_->slot();
  brought_at_.clear();
  state_->send();
  send_kept();
  if (!host_inputs_.empty()) {
    accelerator_->wait(turns_->before_inputs(Space::host, compiled_->plan));
    std::memcpy(memory_->base(Space::host) + host.state + slot * host.inputs, host_inputs_.data(),
                host_inputs_.size());
  }
  if (const int64_t bytes = staging_->bytes(Space::host); bytes > 0) {
    accelerator_->wait(kInputQueue, turns_->before_inputs(Space::device, compiled_->plan));
    accelerator_->copy(kInputQueue,
                       memory_->base(Space::device) + region.state + slot * region.inputs,
                       staging_->base(Space::host), bytes);
    accelerator_->record(sent_, kInputQueue);
    accelerator_->wait(kComputeQueue, sent_);
  }
  memory_->set_input_slot(slot);
  runner_->use_recording(slot);
  turns_->admit(*this);
  const Accelerator::Event& end = turns_->begin(compiled_->plan);
  runner_->run();
  accelerator_->record(end, kComputeQueue);
}

std::byte* Executable::output_bytes(const std::string& name) {
  const ValueId value = program().output(in_program(name));
  std::byte* const data = runner_->data(value);
  if (!accelerator_) return data;
  if (program().value(value).space == Space::host) {
    accelerator_->wait(turns_->end_of_last());
    return data;
  }
  if (const auto at = brought_at_.find(in_program(name)); at != brought_at_.end()) {
    return brought_->base(Space::host) + at->second;
  }
  std::vector<std::byte>& copy = fetched_[in_program(name)];
  copy.resize(size_t(program().value(value).spec.bytes()));
  accelerator_->copy(kComputeQueue, copy.data(), data, int64_t(copy.size()));
  accelerator_->synchronize();
  return copy.data();
}

std::span<std::byte> Executable::kept(const std::string& name) {
  const auto slot = std::find_if(program().state.begin(), program().state.end(),
                                 [&](const StateSlot& s) { return s.name == name; });
  if (slot == program().state.end()) throw ProgramError("the program keeps no state " + name);
  const auto bytes = size_t(program().value(slot->start).spec.bytes());
  if (!accelerator_) return {runner_->data(slot->start), bytes};
  std::vector<std::byte>& copy = kept_[slot->start];
  copy.resize(bytes);
  return copy;
}

void Executable::send_kept() {
  if (kept_.empty()) return;
  for (const auto& [value, bytes] : kept_) {
    accelerator_->copy(kComputeQueue, runner_->data(value), bytes.data(), int64_t(bytes.size()));
  }
  accelerator_->synchronize();  // of pageable memory
  kept_.clear();
}

void Executable::fetch(const std::vector<std::string>& names) {
  if (!accelerator_) return;
  brought_at_.clear();
  int64_t bytes = 0;
  for (const std::string& name : names) {
    const Value& value = program().value(program().output(in_program(name)));
    if (value.space == Space::host) continue;
    brought_at_[in_program(name)] = bytes;
    bytes += align_up(value.spec.bytes());
  }
  brought_->reserve(Space::host, bytes, 0);
  for (const auto& [name, at] : brought_at_) {
    const ValueId value = program().output(name);
    accelerator_->copy(kComputeQueue, brought_->base(Space::host) + at, runner_->data(value),
                       program().value(value).spec.bytes());
  }
  accelerator_->record(brought_now_, kComputeQueue);
  accelerator_->wait(brought_now_);
}

void Executable::send_output(const std::string& name, std::byte* to) {
  const ValueId value = program().output(in_program(name));
  accelerator_->copy(kComputeQueue, to, runner_->data(value), program().value(value).spec.bytes());
  // The run ends here: the inputs of a program with other slots may lie over this output.
  accelerator_->record(turns_->end_of_last(), kComputeQueue);
}

StaticPlan& Executable::memory() {
  if (auto* plan = dynamic_cast<StaticPlan*>(memory_.get())) return *plan;
  throw ProgramError("the program's bytes lie in a pool, and have no plan of their own");
}

ProgramSet::ProgramSet(CompileOptions options, const Device& device, PoolShare share)
    : options_(std::move(options)),
      share_(std::move(share)),
      cache_(device),
      arena_(std::make_unique<Arena>(device.accelerator)) {
  if (options_.profile) options_.profile->elsewhere = false;  // what is compiled here runs here
  if (!device.accelerator || share_.pool) options_.branch_device.reset();
  if (!device.accelerator) return;
  mirror_ = std::make_shared<StateMirror>(device.accelerator, *arena_);
  turns_ = std::make_shared<Turns>(*device.accelerator);
}

void ProgramSet::check_declared(const Program& program) const {
  for (const StateSlot& slot : program.state) {
    const TensorSpec& spec = program.value(slot.start).spec;
    for (const StateTensor& have : slots_) {
      if (have.name != slot.name || have.spec == spec) continue;
      throw ProgramError("state " + slot.name + " is " + to_string(have.spec) +
                         " in this set; a program asks for " + to_string(spec));
    }
  }
}

void ProgramSet::declare(const Program& program) {
  check_declared(program);
  for (const StateSlot& slot : program.state) {
    if (layout_.find(slot.name)) continue;
    if (!programs_.empty()) {
      throw ProgramError("state " + slot.name +
                         " was not declared before the first program of the set was compiled");
    }
    slots_.push_back({slot.name, slot.role, slot.init, program.value(slot.start).spec, nullptr});
  }
  layout_.add(program);
  arena_->reserve(Space::device, layout_.bytes(Space::device));
  arena_->reserve(Space::host, layout_.bytes(Space::host));
}

void ProgramSet::make_room_for_inputs(const Program& program) {
  if (device().accelerator) layout_.make_room_for_inputs(program);
}

Compiled ProgramSet::compile_within(const StateLayout& layout, const Program& program,
                                    const CompileOptions& options) {
  try {
    return compile(program, cache_, layout, options);
  } catch (const BudgetError&) {
    if (layout.spare_inputs(program) == 0) throw;
    return compile(program, cache_, layout.with_own_inputs(), options);  // it waits instead
  }
}

Executable& ProgramSet::add(const std::string& name, Program program,
                            const CompileOptions& options) {
  if (rewrite_) program = rewrite_(std::move(program));
  declare(program);
  return install(name, std::make_unique<Compiled>(compile_within(layout_, program, options)));
}

Executable& ProgramSet::add_keeping(const std::string& name, Program program) {
  if (rewrite_) program = rewrite_(std::move(program));
  check_declared(program);
  StateLayout layout = layout_;
  layout.add(program);
  return install(name, std::make_unique<Compiled>(compile_within(layout, program, options_)));
}

Executable& ProgramSet::add_pair(const std::string& name, const Program& first,
                                 const Program& second) {
  declare(first);
  declare(second);
  const PairQueues queues = device().accelerator ? PairQueues::two : PairQueues::one;
  CompiledPair pair = compile_pair(first, second, cache_, layout_, options_, queues);
  Executable& made = install(name, std::make_unique<Compiled>(std::move(pair.step)));
  make_room_for_inputs(made.program());  // of pairs of smaller buckets
  return made;
}

Executable* ProgramSet::add_below(int64_t bytes, const std::string& name, Program program,
                                  const CompileOptions& options) {
  declare(program);
  auto compiled = std::make_unique<Compiled>(compile(std::move(program), cache_, layout_, options));
  if (compiled->plan.device().bytes >= bytes) return nullptr;
  return &install(name, std::move(compiled));
}

Executable& ProgramSet::install(const std::string& name, std::unique_ptr<Compiled> compiled) {
  auto made = std::make_unique<Executable>();
  made->compiled_ = std::move(compiled);
  const Compiled& c = *made->compiled_;
  // What was recorded of another place is recorded anew.
  const auto forget_moved = [&, device = arena_->base(Space::device),
                             host = arena_->base(Space::host)] {
    if (arena_->base(Space::device) == device && arena_->base(Space::host) == host) return;
    for (auto& [other, program_of_set] : programs_) program_of_set->runner_->forget_recording();
  };
  if (share_.pool) {
    const DeviceProfile device =
        share_.device ? *share_.device : options_.profile.value_or(DeviceProfile{});
    const StepShape shape = step_shape(name, c.program, c.storages, c.plan, device);
    made->memory_ = std::make_unique<SharedPlan>(c.storages, c.plan, shape, *arena_, *share_.pool,
                                                 share_.job, cache_.device().accelerator);
  } else {
    try {
      arena_->reserve(c.plan);
    } catch (...) {
      forget_moved();  // a growth that is refused may leave the arena elsewhere
      throw;
    }
    made->memory_ = std::make_unique<StaticPlan>(c.storages, c.plan, *arena_);
  }
  forget_moved();
  made->runner_ =
      std::make_unique<Runner>(c.program, c.kernels, c.storages, *made->memory_, cache_.device());
  if (auto accelerator = cache_.device().accelerator) {
    made->accelerator_ = accelerator, made->state_ = mirror_;
    made->to_be_recorded_ = cache_.device().graphs;
    made->staging_ = std::make_unique<Arena>(accelerator);
    made->staging_->reserve(Space::host, bytes_of_inputs(c.program, Space::device));
    made->host_inputs_.resize(size_t(bytes_of_inputs(c.program, Space::host)));
    made->brought_ = std::make_unique<Arena>(accelerator);
    made->brought_now_ = accelerator->make_event();
    made->sent_ = accelerator->make_event(), made->turns_ = turns_;
  }
  if (programs_.empty()) make_room_for_inputs(c.program);
  return *(programs_[name] = std::move(made));
}

std::vector<Executable*> ProgramSet::all() {
  std::vector<Executable*> out;
  for (const auto& [name, program] : programs_) out.push_back(program.get());
  return out;
}

Executable* ProgramSet::find(const std::string& name) {
  auto found = programs_.find(name);
  return found == programs_.end() ? nullptr : found->second.get();
}

void ProgramSet::use_device(const Device& device) {
  if (device.accelerator != cache_.device().accelerator) {
    throw ProgramError("the state of a set stays on its device");
  }
  programs_.clear();
  if (share_.pool) share_.pool->forget(share_.job);
  cache_ = KernelCache(device);
}

std::vector<StateTensor> ProgramSet::state() {
  std::vector<StateTensor> out = slots_;
  std::byte* const device =
      mirror_ ? mirror_->fetch(layout_.bytes(Space::device)) : arena_->base(Space::device);
  for (StateTensor& slot : out) {
    const StateLayout::Slot* place = layout_.find(slot.name);
    std::byte* base = place->space == Space::device ? device : arena_->base(place->space);
    slot.data = base + place->offset;
  }
  return out;
}

int64_t ProgramSet::arena_bytes() const { return arena_->bytes(Space::device); }

}  // namespace pal
