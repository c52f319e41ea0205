// Sentences drawn at random.
#include "data/made_up_text.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "data/draws.h"

namespace pal {
namespace {

// Numbers of words: ranks from 0, the most frequent first.
using Ranks = std::vector<int32_t>;

// A sentence about as long as a subtitle of IWSLT's talks (log-normal, 20 words in the mean), its
// words by Zipf's law.
Ranks make_up_source(Draws& draws, int32_t words) {
  const double length = std::exp(2.8 + 0.65 * draws.normal());
  Ranks sentence(static_cast<size_t>(std::clamp(std::lround(length), 1L, 300L)));
  constexpr double kOffset = 2.7;  // Mandelbrot's
  for (int32_t& rank : sentence) {
    const double at = kOffset * std::pow((words + kOffset) / kOffset, draws.uniform()) - kOffset;
    rank = std::min(static_cast<int32_t>(at), words - 1);
  }
  return sentence;
}

// Its "translation": word by word, every fourth word of the vocabulary becomes two, and an odd rank
// changes places with an even one after it.
Ranks translate_ranks(Ranks source, int32_t words) {
  for (size_t i = 0; i + 1 < source.size(); ++i) {
    if (source[i] % 2 == 1 && source[i + 1] % 2 == 0) {
      std::swap(source[i], source[i + 1]);
      ++i;
    }
  }
  Ranks target;
  for (const int32_t rank : source) {
    target.push_back(rank % words);
    if (rank % 4 == 3) target.push_back((rank + 1) % words);
  }
  return target;
}

}  // namespace

std::vector<MadeUpPair> make_up_text(const Vocabulary& source, const Vocabulary& target, int pairs,
                                     uint64_t seed, uint32_t stream) {
  Draws draws(seed, 0, stream);
  const int32_t source_words = source.size() - Vocabulary::kSpecials;
  const int32_t target_words = target.size() - Vocabulary::kSpecials;
  if (source_words < 1 || target_words < 1) {
    throw UsageError(
        "[vocabulary] a vocabulary holds no word to make text of (data.synthetic); "
        "name another file, or none");
  }
  std::vector<MadeUpPair> text;
  for (int pair = 0; pair < pairs; ++pair) {
    Ranks from = make_up_source(draws, source_words);
    Ranks to = translate_ranks(from, target_words);
    for (int32_t& rank : from) rank += Vocabulary::kSpecials;
    for (int32_t& rank : to) rank += Vocabulary::kSpecials;
    text.push_back({std::move(from), std::move(to)});
  }
  return text;
}

Vocabulary numbered_words(const std::string& prefix, int64_t count) {
  std::vector<std::string> words = Vocabulary().words();
  for (int64_t i = 1; i <= count; ++i) words.push_back(prefix + std::to_string(i));
  return Vocabulary::from_words(std::move(words), "made-up words");
}

}  // namespace pal
