// pal transcribe: sound files in, what is said in them out.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"
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
      std::printf("%s\t%s\n", file.c_str(), text.c_str());
    } else {
      std::puts(text.c_str());
    }
  }
  if (args.json) std::puts(nlohmann::json{{"transcripts", all}}.dump().c_str());
  if (std::fflush(stdout) != 0) throw Error(kExitFailed, "standard output: cannot be written");
  return kExitDone;
}

}  // namespace pal
