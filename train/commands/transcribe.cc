// pal transcribe: sound files in, what is said in them out.
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "train/commands/command.h"
#include "train/commands/commands.h"
#include "train/commands/inputs.h"
#include "train/run_files/log.h"
#include "train/speech/speech_task.h"

namespace pal {

int run_transcribe(const TranscribeArgs& args) {
  const SavedSpeech model = open_speech(args.model);
  log_info("transcribing with " + model.weights.string());
  FeatureReader reader(model.task->data().options());
  PrintedRows rows("transcripts");
  const bool one = args.files.size() == 1 && !are_piped(args.files);
  Unusable unusable(args.strict || one);
  const int64_t count = each_file(args.files, unusable, [&](const std::filesystem::path& file) {
    nlohmann::json row{{"file", file.string()}};
    try {
      const Spelling spelling =
          model.task->transcribe(*model.programs, reader, file.string(), args.beam);
      row["text"] = model.task->data().labels().decode(spelling.labels);
      row["log_prob"] = spelling.log_prob;
    } catch (const UsageError& error) {
      unusable.add(error.what());
      row["error"] = error.what();
    }
    if (args.json) return rows.add(row);
    if (row.contains("error")) return;
    print((one ? "" : file.string() + "\t") + row["text"].get<std::string>() + "\n");
  });
  if (args.json) rows.end();
  unusable.finish(count, "files", "transcribed");
  return kExitDone;
}

namespace {

struct TranscribeFlags {
  TranscribeArgs args;

  void declare(Flags& flags) {
    flags.add("--model", args.model, "folder of a speech recogniser's run",
              {.type = "DIR", .required = true});
    flags.add("FILE", args.files,
              "WAV, FLAC, or MFCCs where the model reads these; - for their names on standard "
              "input, one a line",
              {.type = "FILE...", .required = true});
    flags.add("--beam", args.beam, "beginnings side by side; 1: the best path (1)", {.type = "K"});
    add_strict(flags, args.strict);
    add_json(flags, args.json);
  }
  Request read() const {
    check_range("--beam", args.beam, 1, 10'000);
    return request<run_transcribe>(args);
  }
};

}  // namespace

Command transcribe_command() {
  return command<TranscribeFlags>("transcribe", "what is said in sound files");
}

}  // namespace pal
