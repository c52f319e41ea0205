// pal classify: the likeliest classes of image files, or of folders of frames.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "train/commands/command.h"
#include "train/commands/commands.h"
#include "train/images/classifier.h"
#include "train/run_files/log.h"

namespace pal {

int run_classify(const ClassifyArgs& args) {
  const Classifier models(args.model);
  log_info("classifying with " + models.weights());
  nlohmann::json images = nlohmann::json::array();
  int64_t failed = 0;
  for (const std::filesystem::path& file : args.files) {
    nlohmann::json row{{"file", file.string()}};
    try {
      row["classes"] = nlohmann::json::array();
      for (const Guess& guess : models.classify(file, args.top)) {
        row["classes"].push_back({{"class", guess.name}, {"probability", guess.probability}});
      }
    } catch (const UsageError& error) {
      log_warn(error.what());
      row["error"] = error.what();
      ++failed;
    }
    images.push_back(row);
    if (args.json || row.contains("error")) continue;
    std::printf("%s\n", file.c_str());
    for (const nlohmann::json& each : row["classes"]) {
      std::printf("  %5.1f %%  %s\n", 100 * each["probability"].get<double>(),
                  each["class"].get<std::string>().c_str());
    }
  }
  // A name that is not UTF-8 is printed with replacement characters.
  if (args.json) {
    std::puts(nlohmann::json{{"images", images}}
                  .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                  .c_str());
  }
  if (std::fflush(stdout) != 0) throw Error(kExitFailed, "standard output: cannot be written");
  if (failed > 0) {
    throw UsageError(std::to_string(failed) + " of " + std::to_string(args.files.size()) +
                     " files could not be classified (above)");
  }
  return kExitDone;
}

namespace {

std::function<Request()> classify_flags(Flags& flags) {
  auto args = std::make_shared<ClassifyArgs>();
  add_models(flags, args->model);
  flags.add("FILE", args->files, "JPEG and PNG files; of films folders of frames",
            {.type = "FILE...", .required = true});
  flags.add("--top", args->top, "classes to print of each image (5)", {.type = "N"});
  add_json(flags, args->json);
  return [args] {
    if (args->top < 1) {
      throw UsageError("--top: " + std::to_string(args->top) + " is out of range; give 1 or more");
    }
    return request<run_classify>(*args);
  };
}

}  // namespace

Command classify_command() {
  return {"classify", "the likeliest classes of images", classify_flags};
}

}  // namespace pal
