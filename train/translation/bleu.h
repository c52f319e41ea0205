// Corpus BLEU (Papineni et al. 2002), number for number what sacreBLEU prints by default (Post
// 2018): tokenizer 13a, exponential smoothing, case kept, one reference.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace pal {

enum class BleuTokenizer {
  mteval_13a,  // sacreBLEU's default: apply to plain (detokenised) text
  none         // words as they stand: for text that is tokenised already
};

struct BleuScore {
  double score = 0;                    // 0..100
  std::array<int64_t, 4> correct{};    // n-grams of the hypotheses found in the references, clipped
  std::array<int64_t, 4> total{};      // n-grams of the hypotheses
  std::array<double, 4> precisions{};  // percent, smoothed
  double brevity_penalty = 0;
  int64_t hypothesis_length = 0, reference_length = 0;  // words
  std::string signature;  // nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:palimpsest-1

  // "BLEU = 27.31 60.1/33.2/... (BP = 1.000 ratio = 1.020 hyp_len = 1020 ref_len = 1000)"
  std::string print() const;
};

// Sentence i of `hypotheses` against sentence i of `references`. UsageError when their numbers
// differ or are 0.
BleuScore corpus_bleu(std::span<const std::string> hypotheses,
                      std::span<const std::string> references,
                      BleuTokenizer tokenizer = BleuTokenizer::mteval_13a);

// sacreBLEU's 13a: words separated by single spaces.
std::string tokenize_13a(std::string_view line);

}  // namespace pal
