// Names of files from a command line or a pipe, and what could not be used of them.
#include "train/commands/inputs.h"

#include "core/error.h"
#include "data/line_reader.h"
#include "train/commands/commands.h"
#include "train/run_files/log.h"

namespace pal {

void Unusable::add(const std::string& why) {
  if (strict_) throw UsageError(why);
  if (++count_ <= kNamed) log_warn(why);
  if (count_ == kNamed) log_warn("others like these are counted, and not named");
}

void Unusable::finish(int64_t of, const std::string& things, const std::string& done) const {
  if (count_ == 0) return;
  throw UsageError(std::to_string(count_) + " of " + std::to_string(of) + " " + things +
                   " could not be " + done + " (above)");
}

int64_t each_file(const std::vector<std::filesystem::path>& files, Unusable& unusable,
                  const std::function<void(const std::filesystem::path&)>& use) {
  if (!are_piped(files)) {
    for (const std::filesystem::path& file : files) use(file);
    return int64_t(files.size());
  }
  LineReader names(stdin, "standard input");
  int64_t count = 0;
  while (const auto line = names.next()) {
    ++count;
    line->defect.empty() ? use(line->text) : unusable.add(line->defect);
  }
  return count;
}

void PrintedRows::begin() {
  print(first_ ? "{" + nlohmann::json(name_).dump() + ":[" : ",");
  first_ = false;
}

namespace {
// A name that is not UTF-8 is printed with replacement characters.
std::string text_of(const nlohmann::json& any) {
  return any.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}
}  // namespace

void PrintedRows::add(const nlohmann::json& row) {
  begin();
  print(text_of(row));
}

void PrintedRows::end(const nlohmann::json& more) {
  if (first_) begin();
  std::string rest = "]";
  for (const auto& [name, value] : more.items()) {
    rest += "," + nlohmann::json(name).dump() + ":" + text_of(value);
  }
  print(rest + "}\n");
}

}  // namespace pal
