// pal plan: where the memory of a training step goes, without running it.
#include <cstdio>

#include "core/error.h"

#include "train/commands.h"
#include "train/log.h"
#include "train/plan_report.h"
#include "train/step_program.h"
#include "train/task.h"
#include "train/trainer.h"

namespace pal {

int run_plan(const PlanArgs& args) {
  const auto task = make_task(args.config);
  const auto bucket = args.bucket.value_or(task->bucket_lengths(task->bucket_count() - 1));
  const int64_t n = *args.config.train.accumulate;
  auto forward = [&](Builder& b, Val scalars) {
    return task->record_lengths(b, bucket, scalars, true);
  };
  Program program = record_step(forward, args.config.train, micro_batch_of(n - 1, n));
  const StateLayout layout(program);
  KernelCache cache(choose_device(args.config.device));
  const Compiled step =
      compile(std::move(program), cache, layout, compile_options(args.config.memory));
  if (args.json) {
    std::puts(plan_json(step, bucket).c_str());
    return kExitDone;
  }
  std::printf("%s, bucket %lld,%lld\n", args.name.c_str(), static_cast<long long>(bucket.first),
              static_cast<long long>(bucket.second));
  for (const std::string& line : plan_lines(step)) std::puts(line.c_str());
  return kExitDone;
}

}  // namespace pal
