// pal transcribe: sound files in, what is said in them out.
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "train/commands/command.h"
#include "train/commands/commands.h"
#include "train/run_files/log.h"
#include "train/speech/speech_task.h"

namespace pal {

int run_transcribe(const TranscribeArgs& args) {
  const SavedSpeech model = open_speech(args.model);
  log_info("transcribing with " + model.weights.string());
  FeatureReader reader(model.task->data().options());
  nlohmann::json all = nlohmann::json::array();
  for (const std::filesystem::path& file : args.files) {
    const Spelling spelling =
        model.task->transcribe(*model.programs, reader, file.string(), args.beam);
    const std::string text = model.task->data().labels().decode(spelling.labels);
    if (args.json) {
      all.push_back({{"file", file.string()}, {"text", text}, {"log_prob", spelling.log_prob}});
    } else if (args.files.size() > 1) {
      print(file.string() + "\t" + text + "\n");
    } else {
      print(text + "\n");
    }
  }
  return args.json ? print(nlohmann::json{{"transcripts", all}}.dump() + "\n") : kExitDone;
}

namespace {

struct TranscribeFlags {
  TranscribeArgs args;

  void declare(Flags& flags) {
    flags.add("--model", args.model, "folder of a speech recogniser's run",
              {.type = "DIR", .required = true});
    flags.add("FILE", args.files, "WAV, FLAC, or MFCCs where the model reads these",
              {.type = "FILE", .required = true});
    flags.add("--beam", args.beam, "beginnings side by side; 1: the best path (1)", {.type = "K"});
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
