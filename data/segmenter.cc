// Asks the rule or the model.
#include "data/segmenter.h"

namespace pal {

std::vector<std::string> Segmenter::split(std::string_view line) const {
  if (const SentencePiece* model = pieces()) return model->encode(line);
  return tokenize(line, std::get<Tokenizer>(way_));
}

std::string Segmenter::join(std::span<const std::string> units) const {
  if (const SentencePiece* model = pieces()) return model->decode(units);
  return detokenize(units, std::get<Tokenizer>(way_));
}

}  // namespace pal
