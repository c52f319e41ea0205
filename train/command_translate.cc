// pal translate: lines of text in, their translations out.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/utf8.h"
#include "train/commands.h"
#include "train/log.h"
#include "train/nmt_task.h"

namespace pal {
namespace {

// All lines, without line ends (CR LF too) and a leading byte order mark. No line at all is fine.
std::vector<std::string> lines_of(std::FILE* in, const std::string& name) {
  std::string text;
  char block[1 << 16];
  for (size_t n; (n = std::fread(block, 1, sizeof block, in)) > 0;) text.append(block, n);
  if (std::ferror(in)) throw Error(kExitFailed, name + ": cannot be read to its end");
  size_t at = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  std::vector<std::string> lines;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    if (find_invalid_utf8(line) != std::string::npos) {
      throw UsageError(name + ": line " + std::to_string(lines.size() + 1) +
                       ": invalid UTF-8; convert the text to UTF-8, for instance with iconv");
    }
    lines.push_back(std::move(line));
    at = end + 1;
  }
  return lines;
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

}  // namespace

int run_translate(const TranslateArgs& args) {
  const SavedNmt saved = open_nmt(args.model);
  log_info("translating with " + saved.weights.string());
  const std::vector<std::string> lines = read_input(args.input);
  // A few lines need no large batch; powers of two keep the number of different programs small.
  const int64_t batch = std::min<int64_t>(
      saved.task->batch(), static_cast<int64_t>(std::bit_ceil(std::max<size_t>(1, lines.size()))));
  const std::vector<std::string> translations =
      saved.task->translate(*saved.programs, lines, batch);
  std::string out;
  if (args.json) {
    out = nlohmann::json{{"translations", translations}}.dump() + "\n";
  } else {
    for (const std::string& line : translations) out += line + "\n";
  }
  const bool written = std::fwrite(out.data(), 1, out.size(), stdout) == out.size();
  if (!written || std::fflush(stdout) != 0) {
    throw Error(kExitFailed, std::string("standard output: cannot be written: ") +
                             std::strerror(errno));
  }
  return kExitDone;
}

}  // namespace pal
