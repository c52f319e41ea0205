// Numbers a corpus.
#include "data/encoded_text.h"

namespace pal {

void EncodedText::add(std::span<const int32_t> source, std::span<const int32_t> target) {
  ids_.insert(ids_.end(), source.begin(), source.end());
  const int64_t source_end = static_cast<int64_t>(ids_.size());
  ids_.insert(ids_.end(), target.begin(), target.end());
  ends_.push_back({source_end, static_cast<int64_t>(ids_.size())});
}

std::span<const int32_t> EncodedText::source(int64_t pair) const {
  return {ids_.data() + begin(pair), ids_.data() + ends_[static_cast<size_t>(pair)].source};
}

std::span<const int32_t> EncodedText::target(int64_t pair) const {
  const End& end = ends_[static_cast<size_t>(pair)];
  return {ids_.data() + end.source, ids_.data() + end.target};
}

PairLength EncodedText::length(int64_t pair) const {
  return {static_cast<int32_t>(source(pair).size()), static_cast<int32_t>(target(pair).size()) + 1};
}

std::vector<PairLength> EncodedText::lengths() const {
  std::vector<PairLength> all;
  all.reserve(ends_.size());
  for (int64_t pair = 0; pair < size(); ++pair) all.push_back(length(pair));
  return all;
}

EncodedText encode_text(const ParallelText& text, TextSide source, TextSide target) {
  EncodedText encoded;
  for (size_t i = 0; i < text.source.size(); ++i) {
    encoded.add(source.vocabulary.encode(source.segmenter.split(text.source[i])),
                target.vocabulary.encode(target.segmenter.split(text.target[i])));
  }
  return encoded;
}

void count_words(std::span<const std::string> lines, const Segmenter& segmenter,
                 WordCounter& counter) {
  for (const std::string& line : lines) counter.add(segmenter.split(line));
}

}  // namespace pal
