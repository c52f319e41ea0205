// Names of files from a command line or a pipe, and what could not be used of them.
#include "train/commands/inputs.h"

#include <cerrno>
#include <cstring>
#include <utility>

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

PrintedRows::PrintedRows(std::string name, std::optional<std::string> behind)
    : name_(std::move(name)),
      behind_(std::move(behind)),
      waiting_(behind_ ? std::tmpfile() : nullptr, &std::fclose) {
  if (behind_ && !waiting_) fail();
}

void PrintedRows::fail() const {
  throw Error(kExitFailed, *behind_ + ": the temporary file for what stands behind " + name_ +
                               ": " + std::strerror(errno));
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

void PrintedRows::add_behind(const nlohmann::json& row) {
  const std::string text = (std::exchange(first_behind_, false) ? "" : ",") + text_of(row);
  if (std::fwrite(text.data(), 1, text.size(), waiting_.get()) != text.size()) fail();
}

void PrintedRows::end() {
  if (first_) begin();
  if (!behind_) {
    print("]}\n");
    return;
  }
  print("]," + nlohmann::json(*behind_).dump() + ":[");
  std::FILE* file = waiting_.get();
  if (std::fflush(file) != 0 || std::fseek(file, 0, SEEK_SET) != 0) fail();
  std::string block(size_t{1} << 16, '\0');
  while (const size_t count = std::fread(block.data(), 1, block.size(), file)) {
    print(block.substr(0, count));
  }
  if (std::ferror(file)) fail();
  print("]}\n");
}

}  // namespace pal
