// Beam search for one sentence, apart from any model: scores of next words go in, the words and the
// rows to go on from come out.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace pal {

struct BeamOptions {
  int64_t beam = 5;           // hypotheses that are extended side by side
  double length_penalty = 1;  // a in log P / n^a, n words with </s>; 0: the plain log probability
  int64_t n_best = 1;         // how many are asked for; at most `beam`
  // Whether <unk> may be chosen. A reference never holds it, so the next best word serves the
  // reader better; Marian's default, too.
  bool allow_unknown = false;
};
// UsageError when a number is out of range, in the words of the command line.
void check_beam(const BeamOptions& options);

struct Hypothesis {
  std::vector<int32_t> words;  // without <s> and </s>
  double log_prob = 0;         // of the words and </s>
  double score = 0;            // log_prob / (words + 1)^length_penalty; higher is better
};

// The search over word sequences of at most `longest` words and </s>. At every step the `beam` most
// probable continuations count: those that end are kept aside, and the best `beam` that do not end
// go on. It stops when
//   - `beam` hypotheses have ended (fairseq's rule), or
//   - no open one can become one of the n best: its log probability only falls, so its score cannot
//     exceed log_prob / (longest + 1)^a (Huang et al. 2017, "When to Finish?").
// The score is normalised as in Marian, fairseq and Sockeye 3: n^a, not the ((5 + n) / 6)^a of
// Wu et al. 2016, equation 14. Of equally probable continuations the one of the first row goes
// first, then the one with the lowest word id, so that a beam of 1 is greedy search.
class Beam {
 public:
  Beam(const BeamOptions& options, int64_t longest);

  bool done() const { return done_; }
  // For each of the `beam` rows: the word to feed next, and the row whose state it goes on from.
  // Rows without a hypothesis repeat row 0.
  std::span<const int32_t> words() const { return words_; }
  std::span<const int32_t> parents() const { return parents_; }
  // Takes the log probabilities of the next words, (beam, vocabulary). <pad> and <s> are never
  // chosen, nor are words whose probability is zero or NaN; when none is left, what there is ends.
  void advance(std::span<const float> log_probs);
  // The same from fewer: the best k words of each row and their log probabilities, (beam, k), best
  // first, of equals the one with the lowest id, and the log probabilities of </s>, (beam). With k
  // of at least 2 * beam + 3, or the vocabulary, nothing is chosen that would not be of all.
  void advance(std::span<const float> scores, std::span<const int32_t> words,
               std::span<const float> ends);
  // The n best that have ended, best first, all different. Fewer when there are no more.
  std::vector<Hypothesis> best() const;

 private:
  struct Candidate {
    double log_prob;
    int32_t row, word;
  };
  static bool before(const Candidate& a, const Candidate& b);
  void consider(size_t row, int32_t word, float score);
  void go_on();
  void end(const Hypothesis& open, double log_prob);
  bool settled() const;

  BeamOptions options_;
  int64_t longest_;
  int64_t length_ = 0;  // words of every open hypothesis
  bool done_ = false;
  std::vector<Hypothesis> open_;   // row by row; `score` is not in use
  std::vector<Hypothesis> ended_;  // best first
  std::vector<Candidate> candidates_;
  std::vector<int32_t> words_, parents_;
};

}  // namespace pal
