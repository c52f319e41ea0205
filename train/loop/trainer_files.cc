// What a run leaves while it goes on and at its end: validations, checkpoints, the report.
#include <algorithm>
#include <cmath>

#include "memory/plan/report.h"
#include "train/config/wording.h"
#include "train/loop/average.h"
#include "train/loop/ema.h"
#include "train/loop/learning_rate.h"
#include "train/loop/trainer.h"
#include "train/report/front_page.h"
#include "train/report/plan_report.h"
#include "train/report/report_html.h"
#include "train/run_files/process_memory.h"

namespace pal {
namespace {

// The metric that the best checkpoint is chosen by, and whether a higher one is better. All metrics
// are appended to `line`.
std::pair<double, bool> judge(const Validation& valid, std::string& line) {
  std::pair<double, bool> by{valid.loss, false};
  for (auto& [name, value] : valid.metrics) {
    line += "  " + name + " " + std::to_string(value).substr(0, 5);
    if (name == valid.best_by) by = {value, valid.higher_is_better};
  }
  return by;
}

}  // namespace

// How ranks deal out validation: where they gather weights together, each does all of it, and they
// agree before each batch whether to stop.
Dealt Trainer::dealt(const std::atomic<bool>* stop) const {
  const bool all = sharded_.divides_weights();
  std::function<bool()> stops;
  if (stop && all) stops = [this, stop] { return ranks_.any(*stop); };
  if (stop && !all) stops = [stop] { return stop->load(); };
  return all ? Dealt(nullptr, std::move(stops)) : ranks_.dealt(std::move(stops));
}

// `scheduled`: due by valid_every or by the epoch's end. The validation at the end of a run that is
// not leaves no trace in the state, so that the run, resumed, goes on as if it had never ended.
void Trainer::validate(bool scheduled, const std::atomic<bool>* stop) {
  check_watch();
  progress_.finish();
  std::optional<EmaWeights> averages;
  if (config_.train.ema->has_value()) {
    averages.emplace(programs_, **config_.train.ema, state_.step, sharded_);
  }
  const Validation valid = task_->validate(programs_, "valid", dealt(stop));
  validated_ = state_.step;
  samples_of_valid_ = valid.samples;
  std::string line = "valid  step " + std::to_string(state_.step) + "  loss " +
                     std::to_string(valid.loss).substr(0, 6);
  const auto [metric, higher] = judge(valid, line);
  const ValidRow row{
      .step = state_.step, .epoch = state_.epoch, .loss = valid.loss, .metrics = valid.metrics};
  write(row);
  if (events_) events_->write(row);
  const bool better = higher ? metric > state_.best : metric < state_.best;
  const bool improved = std::isfinite(metric) && (!state_.has_best || better);
  if (improved) {
    // The averages, where they stand in.
    save_best();
    best_saved_ = metric;
    line += "  (best)";
  }
  if (averages) averages->restore();
  log_info(line);
  if (!scheduled) return;
  if (improved) state_.best = metric, state_.has_best = true;
  const int64_t decays = state_.plateau.decays;
  state_.plateau.observe(config_.train, improved);
  if (state_.plateau.decays > decays) {
    log_info("no new best in " + std::to_string(*config_.train.lr_patience) +
             " validations: learning rate " +
             short_number(learning_rate(config_.train, state_.step, state_.plateau)));
  }
}

void Trainer::save() {
  check_watch();
  if (saved_ == state_.step) return;
  state_.rounded = steps_.rounded();
  if (ranks_.writes() || steps_.update().has_pieces()) {
    save_checkpoint(file("last.safetensors"), programs_, state_, sharded_);
  }
  saved_ = state_.step;
  keep();
  ranks_.meet();
}

void Trainer::save_best() {
  if (!ranks_.writes() && !steps_.update().has_pieces()) return;
  save_weights(file("best.safetensors"), programs_, sharded_);
}

void Trainer::keep() {
  if (!ranks_.writes()) return;
  keep_checkpoint(args_.out, state_.step,
                  std::max(*config_.train.keep_last, config_.train.average_last->value_or(0)));
}

void Trainer::try_average() {
  if (!config_.train.average_last->has_value()) return;
  std::vector<std::filesystem::path> files;  // that rank 0 has kept, and takes the mean of
  if (ranks_.writes()) files = last_checkpoints(args_.out, **config_.train.average_last);
  const std::string count = ranks_.of_first([&] { return std::to_string(files.size()); });
  if (count == "0" || count == "1") {
    if (ranks_.writes()) log_warn("train.average_last: there is but one checkpoint");
    return;
  }
  if (ranks_.writes()) average_checkpoints(files, file("average.safetensors"));
  ranks_.meet();
  load_alike("average.safetensors");
  const Validation valid = task_->validate(programs_, "valid", dealt());
  std::string line = "valid  mean of the last " + count + " checkpoints  loss " +
                     std::to_string(valid.loss).substr(0, 6);
  const auto [metric, higher] = judge(valid, line);
  const bool better = !best_saved_ || (higher ? metric > *best_saved_ : metric < *best_saved_);
  if (std::isfinite(metric) && better) {
    save_best();
    best_saved_ = metric;
    samples_of_valid_ = valid.samples;
    line += "  (best)";
  }
  log_info(line);
  load_alike("last.safetensors");
}

void Trainer::write_report(const std::string& state, const Validation* test) {
  if (!ranks_.writes()) return;
  try {
    RunReport report{.name = args_.name, .state = state};
    report.config = dump_config(config_);
    report.described = task_->describe();
    report.unit = task_->unit(), report.sample = task_->loss_unit();
    report.plan = plan_lines(largest());
    if (!steps_.pairs().described().empty()) report.plan.push_back(steps_.pairs().described());
    if (steps_.sparse().on()) report.sparse = steps_.sparse().described();
    const Compiled& c = largest().compiled();
    const std::string name = steps_.largest_name();
    if (const MadeFront* made = steps_.chosen().front_of(name)) {
      const PlanFacts facts{.capacity = (*config_.memory.budget)->bytes,
                            .front = &made->front,
                            .chosen = steps_.chosen().point_of(name)};
      report.front = front_html(c, facts);
    }
    const Footprint footprint = footprint_of(c.program, c.storages, c.plan);
    for (size_t r = 0; r < kRoles; ++r) {
      const int64_t bytes = footprint.by_role[r];
      if (bytes > 0) report.bytes.emplace_back(to_string(Role(r)), bytes);
    }
    report.arena_bytes = footprint.arena, report.lower_bound_bytes = footprint.lower_bound;
    report.run_bytes = arena_bytes(), report.process_peak_bytes = process_peak_bytes();
    report.samples = test ? test->samples : samples_of_valid_;
    if (test) {
      report.test = test->metrics;
      report.test.emplace_back("loss", test->loss);
    }
    save_report(args_.out, report, curves_);
  } catch (const Error& error) {
    log_warn(std::string("no report: ") + error.what());
  }
}

Validation Trainer::evaluate_best(const std::string& part) {
  const bool best = ranks_.of_first([&] {  // which rank 0 has written by then
    return std::filesystem::exists(file("best.safetensors"));
  });
  if (best) load_alike("best.safetensors");
  return task_->validate(programs_, part, dealt());
}

}  // namespace pal
