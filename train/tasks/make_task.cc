// The kinds of data, and the task of each.
#include "train/tasks/make_task.h"

#include "train/images/image_task.h"
#include "train/language/language_task.h"
#include "train/speech/speech_task.h"
#include "train/translation/translation_task.h"

namespace pal {

std::unique_ptr<Task> make_task(const Config& config, const std::filesystem::path& model_dir) {
  return std::visit(
      [&](const auto& data) -> std::unique_ptr<Task> {
        using Data = std::decay_t<decltype(data)>;
        if constexpr (std::is_same_v<Data, ImageConfig>) {
          return std::make_unique<ImageTask>(config, model_dir);
        } else if constexpr (std::is_same_v<Data, SpeechConfig>) {
          return std::make_unique<SpeechTask>(config, model_dir);
        } else if constexpr (std::is_same_v<Data, TextConfig>) {
          return std::make_unique<LanguageTask>(config, model_dir);
        } else {
          static_assert(std::is_same_v<Data, ParallelTextConfig>);
          return std::make_unique<TranslationTask>(config, model_dir);
        }
      },
      config.data);
}

std::unique_ptr<Task> make_task(const TrainArgs& args) {
  return make_task(args.config, args.resume ? args.out : std::filesystem::path());
}

}  // namespace pal
