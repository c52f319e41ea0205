// From a line to the units that a vocabulary numbers, and back: words by rule, or learned pieces.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/sentencepiece.h"
#include "data/tokenizer.h"

namespace pal {

// A value that is cheap to copy. May be used by several threads.
class Segmenter {
 public:
  Segmenter(Tokenizer rule = Tokenizer::whitespace) : way_(rule) {}
  Segmenter(SentencePiece model) : way_(std::move(model)) {}

  std::vector<std::string> split(std::string_view line) const;
  // The reverse, up to white space and the model's normalisation.
  std::string join(std::span<const std::string> units) const;

  const SentencePiece* pieces() const { return std::get_if<SentencePiece>(&way_); }  // or null
  bool operator==(const Segmenter&) const = default;  // they split every line alike

 private:
  std::variant<Tokenizer, SentencePiece> way_;
};

}  // namespace pal
