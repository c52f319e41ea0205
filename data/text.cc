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

// How every message about a file begins.
std::string name_of(const CorpusFile& file) { return "[text] " + to_string(file); }

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
  std::string bytes = read_bytes(in.get());
  if (std::ferror(in.get())) fail_to_open(file, "cannot be read to its end");
  return bytes;
}

}  // namespace

std::string to_string(const CorpusFile& file) {
  return file.path + (file.key.empty() ? "" : " (" + file.key + ")");
}

std::string too_long_line() {
  return "longer than " + std::to_string(kMostLineBytes >> 20) +
         " MiB, which is no sentence; write one sentence a line";
}

std::string defect_of_line(std::string_view line, size_t begin) {
  if (line.size() > kMostLineBytes) return too_long_line();
  const auto at = [&](size_t offset) {
    return " at byte offset " + std::to_string(begin + offset) + " of the file; ";
  };
  const size_t bad = find_invalid_utf8(line);
  if (bad != std::string_view::npos) {
    char hex[8];
    std::snprintf(hex, sizeof hex, "0x%02X", unsigned{static_cast<unsigned char>(line[bad])});
    return std::string("invalid UTF-8, byte ") + hex + at(bad) +
           "convert the file to UTF-8, for instance with iconv";
  }
  const size_t nul = line.find('\0');
  if (nul != std::string_view::npos) {
    return "a NUL byte" + at(nul) + "if the file is UTF-16, convert it to UTF-8 with iconv";
  }
  return {};
}

std::string read_bytes(std::FILE* in) {
  std::string bytes;
  size_t line = 0;  // where the line that is not finished begins
  char block[1 << 16];
  size_t count = 0;
  while (bytes.size() - line <= kMostLineBytes + 4 &&  // a mark and a CR are no part of it
         (count = std::fread(block, 1, sizeof block, in)) > 0) {
    bytes.append(block, count);
    const size_t newline = std::string_view(block, count).rfind('\n');
    if (newline != std::string_view::npos) line = bytes.size() - count + newline + 1;
  }
  return bytes;
}

std::vector<std::string> split_lines(std::string_view bytes, const std::string& name) {
  size_t begin = bytes.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  std::vector<std::string> lines;
  while (begin < bytes.size()) {
    const size_t newline = bytes.find('\n', begin);
    size_t end = newline == std::string::npos ? bytes.size() : newline;
    const size_t next = newline == std::string::npos ? end : end + 1;
    if (end > begin && bytes[end - 1] == '\r') --end;
    const std::string_view line = bytes.substr(begin, end - begin);
    const std::string defect = defect_of_line(line, begin);
    if (!defect.empty()) {
      throw UsageError(name + ": line " + std::to_string(lines.size() + 1) + ": " + defect);
    }
    lines.emplace_back(line);
    begin = next;
  }
  return lines;
}

std::vector<std::string> read_lines(const CorpusFile& file) {
  std::vector<std::string> lines = split_lines(read_whole(file), name_of(file));
  if (lines.empty()) {
    throw UsageError(name_of(file) + ": the file is empty; it must hold one sentence a line");
  }
  return lines;
}

ParallelText read_parallel_text(const CorpusFile& source, const CorpusFile& target) {
  ParallelText text{read_lines(source), read_lines(target)};
  if (text.source.size() != text.target.size()) {
    throw UsageError(name_of(source) + ": has " + std::to_string(text.source.size()) +
                     " lines, but " + to_string(target) + " has " +
                     std::to_string(text.target.size()) +
                     "; line n of one must be the translation of line n of the other");
  }
  return text;
}

}  // namespace pal
