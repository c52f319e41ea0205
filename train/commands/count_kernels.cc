// Records, plans and counts the step as pal train would run it on a GPU.
#include "train/commands/count_kernels.h"

#include <cstring>
#include <memory>

#include "core/error.h"
#include "core/kernel_counter.h"
#include "core/scalars.h"
#include "memory/run/count_launches.h"
#include "train/config/profile.h"
#include "train/config/published_sizes.h"
#include "train/loop/run_options.h"
#include "train/loop/step_program.h"
#include "train/run_files/log.h"
#include "train/tasks/make_task.h"

namespace pal {
namespace {

void refuse(const std::string& why) { throw UsageError("bench --kernels: " + why); }

void check(const Config& config) {
  if (!make_kernel_counter) {
    refuse(
        "this program has no emulated GPU to count on; ./pal bench --kernels in the source tree "
        "builds one that has (build/pal_emulated)");
  }
  if (*config.device.type == "cpu") {
    refuse("device.type is cpu, and kernels are a GPU's; leave it out or set it to cuda");
  }
  if (chooses_plan(config.memory)) {
    refuse(
        "with a budget the plan is chosen as the run begins (memory.auto); leave the budget out, "
        "or set memory.auto to false and name the passes");
  }
  if (*config.memory.manager != Manager::fixed) {
    refuse("a manager decides while the step runs; set memory.manager to static");
  }
}

}  // namespace

KernelReport count_kernels(Config config, const std::string& name,
                           std::optional<std::pair<int64_t, int64_t>> bucket,
                           DeviceProfile profile) {
  check(config);
  const std::unique_ptr<KernelCounter> counter = make_kernel_counter();
  const std::string made_up = use_published_sizes(config);
  if (!made_up.empty()) log_info(made_up);
  config.device.timed_products = false;  // what is the fastest here says nothing of a card
  const Device device = training_device(config);
  profile = priced_as(std::move(profile), device.tf32);
  const auto task = make_task(config);
  if (!bucket) bucket = task->bucket_lengths(task->largest_candidates().back());
  CompileOptions options = compile_options(config.memory);
  if (*config.device.branches) {
    options.branch_device = profile, options.branch_device->capacity = profile.room();
  }
  ProgramSet programs(options, device);
  Executable& step = programs.add("step", record_plan_step(*task, config, *bucket));
  const BatchInfo batch = task->fill_full(step, *bucket);
  StepScalars scalars{.learning_rate = 1e-3f, .tokens = float(batch.normalizer)};
  scalars.step = 1;
  std::memcpy(step.input(kScalarsInput), &scalars, sizeof scalars);
  const auto launches = count_launches(step, *counter, *device.accelerator);
  KernelReport report = kernel_report(step.compiled(), launches, profile, device.graphs);
  report.name = name, report.bucket = *bucket;
  report.samples = double(batch.samples), report.units = double(batch.tokens);
  report.unit = task->unit();
  return report;
}

}  // namespace pal
