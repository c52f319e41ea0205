// pal score: the log probability that a model gives to translations that others made.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/text.h"
#include "train/commands/command.h"
#include "train/commands/commands.h"
#include "train/run_files/log.h"
#include "train/translation/ensemble.h"

namespace pal {

int run_score(const ScoreArgs& args) {
  const ParallelText text =
      read_parallel_text({args.source.string(), "--source"}, {args.target.string(), "--target"});
  const Ensemble models(args.model);
  log_info("scoring with " + models.weights());
  const std::vector<double> scores = models.score(text.source, text.target);
  std::string out;
  if (args.json) {  // JSON has no infinity: null stands for minus infinity
    out = nlohmann::json{{"log_probs", scores}}.dump() + "\n";
  } else {
    for (const double score : scores) {
      char line[64];
      std::snprintf(line, sizeof line, "%.6f\n", score);
      out += line;
    }
  }
  const bool written = std::fwrite(out.data(), 1, out.size(), stdout) == out.size();
  if (!written || std::fflush(stdout) != 0) {
    throw Error(kExitFailed, "standard output: cannot be written");
  }
  return kExitDone;
}

namespace {

std::function<Request()> score_flags(Flags& flags) {
  auto args = std::make_shared<ScoreArgs>();
  add_models(flags, args->model);
  flags.add("--source", args->source, "text, one sentence a line",
            {.type = "FILE", .required = true});
  flags.add("--target", args->target, "its translation, line by line",
            {.type = "FILE", .required = true});
  add_json(flags, args->json);
  return [args] { return request<run_score>(*args); };
}

}  // namespace

Command score_command() { return {"score", "log probability of given translations", score_flags}; }

}  // namespace pal
