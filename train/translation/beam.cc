// Beam search for one sentence.
#include "train/translation/beam.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "core/error.h"
#include "data/vocabulary.h"

namespace pal {

void check_beam(const BeamOptions& options) {
  constexpr int64_t kWidest = 1000;
  if (options.beam < 1 || options.beam > kWidest) {
    throw UsageError("--beam: " + std::to_string(options.beam) + " is out of range; give 1 to " +
                     std::to_string(kWidest));
  }
  if (options.n_best < 1 || options.n_best > options.beam) {
    throw UsageError("--n-best: " + std::to_string(options.n_best) +
                     " is out of range; give 1 to " + std::to_string(options.beam) +
                     ", the --beam, or a wider beam");
  }
  if (!(options.length_penalty >= 0 && options.length_penalty <= 10)) {
    throw UsageError("--length-penalty: " + std::to_string(options.length_penalty) +
                     " is out of range; give 0 (none) to 10");
  }
}

Beam::Beam(const BeamOptions& options, int64_t longest)
    : options_(options),
      longest_(longest),
      open_(1),
      words_(static_cast<size_t>(options.beam), Vocabulary::kBegin),
      parents_(static_cast<size_t>(options.beam), 0) {
  check_beam(options);
}

bool Beam::before(const Candidate& a, const Candidate& b) {
  if (a.log_prob != b.log_prob) return a.log_prob > b.log_prob;
  return a.row != b.row ? a.row < b.row : a.word < b.word;
}

// Keeps the 2 * beam best continuations, in a heap whose top is the worst of them: each row can end
// only once, so that at least `beam` of them do not end, where there are so many.
void Beam::consider(size_t row, int32_t word, float score) {
  const auto most = static_cast<size_t>(2 * options_.beam);
  const Candidate one{open_[row].log_prob + static_cast<double>(score), static_cast<int32_t>(row),
                      word};
  if (!(one.log_prob > -std::numeric_limits<double>::infinity())) return;  // NaN, too
  if (candidates_.size() == most && !before(one, candidates_.front())) return;
  candidates_.push_back(one);
  std::push_heap(candidates_.begin(), candidates_.end(), before);
  if (candidates_.size() <= most) return;
  std::pop_heap(candidates_.begin(), candidates_.end(), before);
  candidates_.pop_back();
}

void Beam::end(const Hypothesis& open, double log_prob) {
  const double n = static_cast<double>(open.words.size()) + 1;
  const Hypothesis ended{open.words, log_prob, log_prob / std::pow(n, options_.length_penalty)};
  // After its equals: the one that ended first goes first.
  const auto at =
      std::upper_bound(ended_.begin(), ended_.end(), ended,
                       [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  ended_.insert(at, ended);
}

bool Beam::settled() const {
  const auto wanted = static_cast<size_t>(options_.n_best);
  if (ended_.size() >= static_cast<size_t>(options_.beam)) return true;
  if (ended_.size() < wanted) return false;
  const double most = open_.front().log_prob /  // the rows are sorted
                      std::pow(static_cast<double>(longest_ + 1), options_.length_penalty);
  return most <= ended_[wanted - 1].score;
}

void Beam::advance(std::span<const float> log_probs) {
  if (done_) throw ProgramError("[beam] advance() after the search was done");
  const size_t vocabulary = log_probs.size() / static_cast<size_t>(options_.beam);
  candidates_.clear();
  for (size_t row = 0; row < open_.size(); ++row) {
    const float* scores = log_probs.data() + row * vocabulary;
    if (length_ == longest_) {
      consider(row, Vocabulary::kEnd, scores[Vocabulary::kEnd]);
      continue;
    }
    if (options_.allow_unknown) {
      consider(row, Vocabulary::kUnknown, scores[Vocabulary::kUnknown]);
    }
    for (size_t word = Vocabulary::kEnd; word < vocabulary; ++word) {
      consider(row, static_cast<int32_t>(word), scores[word]);
    }
  }
  go_on();
}

void Beam::advance(std::span<const float> scores, std::span<const int32_t> words,
                   std::span<const float> ends) {
  if (done_) throw ProgramError("[beam] advance() after the search was done");
  const size_t k = words.size() / static_cast<size_t>(options_.beam);
  candidates_.clear();
  for (size_t row = 0; row < open_.size(); ++row) {
    if (length_ == longest_) {
      consider(row, Vocabulary::kEnd, ends[row]);
      continue;
    }
    for (size_t n = row * k; n < (row + 1) * k; ++n) {
      const bool chosen = words[n] >= Vocabulary::kEnd ||
                          (words[n] == Vocabulary::kUnknown && options_.allow_unknown);
      if (chosen) consider(row, words[n], scores[n]);
    }
  }
  go_on();
}

// From the candidates to the rows of the next step.
void Beam::go_on() {
  std::sort(candidates_.begin(), candidates_.end(), before);
  const auto width = static_cast<size_t>(options_.beam);
  if (candidates_.empty() && ended_.empty()) {
    end(open_.front(), -std::numeric_limits<double>::infinity());
  }
  std::vector<Hypothesis> next;
  std::vector<int32_t> words, parents;
  for (size_t i = 0; i < candidates_.size() && next.size() < width; ++i) {
    const auto [log_prob, row, word] = candidates_[i];
    const Hypothesis& from = open_[static_cast<size_t>(row)];
    if (word == Vocabulary::kEnd) {
      if (i < width) end(from, log_prob);
      continue;
    }
    next.push_back({from.words, log_prob, 0});
    next.back().words.push_back(word);
    words.push_back(word);
    parents.push_back(row);
  }
  open_ = std::move(next);
  ++length_;
  done_ = open_.empty() || settled();
  if (open_.empty()) return;
  words.resize(width, words.front());
  parents.resize(width, parents.front());
  words_ = std::move(words);
  parents_ = std::move(parents);
}

std::vector<Hypothesis> Beam::best() const {
  const size_t n = std::min(ended_.size(), static_cast<size_t>(options_.n_best));
  return {ended_.begin(), ended_.begin() + static_cast<std::ptrdiff_t>(n)};
}

}  // namespace pal
