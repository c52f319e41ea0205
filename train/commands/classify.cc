// pal classify: the likeliest classes of image files, or of folders of frames.
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "train/commands/command.h"
#include "train/commands/commands.h"
#include "train/config/wording.h"
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
    if (!args.json && !row.contains("error")) {
      std::string lines = file.string() + "\n";
      for (const nlohmann::json& each : row["classes"]) {
        lines += printed("  %5.1f %%  ", 100 * each["probability"].get<double>()) +
                 each["class"].get<std::string>() + "\n";
      }
      print(lines);
    }
    images.push_back(std::move(row));
  }
  // A name that is not UTF-8 is printed with replacement characters.
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
  if (args.json) print(nlohmann::json{{"images", images}}.dump(-1, ' ', false, kReplace) + "\n");
  if (failed > 0) {
    throw UsageError(std::to_string(failed) + " of " + std::to_string(args.files.size()) +
                     " files could not be classified (above)");
  }
  return kExitDone;
}

namespace {

struct ClassifyFlags {
  ClassifyArgs args;

  void declare(Flags& flags) {
    add_models(flags, args.model);
    flags.add("FILE", args.files, "JPEG and PNG files; of films folders of frames",
              {.type = "FILE...", .required = true});
    flags.add("--top", args.top, "classes to print of each image (5)", {.type = "N"});
    add_json(flags, args.json);
  }
  Request read() const {
    check_range("--top", args.top, 1);
    return request<run_classify>(args);
  }
};

}  // namespace

Command classify_command() {
  return command<ClassifyFlags>("classify", "the likeliest classes of images");
}

}  // namespace pal
