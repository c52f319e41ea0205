// A corpus as numbers: every sentence pair in one flat array, so that a million pairs cost three
// allocations and a batch is filled by copying.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "data/segmenter.h"
#include "data/text.h"
#include "data/vocabulary.h"

namespace pal {

// Steps that a pair takes on either side. The target counts its </s>.
struct PairLength {
  int32_t source = 0, target = 0;
};

// A side without a word: nothing to learn from.
inline bool is_empty_pair(PairLength length) { return length.source < 1 || length.target < 2; }

class EncodedText {
 public:
  // Appends a pair of id sequences, both without <s> and </s> (unless the source is meant to end
  // with one). Either may be empty: a text to translate has empty targets.
  void add(std::span<const int32_t> source, std::span<const int32_t> target);

  int64_t size() const { return static_cast<int64_t>(ends_.size()); }
  std::span<const int32_t> source(int64_t pair) const;
  std::span<const int32_t> target(int64_t pair) const;
  PairLength length(int64_t pair) const;  // (source, target + 1 for </s>)
  std::vector<PairLength> lengths() const;

 private:
  struct End {
    int64_t source, target;
  };
  int64_t begin(int64_t pair) const { return pair == 0 ? 0 : ends_[size_t(pair) - 1].target; }

  std::vector<int32_t> ids_;  // source 0, target 0, source 1, target 1, ...
  std::vector<End> ends_;     // where each stops in ids_
};

// One language of a corpus as numbers: how its lines are split, and what the parts' ids are.
struct TextSide {
  const Segmenter& segmenter;
  const Vocabulary& vocabulary;
};
// Splits and numbers a corpus.
EncodedText encode_text(const ParallelText& text, TextSide source, TextSide target);

// The words of some lines, counted for a vocabulary.
void count_words(std::span<const std::string> lines, const Segmenter& segmenter,
                 WordCounter& counter);

}  // namespace pal
