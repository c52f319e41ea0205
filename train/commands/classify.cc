// pal classify: the likeliest classes of image files, or of folders of frames.
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "train/commands/command.h"
#include "train/commands/commands.h"
#include "train/commands/inputs.h"
#include "train/config/wording.h"
#include "train/images/classifier.h"
#include "train/run_files/log.h"

namespace pal {

int run_classify(const ClassifyArgs& args) {
  const Classifier models(args.model);
  log_info("classifying with " + models.weights());
  PrintedRows rows("images");
  Unusable unusable(args.strict);
  const int64_t count = each_file(args.files, unusable, [&](const std::filesystem::path& file) {
    nlohmann::json row{{"file", file.string()}};
    try {
      row["classes"] = nlohmann::json::array();
      for (const Guess& guess : models.classify(file, args.top)) {
        row["classes"].push_back({{"class", guess.name}, {"probability", guess.probability}});
      }
    } catch (const UsageError& error) {
      unusable.add(error.what());
      row["error"] = error.what();
    }
    if (args.json) return rows.add(row);
    if (row.contains("error")) return;
    std::string lines = file.string() + "\n";
    for (const nlohmann::json& each : row["classes"]) {
      lines += printed("  %5.1f %%  ", 100 * each["probability"].get<double>()) +
               each["class"].get<std::string>() + "\n";
    }
    print(lines);
  });
  if (args.json) rows.end();
  unusable.finish(count, "files", "classified");
  return kExitDone;
}

namespace {

struct ClassifyFlags {
  ClassifyArgs args;

  void declare(Flags& flags) {
    add_models(flags, args.model);
    flags.add("FILE", args.files,
              "JPEG and PNG files; of films folders of frames; - for their names on standard "
              "input, one a line",
              {.type = "FILE...", .required = true});
    flags.add("--top", args.top, "classes to print of each image (5)", {.type = "N"});
    add_strict(flags, args.strict);
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
