// From the labels' probabilities at every step to the labels.
#pragma once
#include <cstdint>
#include <vector>

namespace pal {

// One utterance's log probabilities: step t's `labels` numbers begin at data + t * stride. Number 0
// is the blank.
struct LogProbs {
  const float* data;
  int64_t steps, stride, labels;
  float at(int64_t t, int64_t label) const { return data[t * stride + label]; }
};

struct Spelling {
  std::vector<int32_t> labels;
  double log_prob = 0;  // of its likeliest alignment (greedy), of all that the beam held (beam)
};

// The likeliest label of every step, repetitions and blanks taken out (Graves et al. 2006, best
// path).
Spelling ctc_greedy(const LogProbs& probs);

// Prefix beam search (Hannun et al. 2014, without a language model): the `beam` likeliest
// beginnings after every step, the alignments of each added up. Among equals the one found first.
Spelling ctc_beam(const LogProbs& probs, int64_t beam);

}  // namespace pal
