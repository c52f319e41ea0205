// pal translate: lines of text in, their translations out, or the n best of each.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/text.h"
#include "train/commands/command.h"
#include "train/commands/commands.h"
#include "train/config/wording.h"
#include "train/run_files/log.h"
#include "train/translation/ensemble.h"

namespace pal {
namespace {

// All lines. No line at all is fine.
std::vector<std::string> lines_of(std::FILE* in, const std::string& name) {
  const std::string bytes = read_bytes(in);
  if (std::ferror(in)) throw Error(kExitFailed, name + ": cannot be read to its end");
  return split_lines(bytes, name);
}

std::vector<std::string> read_input(const std::optional<std::filesystem::path>& input) {
  if (!input) return lines_of(stdin, "standard input");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(input->c_str(), "rb"),
                                                             &std::fclose);
  if (!file || std::filesystem::is_directory(*input)) {
    throw UsageError("--input: " + input->string() + ": cannot be opened: " +
                     (file ? "is a folder" : std::strerror(errno)) + "; name a text file");
  }
  return lines_of(file.get(), input->string());
}

// A translation a line; or the list that Moses and Marian print, whose lines are counted from 0.
std::string text_of(const std::vector<std::vector<Translation>>& translations, bool list) {
  std::string out;
  for (size_t i = 0; i < translations.size(); ++i) {
    if (!list) out += translations[i][0].text + "\n";
    for (size_t n = 0; list && n < translations[i].size(); ++n) {
      const Translation& one = translations[i][n];
      out += std::to_string(i) + " ||| " + one.text + " ||| " + fixed(one.score, 6) + "\n";
    }
  }
  return out;
}

std::string json_of(const std::vector<std::vector<Translation>>& translations, bool list) {
  nlohmann::json object{{"translations", nlohmann::json::array()}};
  if (list) object["n_best"] = nlohmann::json::array();
  for (const std::vector<Translation>& best : translations) {
    object["translations"].push_back(best[0].text);
    if (!list) continue;
    nlohmann::json all = nlohmann::json::array();
    for (const Translation& one : best) {
      all.push_back({{"translation", one.text}, {"score", one.score}, {"log_prob", one.log_prob}});
    }
    object["n_best"].push_back(all);
  }
  return object.dump() + "\n";
}

}  // namespace

int run_translate(const TranslateArgs& args) {
  const Ensemble models(args.model);
  log_info("translating with " + models.weights());
  const std::vector<std::string> lines = read_input(args.input);
  const std::vector<std::vector<Translation>> translations = models.translate(lines, args.beam);
  return print(args.json ? json_of(translations, args.list) : text_of(translations, args.list));
}

namespace {

struct TranslateFlags {
  TranslateArgs args;
  std::string input;
  std::optional<int64_t> n_best;

  void declare(Flags& flags) {
    add_models(flags, args.model);
    flags.add("--input", input, "file to translate (standard input)", {.type = "FILE"});
    add_beam(flags, args.beam);
    flags.add("--n-best", n_best, "print the N best of a line: ID ||| translation ||| score",
              {.type = "N"});
    add_json(flags, args.json);
  }
  Request read() {
    args.beam.n_best = n_best.value_or(1);
    args.list = n_best.has_value();
    check_beam(args.beam);
    if (!input.empty()) args.input = input;
    return request<run_translate>(args);
  }
};

}  // namespace

Command translate_command() {
  return command<TranslateFlags>("translate", "translate text, one sentence a line");
}

}  // namespace pal
