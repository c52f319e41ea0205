// pal translate: lines of text in, their translations out, or the n best of each.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/line_reader.h"
#include "train/commands/command.h"
#include "train/commands/commands.h"
#include "train/commands/inputs.h"
#include "train/config/wording.h"
#include "train/run_files/log.h"
#include "train/translation/ensemble.h"

namespace pal {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
using Translations = std::vector<std::vector<Translation>>;

// Sentences are sorted by length within a group. Who types them waits for no other.
constexpr size_t kGroup = 2048;

File open_input(const std::optional<std::filesystem::path>& input) {
  if (!input) return {stdin, [](std::FILE*) { return 0; }};
  File file(std::fopen(input->c_str(), "rb"), &std::fclose);
  if (!file || std::filesystem::is_directory(*input)) {
    throw UsageError("--input: " + input->string() + ": cannot be opened: " +
                     (file ? "is a folder" : std::strerror(errno)) + "; name a text file");
  }
  return file;
}

// A translation a line; or the list that Moses and Marian print, whose lines are counted from 0.
std::string text_of(const Translations& translations, bool list, int64_t first) {
  std::string out;
  for (const std::vector<Translation>& best : translations) {
    if (!list) out += (best.empty() ? "" : best[0].text) + "\n";
    for (size_t n = 0; list && n < best.size(); ++n) {
      out +=
          std::to_string(first) + " ||| " + best[n].text + " ||| " + fixed(best[n].score, 6) + "\n";
    }
    ++first;
  }
  return out;
}

nlohmann::json list_of(const std::vector<Translation>& best) {
  nlohmann::json list = nlohmann::json::array();
  for (const Translation& one : best) {
    list.push_back({{"translation", one.text}, {"score", one.score}, {"log_prob", one.log_prob}});
  }
  return list;
}

// The next lines, `most` at most; of those that have no translation, only their places.
struct LineGroup {
  std::vector<std::string> lines;
  std::vector<size_t> at;  // of each
  size_t size = 0;         // with those that have none
};
// `first`: the number of the first of them.
LineGroup next_group(LineReader& in, const Ensemble& models, size_t most, int64_t first,
                     Unusable& unusable) {
  LineGroup group;
  while (group.size < most) {
    auto line = in.next();
    if (!line) break;
    if (const std::string defect = models.defect_of(line->text); !defect.empty()) {
      const int64_t number = first + int64_t(group.size);
      line->defect = in.name() + ": line " + std::to_string(number) + ": " + defect;
    }
    if (line->defect.empty()) {
      group.lines.push_back(std::move(line->text)), group.at.push_back(group.size);
    } else {
      unusable.add(line->defect);
    }
    ++group.size;
  }
  return group;
}

}  // namespace

int run_translate(const TranslateArgs& args) {
  const Ensemble models(args.model);
  log_info("translating with " + models.weights());
  const File file = open_input(args.input);
  const size_t most = isatty(fileno(file.get())) ? 1 : kGroup;
  LineReader in(file.get(), args.input ? args.input->string() : "standard input");
  Unusable unusable(args.strict);
  std::optional<std::string> behind;
  if (args.json && args.list) behind = "n_best";
  PrintedRows rows("translations", behind);
  int64_t count = 0;
  while (true) {
    const LineGroup group = next_group(in, models, most, count + 1, unusable);
    if (group.size == 0) break;
    Translations all(group.size);
    Translations translated;
    if (!group.lines.empty()) translated = models.translate(group.lines, args.beam);
    for (size_t i = 0; i < translated.size(); ++i) all[group.at[i]] = std::move(translated[i]);
    if (!args.json) print(text_of(all, args.list, count));
    for (size_t i = 0; args.json && i < all.size(); ++i) {
      rows.add(all[i].empty() ? "" : all[i][0].text);
      if (behind) rows.add_behind(list_of(all[i]));
    }
    count += int64_t(group.size);
  }
  if (args.json) rows.end();
  unusable.finish(count, "lines", "translated");
  return kExitDone;
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
    add_strict(flags, args.strict);
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
