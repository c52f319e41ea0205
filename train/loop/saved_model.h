// A trained model of a task, opened from a run's folder.
#pragma once
#include <filesystem>
#include <memory>

#include "memory/run/program_set.h"
#include "train/config/config.h"
#include "train/loop/checkpoint.h"
#include "train/loop/run_options.h"
#include "train/run_files/saved_run.h"

namespace pal {

template <class OwnTask> struct SavedModel {
  Config config;
  std::unique_ptr<OwnTask> task;
  std::unique_ptr<ProgramSet> programs;
  std::filesystem::path weights;  // the file they came from
};

// The model of a run, whose configuration the caller has read. UsageError when something is missing
// or does not fit.
template <class OwnTask>
SavedModel<OwnTask> open_saved_model(const SavedRun& run, const Config& config) {
  SavedModel<OwnTask> saved;
  saved.weights = run.weights;
  saved.config = config;
  saved.task = std::make_unique<OwnTask>(saved.config, run.folder);
  saved.programs = std::make_unique<ProgramSet>(compile_options(saved.config.memory),
                                                choose_device(saved.config.device));
  saved.task->declare_weights(*saved.programs);
  load_weights(saved.weights, *saved.programs);
  return saved;
}

}  // namespace pal
