// SentencePiece (Kudo & Richardson 2018): words in pieces that are learned from text, by the
// library of that name. A value that is cheap to copy; the library stays behind this header.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/text.h"

namespace pal {

class SentencePiece {
 public:
  struct Options {
    std::string model = "unigram";  // or "bpe"
    int64_t pieces = 8000;          // at most; a small text has fewer
    size_t most_lines = 5'000'000;  // of all texts; of more, evenly spaced ones are used
  };

  // Learns a model from the lines of all texts; the same texts give the same bytes. Text is
  // normalised by the library's nmt_nfkc, which leaves out lines of more than 4,192 bytes.
  // UsageError: nothing to learn from, or fewer pieces asked for than there are letters.
  static SentencePiece train(std::span<const std::vector<std::string>* const> texts,
                             const Options& options);
  // An existing .model file. UsageError: missing, unreadable, no such model.
  static SentencePiece load(const CorpusFile& file);
  // Replaces the file as a whole or not at all. Error (exit 1) when it cannot be written.
  void save(const std::string& path) const;

  // The pieces that a text may be cut into, in the model's order; not its <unk>, <s> and </s>.
  const std::vector<std::string>& pieces() const;

  // A line in pieces; a letter that the model does not know is a piece that it does not list.
  // May be called by several threads.
  std::vector<std::string> encode(std::string_view line) const;
  // Pieces as a line: what encode() was given, normalised.
  std::string decode(std::span<const std::string> pieces) const;

  bool operator==(const SentencePiece& other) const;  // the same model, byte by byte

 private:
  struct Model;
  explicit SentencePiece(std::shared_ptr<const Model> model) : model_(std::move(model)) {}
  static SentencePiece from_bytes(std::string bytes, const std::string& where);

  std::shared_ptr<const Model> model_;
};

}  // namespace pal
