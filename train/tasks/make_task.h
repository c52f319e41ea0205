// The task that a configuration describes: the one place that knows all kinds of data.
#pragma once
#include <filesystem>
#include <memory>

#include "train/config/config.h"
#include "train/loop/task.h"
#include "train/loop/train_args.h"

namespace pal {

// The task of a configuration, reading its data. `model_dir`, where given, is a run's folder whose
// vocabularies are used instead of making them anew. UsageError when the data will not do.
std::unique_ptr<Task> make_task(const Config& config, const std::filesystem::path& model_dir = {});

// Of a run: a resumed one has its vocabularies in its folder.
std::unique_ptr<Task> make_task(const TrainArgs& args);

}  // namespace pal
