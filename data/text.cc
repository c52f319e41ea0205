// Reads and validates parallel text.
#include "data/text.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "core/error.h"
#include "data/utf8.h"

namespace pal {
namespace {

// "[text] corpus/train.en (data.train_source)": how every message about a file begins.
std::string name_of(const CorpusFile& file) {
  return "[text] " + file.path + (file.key.empty() ? "" : " (" + file.key + ")");
}

[[noreturn]] void fail_to_open(const CorpusFile& file, const std::string& why) {
  std::string advice = "; put the file there, or ";
  advice += file.key.empty() ? "name another" : "set " + file.key + " to where it is";
  if (!file.hint.empty()) advice += "; " + file.hint;
  throw UsageError(name_of(file) + ": " + why + advice);
}

std::string read_whole(const CorpusFile& file) {
  if (file.path.empty()) fail_to_open(file, "no path is given");
  struct stat info = {};
  if (stat(file.path.c_str(), &info) != 0) {
    fail_to_open(file, errno == ENOENT ? "no such file" : std::strerror(errno));
  }
  if (S_ISDIR(info.st_mode)) fail_to_open(file, "is a folder, not a text file");
  const std::unique_ptr<FILE, int (*)(FILE*)> in(std::fopen(file.path.c_str(), "rb"), &std::fclose);
  if (!in) fail_to_open(file, std::strerror(errno));
  std::string bytes;
  if (info.st_size > 0) bytes.reserve(static_cast<size_t>(info.st_size));
  char block[1 << 16];
  size_t count = 0;
  while ((count = std::fread(block, 1, sizeof block, in.get())) > 0) bytes.append(block, count);
  if (std::ferror(in.get())) fail_to_open(file, "cannot be read to its end");
  return bytes;
}

[[noreturn]] void fail_on_utf8(const CorpusFile& file, size_t line, size_t offset, unsigned byte) {
  char hex[8];
  std::snprintf(hex, sizeof hex, "0x%02X", byte);
  throw UsageError(name_of(file) + ": line " + std::to_string(line) +
                   ": invalid UTF-8, byte " + hex + " at byte offset " + std::to_string(offset) +
                   " of the file; convert the file to UTF-8, for instance with iconv");
}

}  // namespace

std::vector<std::string> read_lines(const CorpusFile& file) {
  const std::string bytes = read_whole(file);
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  size_t begin = bytes.compare(0, kMark.size(), kMark) == 0 ? kMark.size() : 0;
  if (begin == bytes.size()) {
    throw UsageError(name_of(file) + ": the file is empty; it must hold one sentence a line");
  }
  std::vector<std::string> lines;
  while (begin < bytes.size()) {
    const size_t newline = bytes.find('\n', begin);
    size_t end = newline == std::string::npos ? bytes.size() : newline;
    const size_t next = newline == std::string::npos ? end : end + 1;
    if (end > begin && bytes[end - 1] == '\r') --end;
    const std::string_view line(bytes.data() + begin, end - begin);
    const size_t bad = find_invalid_utf8(line);
    if (bad != std::string_view::npos) {
      fail_on_utf8(file, lines.size() + 1, begin + bad, static_cast<unsigned char>(line[bad]));
    }
    lines.emplace_back(line);
    begin = next;
  }
  return lines;
}

ParallelText read_parallel_text(const CorpusFile& source, const CorpusFile& target) {
  ParallelText text{read_lines(source), read_lines(target)};
  if (text.source.size() != text.target.size()) {
    throw UsageError(name_of(source) + ": has " + std::to_string(text.source.size()) +
                     " lines, but " + name_of(target).substr(7) + " has " +
                     std::to_string(text.target.size()) +
                     "; line n of one must be the translation of line n of the other");
  }
  return text;
}

}  // namespace pal
