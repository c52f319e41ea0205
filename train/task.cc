// The task that a model's type asks for.
#include "train/task.h"

#include "train/nmt_task.h"

namespace pal {

std::unique_ptr<Task> make_task(const Config& config, const std::filesystem::path& model_dir) {
  return std::visit(
      [&](const auto& model) -> std::unique_ptr<Task> {
        static_assert(std::is_same_v<std::decay_t<decltype(model)>, NmtConfig>);
        return std::make_unique<NmtTask>(config, model_dir);
      },
      config.model);
}

}  // namespace pal
