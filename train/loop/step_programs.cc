// Steps are recorded and compiled when they are met; their plans are told of.
#include "train/loop/step_programs.h"

#include <utility>

#include "core/accelerator.h"
#include "core/error.h"
#include "memory/passes/encode.h"
#include "train/loop/max_fit.h"
#include "train/loop/program_fingerprint.h"
#include "train/loop/recordings.h"
#include "train/loop/run_options.h"
#include "train/loop/sums_over_ranks.h"

namespace pal {

Executable& StepPrograms::largest() {
  const MicroBatch kind = largest_kind();
  if (largest_bucket_ < 0 && auto_.on()) largest_bucket_ = largest_as_recorded();
  if (largest_bucket_ < 0) {
    int64_t most = -1;
    for (const int bucket : task_.largest_candidates()) {
      const int64_t bytes = find(bucket, kind).compiled().plan.device().bytes;
      if (bytes > most) most = bytes, largest_bucket_ = bucket;
    }
  }
  return find(largest_bucket_, kind);
}

// What a budget makes of a step has about the budget's size.
int StepPrograms::largest_as_recorded() {
  const auto largest = pal::largest_bucket(task_, config_, programs_.kernels());
  for (const int bucket : task_.largest_candidates()) {
    if (task_.bucket_lengths(bucket) == largest) return bucket;
  }
  return task_.largest_candidates()[0];
}

std::string StepPrograms::name(int bucket, MicroBatch kind) const {
  return step_name(task_.bucket_lengths(bucket), kind);
}

Executable& StepPrograms::find(int bucket, MicroBatch kind) {
  const std::string name = this->name(bucket, kind);
  if (Executable* ready = programs_.find(name)) return *ready;
  if (!std::exchange(has_room_, true) && programs_.device().accelerator) {
    for (int any = 0; any < task_.bucket_count(); ++any) {
      programs_.make_room_for_inputs(record(any, kind));
    }
  }
  Program step = record(bucket, kind);
  std::string exchanges;
  if (update_.ranks() > 1) {
    exchanges = exchanges_of(step);
    Fingerprint fingerprint;
    take_program(fingerprint, step);
    recorded_[name] = std::to_string(fingerprint.value());
  }
  auto add = [&]() -> Executable& {
    try {
      if (sparse_.on()) return sparse_.add(name, step);
      if (auto_.on()) return auto_.add(name, step);
      return programs_.add(name, std::move(step));
    } catch (const BudgetError& error) {
      std::string allowed;
      if (auto_.least()) {
        allowed = allow_advice(task_, config_, task_.bucket_lengths(bucket), *auto_.least(),
                               programs_.kernels(), (*config_.memory.budget)->bytes);
      }
      throw BudgetError(error.what() + allowed +
                        batch_advice(task_, config_, task_.bucket_lengths(bucket), auto_.least()));
    }
  };
  Executable& made = add();
  check_exchanges(name, kind, exchanges, made.program());
  check_rounding(name, rounding_of(made.program()));
  tell_of(name, bucket, made.compiled());
  return made;
}

// In one update ranks may run the steps of different buckets, each by a plan of its own: all must
// exchange what was recorded, in that order.
void StepPrograms::check_exchanges(const std::string& name, MicroBatch kind,
                                   const std::string& recorded, const Program& planned) {
  if (update_.ranks() == 1) return;
  const auto require_same = [&](const std::string& have, const std::string& want,
                                const char* whose) {
    if (have == want) return;
    throw ProgramError("[ranks] " + name + " exchanges other tensors than " + whose + ": " + have +
                       "instead of " + want);
  };
  require_same(exchanges_of(planned), recorded, "were recorded");
  require_same(recorded, exchanges_.try_emplace(to_string(kind), recorded).first->second,
               "the steps of other buckets");
}

Program StepPrograms::record(int bucket, MicroBatch kind) const {
  auto forward = [&](Builder& b, Val scalars) { return task_.record(b, bucket, scalars, true); };
  return record_step(forward, config_.train, kind, config_.ranks, config_.per_node);
}

Executable* StepPrograms::find_pair(int bucket, MicroBatch first, MicroBatch second) {
  const std::string name = pair_name(task_.bucket_lengths(bucket), first, second);
  const auto [program, added] =
      pairs_.find(name, [&](int part) { return record(bucket, part == 0 ? first : second); });
  if (!added) return program;
  check_rounding(name, rounding_of(program->program()));
  tell_of(name, bucket, program->compiled());
  return program;
}

void StepPrograms::add_largest_pair() {
  const auto [first, second] = pairs_.last_pair();
  find_pair(largest_bucket(), first, second);
}

void StepPrograms::add_all() {
  const int64_t n = update_.per_rank();
  for (int bucket = 0; bucket < task_.bucket_count(); ++bucket) {
    for (const MicroBatch kind : update_.kinds()) find(bucket, kind);
    for (const int64_t i : {int64_t(0), int64_t(1), n - 2}) {
      if (i < 0 || i + 1 >= n) continue;
      find_pair(bucket, update_.kind(i), update_.kind(i + 1));
    }
  }
}

Executable& StepPrograms::run(
    int bucket, MicroBatch kind, const std::function<void(Executable&)>& fill,
    const std::function<void(const std::vector<std::string>& layers)>& overflowed) {
  auto run = [&](Executable& program) -> Executable& {
    fill(program);
    program.run();
    return program;
  };
  Executable& dense = find(bucket, kind);
  if (auto_.on()) {
    run(dense);
    auto_.ran(name(bucket, kind), dense);
    return dense;
  }
  if (!sparse_.on()) return run(dense);
  const std::string name = this->name(bucket, kind);
  Executable& chosen = sparse_.choose(
      name, [&] { return record(bucket, kind); },
      [&](Executable& made) { tell_of(name, bucket, made.compiled()); });
  run(chosen);
  if (&chosen != &dense) {
    const std::vector<std::string> layers = sparse_.overflows(name, chosen);
    if (layers.empty()) return chosen;
    overflowed(layers);
    run(dense);
  }
  sparse_.observe(name, dense);
  return dense;
}

void StepPrograms::update_done() {
  if (!auto_.on() || !auto_.timed()) return;
  if (programs_.device().accelerator) programs_.device().accelerator->synchronize();
  auto_.plan_by_times();
  for (int bucket = 0; bucket < task_.bucket_count(); ++bucket) {
    for (const MicroBatch kind : update_.kinds()) {
      const std::string name = this->name(bucket, kind);
      if (!auto_.front_of(name)) continue;
      const Program step = record(bucket, kind);
      auto_.add_again(name, step);
      const Executable& made = *programs_.find(name);
      if (update_.ranks() > 1) check_exchanges(name, kind, exchanges_of(step), made.program());
      tell_of(name, bucket, made.compiled());
    }
  }
}

// Which values are rounded depends on the whole plan, and so on threads and kernels too.
void StepPrograms::check_rounding(const std::string& name, const std::string& digits) {
  if (!rounds(config_.memory)) return;
  const auto known = rounded_.try_emplace(name, digits).first;
  if (known->second == digits) return;
  throw UsageError(checkpoint_ + ": was trained with other values of " + name +
                   " rounded than this machine's plan rounds, so the results would be others; "
                   "resume on a machine, with threads and a device like those it began on");
}

void StepPrograms::round_as(const std::map<std::string, std::string>& rounded) {
  const auto ready = std::exchange(rounded_, rounded);
  for (const auto& [name, digits] : ready) check_rounding(name, digits);
  if (rounded_.empty()) return;
  for (int bucket = 0; bucket < task_.bucket_count(); ++bucket) {
    for (const MicroBatch kind : update_.kinds()) {
      if (rounded_.contains(name(bucket, kind))) find(bucket, kind);
      for (const MicroBatch then : update_.kinds()) {
        const std::string pair = pair_name(task_.bucket_lengths(bucket), kind, then);
        if (rounded_.contains(pair)) find_pair(bucket, kind, then);
      }
    }
  }
}

void StepPrograms::tell(std::function<void(PlanRow)> of_plan) {
  tell_ = std::move(of_plan);
  for (PlanRow& row : std::exchange(untold_, {})) tell_(std::move(row));
}

void StepPrograms::tell_of(const std::string& name, int bucket, const Compiled& c) {
  const auto [S, T] = task_.bucket_lengths(bucket);
  PlanRow row{.program = name,
              .source_length = S,
              .target_length = T,
              .nodes = c.program.node_count(),
              .values = int64_t(c.program.values.size()),
              .total_bytes = c.plan.device().bytes,
              .arena_bytes = c.plan.device().bytes,
              .lower_bound_bytes = c.plan.device().lower_bound,
              .compile_seconds = c.seconds};
  if (tell_) return tell_(std::move(row));
  untold_.push_back(std::move(row));
}

}  // namespace pal
