// Micro-batches side by side (Zico, Lim et al. 2021, section 2.2, which gives no figures): what
// train.overlap_micro_batches is predicted to gain, and what it needs.
#include <memory>
#include <optional>

#include "core/text.h"
#include "memory/overlap/compile_pair.h"
#include "memory/plan/plan.h"
#include "train/config/published_sizes.h"
#include "train/config/wording.h"
#include "train/loop/run_options.h"
#include "train/loop/step_program.h"
#include "train/papers/reproduce.h"
#include "train/tasks/make_task.h"

namespace pal {
namespace {

struct Workload {
  const char *name, *config;
  int64_t micro_batch;
};

// The last two micro-batches of an update, without recomputation.
CompiledPair pair_of(const Workload& work, const DeviceProfile& device) {
  Config config = load_config(find_config(work.config),
                              {parse_set("train.optimizer=sgd"), parse_set("train.accumulate=2"),
                               parse_set("train.batch_size=" + std::to_string(work.micro_batch)),
                               parse_set("memory.recompute=none")});
  use_published_sizes(config);
  const auto task = make_task(config);
  const auto bucket = task->bucket_lengths(task->largest_candidates().front());
  const Program first = record_bucket_step(*task, config, bucket, MicroBatch::first);
  const Program last = record_bucket_step(*task, config, bucket, MicroBatch::last);
  StateLayout layout(first);
  layout.add(last);
  KernelCache cache(choose_device(config.device));
  CompileOptions options = compile_options(config.memory);
  options.profile = device;
  return compile_pair(first, last, cache, layout, options, PairQueues::two);
}

std::string gain(double before, double after) {
  const double more = 100 * (before / after - 1);
  return (more < 0 ? "" : "+") + fixed(more, 1) + " %";
}

ReproducedTable by_network(const DeviceProfile& device) {
  static constexpr Workload works[] = {
      {"GNMT", "gnmt_wmt", 128},
      {"GNMT", "gnmt_wmt", 64},
      {"GNMT", "gnmt_wmt", 32},
      {"GNMT", "gnmt_wmt", 16},
      {"GNMT", "gnmt_wmt", 8},
      {"RHN", "rhn_ptb", 64},
      {"RHN", "rhn_ptb", 20},
      {"NASNet", "nasnet_a_mobile_imagenet", 32},
      {"ResNet-50", "resnet50_imagenet", 16},
      {"BERT", "bert_base", 16},
  };
  ReproducedTable table{
      .title =
          "Two micro-batches of an update side by side: steps a second over one behind the "
          "other, predicted",
      .columns = {"network", "micro-batch", "one by one, ms", "side by side, ms", "gain",
                  "gain at most", "begins after", "GB of one", "GB of both", "of one"}};
  for (const Workload& work : works) {
    const CompiledPair pair = pair_of(work, device);
    const auto bytes = double(pair.step.plan.device().bytes);
    table.rows.push_back({work.name, std::to_string(work.micro_batch), fixed(pair.one_by_one_ms, 2),
                          fixed(pair.at.ms, 2), gain(pair.one_by_one_ms, pair.at.ms),
                          gain(pair.one_by_one_ms, pair.least_ms), percent(pair.at.shift),
                          gigabytes(pair.larger_bytes), gigabytes(pair.step.plan.device().bytes),
                          fixed(bytes / double(pair.larger_bytes), 2)});
  }
  table.notes = {
      "gain at most: the bound, the larger of one micro-batch's time and what both ask of the "
      "busiest resource (rate of products, memory, multiprocessors).",
      "begins after: the part of the first's time after which the second begins, the one that is "
      "predicted best.",
      "GB of one: alive at the larger one's peak; GB of both: placed. State counts once in either.",
      "SGD, no recomputation."};
  return table;
}

ReproducedTable by_shift(const DeviceProfile& device) {
  ReproducedTable table{.title = "GNMT by shift: predicted time and bytes alive at the peak",
                        .columns = {"begins after"}};
  const Workload works[] = {{"", "gnmt_wmt", 128}, {"", "gnmt_wmt", 16}};
  for (const Workload& work : works) {
    const CompiledPair pair = pair_of(work, device);
    const std::string of = "of " + std::to_string(work.micro_batch);
    table.columns.push_back(of + ", gain");
    table.columns.push_back(of + ", bytes of one");
    for (size_t i = 0; i < pair.shifts.size(); ++i) {
      const PairShift& at = pair.shifts[i];
      if (table.rows.size() == i) table.rows.push_back({percent(at.shift)});
      table.rows[i].push_back(gain(pair.one_by_one_ms, at.ms));
      table.rows[i].push_back(fixed(double(at.alive) / double(pair.larger_bytes), 2));
    }
  }
  return table;
}

std::vector<ReproducedTable> accumulate(const DeviceProfile& device) {
  return {by_network(device), by_shift(device)};
}

constexpr Reproduction kReproductions[] = {
    {.name = "zico-accumulate",
     .what = "Zico, section 2.2: two micro-batches of an update side by side",
     .make = accumulate,
     .profile = "rtx2080ti"}};

}  // namespace

std::span<const Reproduction> zico_accumulate_reproductions() { return kReproductions; }

}  // namespace pal
