// Builds, saves, loads and applies vocabularies.
#include "data/vocabulary.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "data/atomic_file.h"
#include "data/utf8.h"

namespace pal {
namespace {

constexpr std::string_view kSpecialWords[Vocabulary::kSpecials] = {"<pad>", "<unk>", "<s>", "</s>"};

// What is wrong with a word, or nothing.
std::string defect_of(std::string_view word) {
  if (word.empty()) return "is empty; remove the line";
  if (find_invalid_utf8(word) != std::string_view::npos) {
    return "is invalid UTF-8; convert the file to UTF-8";
  }
  const std::vector<std::string_view> parts = split_words(word);
  if (parts.size() != 1 || parts[0] != word) {
    return "holds white space ('" + std::string(word) +
           "'); write one word a line, with a count on every line or on none";
  }
  return {};
}

[[noreturn]] void fail(const std::string& where, size_t line, const std::string& what) {
  throw UsageError("[vocabulary] " + where + ": line " + std::to_string(line) + " " + what);
}

std::string repeats(std::string_view word, size_t line) {
  return "repeats '" + std::string(word) + "' of line " + std::to_string(line) +
         "; remove one of the two";
}

// The word of "word 12", or an empty view when the line is something else.
std::string_view counted_word(std::string_view line) {
  const size_t gap = line.find_last_of(" \t");
  if (gap == std::string_view::npos || gap + 1 == line.size()) return {};
  if (line.find_first_not_of("0123456789", gap + 1) != std::string_view::npos) return {};
  return line.substr(0, gap);
}

bool is_special(std::string_view word) {
  return std::find(std::begin(kSpecialWords), std::end(kSpecialWords), word) !=
         std::end(kSpecialWords);
}

}  // namespace

Vocabulary::Vocabulary() {
  for (const std::string_view special : kSpecialWords) {
    ids_.emplace(special, size());
    words_.emplace_back(special);
  }
}

Vocabulary Vocabulary::from_words(std::vector<std::string> words, const std::string& where) {
  Vocabulary vocabulary;
  for (size_t i = 0; i < words.size() || i < kSpecials; ++i) {
    if (i < kSpecials) {
      if (i < words.size() && words[i] == kSpecialWords[i]) continue;
      fail(where, i + 1,
           "must be " + std::string(kSpecialWords[i]) +
               "; a vocabulary begins with <pad>, <unk>, <s>, </s>, a line each");
    }
    const std::string defect = defect_of(words[i]);
    if (!defect.empty()) fail(where, i + 1, defect);
    const auto [place, is_new] = vocabulary.ids_.emplace(words[i], vocabulary.size());
    if (!is_new) fail(where, i + 1, repeats(words[i], static_cast<size_t>(place->second) + 1));
    vocabulary.words_.push_back(std::move(words[i]));
  }
  return vocabulary;
}

Vocabulary Vocabulary::from_pieces(std::span<const std::string> pieces) {
  Vocabulary vocabulary;
  for (const std::string& piece : pieces) {
    if (is_special(piece)) continue;
    if (!vocabulary.ids_.emplace(piece, vocabulary.size()).second) {
      throw ProgramError("[vocabulary] the piece '" + piece + "' is given twice");
    }
    vocabulary.words_.push_back(piece);
  }
  return vocabulary;
}

Vocabulary Vocabulary::load(const CorpusFile& file) {
  return from_words(read_lines(file), to_string(file));
}

Vocabulary Vocabulary::load_any(const CorpusFile& file) {
  const std::vector<std::string> lines = read_lines(file);
  const std::string where = to_string(file);
  const bool counted = !counted_word(lines[0]).empty();
  Vocabulary vocabulary;
  std::vector<size_t> line_of(kSpecials, 0);  // by id; 0: not met yet
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string_view word = counted ? counted_word(lines[i]) : std::string_view(lines[i]);
    if (counted && word.empty()) {
      fail(where, i + 1, "lacks the count that line 1 has; write a count on every line or on none");
    }
    const std::string defect = defect_of(word);
    if (!defect.empty()) fail(where, i + 1, defect);
    const auto [place, is_new] = vocabulary.ids_.emplace(word, vocabulary.size());
    if (is_new) {
      vocabulary.words_.emplace_back(word);
      line_of.push_back(i + 1);
    } else {
      size_t& line = line_of[static_cast<size_t>(place->second)];
      if (line != 0) fail(where, i + 1, repeats(word, line));
      line = i + 1;  // a special: it has its id already
    }
  }
  return vocabulary;
}

void Vocabulary::save(const std::string& path) const {
  std::string text;
  for (const std::string& word : words_) text += word + "\n";
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

const std::string& Vocabulary::word(int32_t id) const {
  if (id < 0 || id >= size()) {
    throw ProgramError("[vocabulary] id " + std::to_string(id) + " is outside [0, " +
                       std::to_string(size()) + ")");
  }
  return words_[static_cast<size_t>(id)];
}

int32_t Vocabulary::id(std::string_view word) const {
  const auto found = ids_.find(word);
  return found == ids_.end() || found->second < kSpecials ? kUnknown : found->second;
}

std::vector<int32_t> Vocabulary::encode(std::span<const std::string> words, bool append_end) const {
  std::vector<int32_t> ids;
  ids.reserve(words.size() + (append_end ? 1 : 0));
  for (const std::string& each : words) ids.push_back(id(each));
  if (append_end) ids.push_back(kEnd);
  return ids;
}

std::vector<std::string> Vocabulary::decode(std::span<const int32_t> ids) const {
  std::vector<std::string> words;
  for (const int32_t each : ids) {
    if (each == kEnd) break;
    if (each != kPad && each != kBegin) words.push_back(word(each));
  }
  return words;
}

void WordCounter::add(std::span<const std::string> words) {
  for (const std::string& word : words) ++counts_[word];
}

int64_t WordCounter::count(std::string_view word) const {
  const auto found = counts_.find(word);
  return found == counts_.end() ? 0 : found->second;
}

Vocabulary WordCounter::vocabulary(const VocabularyOptions& options) const {
  std::vector<std::pair<int64_t, std::string_view>> ranked;
  for (const auto& [word, count] : counts_) {
    if (!is_special(word) && count >= options.min_count) ranked.emplace_back(-count, word);
  }
  std::sort(ranked.begin(), ranked.end());  // string_view compares bytes as unsigned
  if (options.max_words > 0 && ranked.size() > static_cast<size_t>(options.max_words)) {
    ranked.resize(static_cast<size_t>(options.max_words));
  }
  std::vector<std::string> words(std::begin(kSpecialWords), std::end(kSpecialWords));
  for (const auto& [count, word] : ranked) words.emplace_back(word);
  return Vocabulary::from_words(std::move(words), "the corpus");
}

}  // namespace pal
