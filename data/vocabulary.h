// Words and their numbers. Ids 0..3 are the specials <pad> <unk> <s> </s>; words follow by
// falling frequency, or in the order of the file that they come from.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/text.h"

namespace pal {

struct StringHash {
  using is_transparent = void;  // look-ups by string_view make no string
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
template <typename T>
using StringMap = std::unordered_map<std::string, T, StringHash, std::equal_to<>>;

class Vocabulary {
 public:
  static constexpr int32_t kPad = 0, kUnknown = 1, kBegin = 2, kEnd = 3, kSpecials = 4;

  Vocabulary();  // the specials alone

  // From the full list, specials first: what words() gives. UsageError, naming `where` and the
  // line (position + 1): a special is missing, a word is empty, repeated, invalid UTF-8, or holds
  // white space.
  static Vocabulary from_words(std::vector<std::string> words, const std::string& where);

  // From the pieces of a SentencePiece model, in their order, after the specials. Pieces may hold
  // any text; those that look like a special are left out, since none is meant in a text.
  static Vocabulary from_pieces(std::span<const std::string> pieces);

  // A file that save() wrote. UsageError as from_words and read_lines.
  static Vocabulary load(const CorpusFile& file);
  // Anybody's vocabulary file: a word a line, or on every line a word, one space or TAB, and a
  // count (as fairseq and tensor2tensor write; the count is not used). Specials may stand anywhere,
  // all, some (Luong's files begin with <unk> <s> </s>) or none, and get our ids; the words follow
  // in the file's order. UsageError as load, or when a count is missing.
  static Vocabulary load_any(const CorpusFile& file);
  // Replaces the file as a whole or not at all. Error (exit 1) when it cannot be written.
  void save(const std::string& path) const;

  int size() const { return static_cast<int>(words_.size()); }  // specials included
  const std::vector<std::string>& words() const { return words_; }
  const std::string& word(int32_t id) const;  // ProgramError when out of range

  // kUnknown for words that are not listed, and for text that looks like a special.
  int32_t id(std::string_view word) const;

  // Ids of the words; </s> is appended when asked for.
  std::vector<int32_t> encode(std::span<const std::string> words, bool append_end = false) const;
  // Words of the ids up to the first </s>; <pad> and <s> are left out.
  std::vector<std::string> decode(std::span<const int32_t> ids) const;

 private:
  std::vector<std::string> words_;
  StringMap<int32_t> ids_;
};

struct VocabularyOptions {
  int64_t max_words = 0;  // how many words at most, specials not counted; 0: no limit
  int64_t min_count = 1;  // rarer words become <unk>
};

// Counts words, of one text or (for a shared vocabulary) of several.
class WordCounter {
 public:
  void add(std::span<const std::string> words);
  int64_t count(std::string_view word) const;
  // The most frequent words; equally frequent ones in the order of their bytes.
  Vocabulary vocabulary(const VocabularyOptions& options) const;

 private:
  StringMap<int64_t> counts_;
};

}  // namespace pal
