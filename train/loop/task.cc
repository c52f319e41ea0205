// The task that a model's type asks for.
#include "train/loop/task.h"

#include "train/images/image_task.h"
#include "train/language/language_task.h"
#include "train/loop/step_program.h"
#include "train/speech/speech_task.h"
#include "train/translation/translation_task.h"

namespace pal {

std::unique_ptr<Task> Task::variant(const Config& config) const { return make_task(config); }

Program record_plan_step(const Task& task, const Config& config,
                         std::pair<int64_t, int64_t> bucket) {
  const int64_t n = *config.train.accumulate;
  auto forward = [&](Builder& b, Val scalars) {
    return task.record_lengths(b, bucket, scalars, true);
  };
  return record_step(forward, config.train, micro_batch_of(n - 1, n));
}

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

}  // namespace pal
