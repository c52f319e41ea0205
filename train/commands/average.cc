// pal average: the mean of a run's last checkpoints.
#include "train/loop/average.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "train/commands/command.h"
#include "train/commands/commands.h"

namespace pal {

int run_average(const AverageArgs& args) {
  const auto files = last_checkpoints(args.folder, args.last);
  if (static_cast<int64_t>(files.size()) < args.last) {
    throw UsageError(args.folder.string() + ": keeps " + std::to_string(files.size()) +
                     " checkpoints (step-N.safetensors), fewer than --last " +
                     std::to_string(args.last) + "; train with train.keep_last, or lower it");
  }
  average_checkpoints(files, args.out);
  if (args.json) {
    nlohmann::json names = nlohmann::json::array();
    for (const auto& file : files) names.push_back(file.string());
    return print(nlohmann::json{{"files", names}, {"out", args.out.string()}}.dump(
                     -1, ' ', false, nlohmann::json::error_handler_t::replace) +
                 "\n");
  }
  return print(args.out.string() + ": the mean of " + std::to_string(files.size()) +
               " checkpoints, " + files.front().filename().string() + " to " +
               files.back().filename().string() + "\n");
}

namespace {

struct AverageFlags {
  AverageArgs args;

  void declare(Flags& flags) {
    flags.add("DIR", args.folder, "folder of a run with step-N.safetensors files",
              {.type = "DIR", .required = true});
    flags.add("--last", args.last, "how many checkpoints, the newest (5)", {.type = "N"});
    flags.add("--out", args.out, "the weights (DIR/average.safetensors)", {.type = "FILE"});
    add_json(flags, args.json);
  }
  Request read() {
    check_range("--last", args.last, 1);
    if (args.out.empty()) args.out = args.folder / "average.safetensors";
    return request<run_average>(args);
  }
};

}  // namespace

Command average_command() {
  return command<AverageFlags>("average", "the mean of a run's last checkpoints");
}

}  // namespace pal
