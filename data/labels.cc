// Transcripts to label numbers and back.
#include "data/labels.h"

#include <utf8proc.h>

#include <algorithm>

#include "core/error.h"
#include "data/atomic_file.h"
#include "data/utf8.h"

namespace pal {
namespace {

std::string to_utf8(int32_t code_point) {
  utf8proc_uint8_t bytes[4];
  const auto n = utf8proc_encode_char(code_point, bytes);
  return {reinterpret_cast<char*>(bytes), static_cast<size_t>(n)};
}

}  // namespace

Labels::Labels() {
  symbols_.emplace_back("'");
  for (char c = 'a'; c <= 'z'; ++c) symbols_.emplace_back(1, c);
  symbols_.emplace_back(" ");
}

Labels Labels::load(const CorpusFile& file) {
  Labels labels;
  labels.symbols_.clear();
  for (const std::string& line : read_lines(file)) {
    const std::string where = file.path + ":" + std::to_string(labels.symbols_.size() + 1) + ": ";
    size_t end = 0;
    if (line.empty() || decode_utf8(line, end) < 0 || end != line.size()) {
      throw UsageError(where + "want one symbol a line, got '" + line.substr(0, 40) + "'");
    }
    if (std::count(labels.symbols_.begin(), labels.symbols_.end(), line) > 0) {
      throw UsageError(where + "'" + line + "' is there twice; remove one");
    }
    labels.symbols_.push_back(line);
  }
  return labels;
}

void Labels::save(const std::string& path) const {
  AtomicFile file(path);
  for (const std::string& symbol : symbols_) {
    file.write(symbol.data(), symbol.size());
    file.write("\n", 1);
  }
  file.commit();
}

bool Labels::has_space() const {
  return std::find(symbols_.begin(), symbols_.end(), " ") != symbols_.end();
}

std::optional<std::vector<int32_t>> Labels::encode(std::string_view transcript, bool lowercase,
                                                   std::string* unknown) const {
  std::vector<int32_t> ids;
  auto add = [&](const std::string& symbol) {
    const auto at = std::find(symbols_.begin(), symbols_.end(), symbol);
    if (at != symbols_.end()) {
      ids.push_back(static_cast<int32_t>(at - symbols_.begin()) + 1);
    } else if (unknown) {
      *unknown = symbol;
    }
    return at != symbols_.end();
  };
  for (const std::string_view word : split_words(transcript)) {
    if (!ids.empty() && !add(" ")) return std::nullopt;
    for (size_t pos = 0; pos < word.size();) {
      int32_t c = decode_utf8(word, pos);
      if (c < 0) c = 0xFFFD;
      if (!add(to_utf8(lowercase ? utf8proc_tolower(c) : c))) return std::nullopt;
    }
  }
  return ids;
}

std::string Labels::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) text += symbols_.at(static_cast<size_t>(id - 1));
  return text;
}

int64_t least_steps(std::span<const int32_t> labels) {
  auto steps = static_cast<int64_t>(labels.size());
  for (size_t i = 1; i < labels.size(); ++i) steps += labels[i] == labels[i - 1];
  return steps;
}

}  // namespace pal
