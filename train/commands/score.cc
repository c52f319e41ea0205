// pal score: the log probability that a model gives to translations that others made.
#include <nlohmann/json.hpp>

#include "data/text.h"
#include "train/commands/command.h"
#include "train/commands/commands.h"
#include "train/config/wording.h"
#include "train/run_files/log.h"
#include "train/translation/ensemble.h"

namespace pal {

int run_score(const ScoreArgs& args) {
  const ParallelText text =
      read_parallel_text({args.source.string(), "--source"}, {args.target.string(), "--target"});
  const Ensemble models(args.model);
  log_info("scoring with " + models.weights());
  const std::vector<double> scores = models.score(text.source, text.target);
  // JSON has no infinity: null stands for minus infinity.
  if (args.json) return print(nlohmann::json{{"log_probs", scores}}.dump() + "\n");
  std::string out;
  for (const double score : scores) out += fixed(score, 6) + "\n";
  return print(out);
}

namespace {

struct ScoreFlags {
  ScoreArgs args;

  void declare(Flags& flags) {
    add_models(flags, args.model);
    flags.add("--source", args.source, "text, one sentence a line",
              {.type = "FILE", .required = true});
    flags.add("--target", args.target, "its translation, line by line",
              {.type = "FILE", .required = true});
    add_json(flags, args.json);
  }
  Request read() const { return request<run_score>(args); }
};

}  // namespace

Command score_command() {
  return command<ScoreFlags>("score", "log probability of given translations");
}

}  // namespace pal
