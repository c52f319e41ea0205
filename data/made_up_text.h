// Made-up parallel text, for runs whose speed and memory matter and whose words do not: sentences
// of the usual lengths, words by Zipf's law, and a "translation" that a model can learn.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/vocabulary.h"

namespace pal {

// A pair of sentences in ids.
struct MadeUpPair {
  std::vector<int32_t> source, target;
};

// `pairs` pairs that depend on (seed, stream) and the vocabularies' sizes alone. UsageError when a
// vocabulary has no word.
std::vector<MadeUpPair> make_up_text(const Vocabulary& source, const Vocabulary& target, int pairs,
                                     uint64_t seed, uint32_t stream);

// prefix1, prefix2, ... as a vocabulary.
Vocabulary numbered_words(const std::string& prefix, int64_t count);

}  // namespace pal
