// Greedy search, beam search and scoring over the encoder's and the decoder's programs.
#include "train/translation/translator.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/parallel.h"
#include "data/vocabulary.h"
#include "ops/kernels/math.h"

namespace pal {
int32_t likeliest(const BestWords& row, bool allow_unknown) {
  if (std::isnan(row.ends[0])) return Vocabulary::kEnd;
  for (size_t n = 0; n < row.words.size() && !std::isnan(row.scores[n]); ++n) {
    const int32_t word = row.words[n];
    if (word >= Vocabulary::kEnd || (word == Vocabulary::kUnknown && allow_unknown)) return word;
  }
  return Vocabulary::kEnd;
}

int32_t likeliest(std::span<const float> scores, bool allow_unknown) {
  const auto end = static_cast<size_t>(Vocabulary::kEnd);
  size_t best = end;
  if (allow_unknown && scores[size_t(Vocabulary::kUnknown)] >= scores[end]) {
    best = static_cast<size_t>(Vocabulary::kUnknown);
  }
  for (size_t id = end + 1; id < scores.size(); ++id) {
    if (scores[id] > scores[best]) best = id;
  }
  return static_cast<int32_t>(best);
}

void average_log_probs(std::span<const float* const> models, std::span<float> out) {
  const auto count = static_cast<float>(models.size());
  for (size_t i = 0; i < out.size(); ++i) {
    float most = models[0][i];
    for (const float* model : models) most = std::max(most, model[i]);
    float sum = 0;
    for (const float* model : models) sum += pal::exp(model[i] - most);
    // -inf - -inf is NaN: a word that is impossible for all stays so.
    out[i] = most == -std::numeric_limits<float>::infinity() ? most : most + pal::log(sum / count);
  }
}

Translator::Translator(std::vector<Member> members, int64_t batch)
    : members_(std::move(members)), batch_(batch) {
  for (const Member& member : members_) {
    if (member.model.target_vocab != members_[0].model.target_vocab) {
      throw ProgramError("[translate] models of an ensemble have one target vocabulary, not " +
                         std::to_string(members_[0].model.target_vocab) + " and " +
                         std::to_string(member.model.target_vocab) + " words");
    }
  }
  if (members_.empty()) throw ProgramError("[translate] no model to translate with");
}

int64_t Translator::rung(int64_t length, size_t member) const {
  const std::vector<int64_t>& lengths = members_[member].lengths;
  const auto found = std::lower_bound(lengths.begin(), lengths.end(), length);
  return found != lengths.end() ? *found : (length + 9) / 10 * 10;
}

template <class Use>
void Translator::in_batches(std::span<const Sentences> sources, Use use) const {
  if (sources.size() != members_.size()) {
    throw ProgramError("[translate] " + std::to_string(members_.size()) +
                       " models, but sources "
                       "for " +
                       std::to_string(sources.size()));
  }
  std::vector<size_t> rows;  // with words, shortest first, so that a batch's sentences are alike
  for (size_t i = 0; i < sources[0].size(); ++i) {
    const bool words = std::all_of(sources.begin(), sources.end(),
                                   [i](const Sentences& own) { return !own[i].empty(); });
    if (words) rows.push_back(i);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [&](size_t a, size_t b) { return sources[0][a].size() < sources[0][b].size(); });
  const auto batch = static_cast<size_t>(batch_);
  for (size_t at = 0; at < rows.size(); at += batch) {
    use(std::span<const size_t>(rows).subspan(at, std::min(batch, rows.size() - at)));
  }
}

void Translator::start(std::span<const Sentences> sources, std::span<const size_t> rows,
                       int64_t beam, int64_t most_steps) {
  const auto batch = static_cast<size_t>(batch_);
  scorers_.clear();
  for (size_t m = 0; m < members_.size(); ++m) {
    size_t longest = 0;
    for (const size_t row : rows) longest = std::max(longest, sources[m][row].size());
    const int64_t steps = rung(static_cast<int64_t>(longest), m);
    std::vector<int32_t> source(static_cast<size_t>(steps) * batch, Vocabulary::kPad);  // (S, B)
    std::vector<int32_t> lengths(batch, 0);
    for (size_t b = 0; b < rows.size(); ++b) {
      const std::vector<int32_t>& words = sources[m][rows[b]];
      for (size_t s = 0; s < words.size(); ++s) source[s * batch + b] = words[s];
      lengths[b] = static_cast<int32_t>(words.size());
    }
    scorers_.emplace_back(*members_[m].programs, members_[m].model, batch_, beam);
    scorers_.back().start(steps, source, lengths, most_steps);
  }
}

void Translator::step(std::span<const int32_t> words, std::span<const int32_t> parents) {
  for (TranslationScorer& scorer : scorers_) scorer.step(words, parents);
}

const float* Translator::log_probs() {
  if (!is_ensemble()) return scorers_[0].log_probs();
  std::vector<const float*> scores;
  for (TranslationScorer& scorer : scorers_) scores.push_back(scorer.log_probs());
  average_.resize(static_cast<size_t>(scorers_[0].rows() * members_[0].model.target_vocab));
  average_log_probs(scores, average_);
  return average_.data();
}

std::vector<std::vector<int32_t>> Translator::greedy(Sentences sources, bool allow_unknown,
                                                     const Dealt& dealt) {
  const std::vector<Sentences> all(members_.size(), sources);
  const auto vocabulary = static_cast<size_t>(members_[0].model.target_vocab);
  std::vector<std::vector<int32_t>> out(sources.size());
  int64_t batches = 0;
  in_batches(all, [&](std::span<const size_t> rows) {
    if (!dealt.owns(batches++)) return;
    auto most = [&](size_t row) {
      return static_cast<size_t>(longest_translation(static_cast<int64_t>(sources[row].size())));
    };
    start(all, rows, 1, static_cast<int64_t>(most(rows.back())) + 1);  // the longest is the last
    std::vector<int32_t> words(static_cast<size_t>(batch_), Vocabulary::kBegin);
    std::vector<bool> ended(rows.size(), false);
    for (size_t left = rows.size(); left > 0;) {
      step(words);
      const float* scores = is_ensemble() ? log_probs() : nullptr;  // (B, V)
      const BestWords best = is_ensemble() ? BestWords{} : scorers_[0].best();
      for (size_t b = 0; b < rows.size(); ++b) {
        if (ended[b]) continue;
        words[b] = scores ? likeliest({scores + b * vocabulary, vocabulary}, allow_unknown)
                          : likeliest(best.of_rows(b, 1), allow_unknown);
        std::vector<int32_t>& made = out[rows[b]];
        if (words[b] != Vocabulary::kEnd) made.push_back(words[b]);
        if (words[b] == Vocabulary::kEnd || made.size() == most(rows[b])) {
          ended[b] = true;
          --left;
        }
      }
    }
  });
  return out;
}

void Translator::add_programs(Sentences sources) {
  const std::vector<Sentences> all(members_.size(), sources);
  in_batches(all, [&](std::span<const size_t> rows) {
    size_t longest = 0;
    for (const size_t row : rows) longest = std::max(longest, sources[row].size());
    const auto words = static_cast<int64_t>(longest);
    for (size_t m = 0; m < members_.size(); ++m) {
      TranslationScorer(*members_[m].programs, members_[m].model, batch_)
          .add_programs(rung(words, m), longest_translation(words) + 1);
    }
  });
}

void Translator::beam_batch(std::span<const Sentences> sources, std::span<const size_t> rows,
                            const BeamOptions& options, std::vector<std::vector<Hypothesis>>& out) {
  const auto vocabulary = static_cast<size_t>(members_[0].model.target_vocab);
  const auto width = static_cast<size_t>(options.beam);
  auto most = [&](size_t row) {
    return longest_translation(static_cast<int64_t>(sources[0][row].size()));
  };
  start(sources, rows, options.beam, most(rows.back()) + 1);  // the longest is the last
  std::vector<Beam> beams;
  for (const size_t row : rows) beams.emplace_back(options, most(row));
  const size_t all = static_cast<size_t>(batch_) * width;
  std::vector<int32_t> words(all, Vocabulary::kBegin), parents(all);
  for (size_t i = 0; i < all; ++i) parents[i] = static_cast<int32_t>(i);
  auto open = [](const Beam& beam) { return !beam.done(); };
  // A batch's beams are independent of each other: any number of threads finds the same.
  const Queue queue{.workers = members_[0].programs->device().threads};
  while (std::any_of(beams.begin(), beams.end(), open)) {
    step(words, parents);
    const float* scores = is_ensemble() ? log_probs() : nullptr;  // (B * beam, V)
    const BestWords best = is_ensemble() ? BestWords{} : scorers_[0].best();
    parallel_chunks(queue, static_cast<int64_t>(beams.size()), 1, [&](int64_t b, int64_t) {
      Beam& beam = beams[static_cast<size_t>(b)];
      if (beam.done()) return;
      const size_t first = static_cast<size_t>(b) * width;
      if (scores) {
        beam.advance({scores + first * vocabulary, width * vocabulary});
      } else {
        const BestWords own = best.of_rows(first, width);
        beam.advance(own.scores, own.words, own.ends);
      }
      for (size_t k = 0; k < width; ++k) {
        words[first + k] = beam.words()[k];
        parents[first + k] = static_cast<int32_t>(first) + beam.parents()[k];
      }
    });
  }
  for (size_t b = 0; b < rows.size(); ++b) out[rows[b]] = beams[b].best();
}

std::vector<std::vector<Hypothesis>> Translator::beam(std::span<const Sentences> sources,
                                                      const BeamOptions& options) {
  check_beam(options);
  std::vector<std::vector<Hypothesis>> out(sources[0].size());
  in_batches(sources,
             [&](std::span<const size_t> rows) { beam_batch(sources, rows, options, out); });
  for (std::vector<Hypothesis>& best : out) {
    if (best.empty()) best.emplace_back();
  }
  return out;
}

std::vector<std::vector<Hypothesis>> Translator::beam(Sentences sources,
                                                      const BeamOptions& options) {
  return beam(std::vector<Sentences>(members_.size(), sources), options);
}

std::vector<double> Translator::score(std::span<const Sentences> sources, Sentences targets) {
  const auto vocabulary = static_cast<size_t>(members_[0].model.target_vocab);
  std::vector<double> out;
  for (const std::vector<int32_t>& target : targets) {
    out.push_back(target.empty() ? 0 : -std::numeric_limits<double>::infinity());
  }
  in_batches(sources, [&](std::span<const size_t> rows) {
    size_t longest = 0;
    for (const size_t row : rows) longest = std::max(longest, targets[row].size());
    start(sources, rows, 1, static_cast<int64_t>(longest) + 1);
    std::vector<int32_t> words(static_cast<size_t>(batch_), Vocabulary::kBegin);
    for (const size_t row : rows) out[row] = 0;
    for (size_t t = 0; t <= longest; ++t) {
      step(words);
      const float* scores = log_probs();  // (B, V)
      for (size_t b = 0; b < rows.size(); ++b) {
        const std::vector<int32_t>& target = targets[rows[b]];
        if (t > target.size()) continue;
        words[b] = t < target.size() ? target[t] : Vocabulary::kEnd;
        out[rows[b]] += static_cast<double>(scores[b * vocabulary + static_cast<size_t>(words[b])]);
      }
    }
  });
  return out;
}

std::vector<double> Translator::score(Sentences sources, Sentences targets) {
  return score(std::vector<Sentences>(members_.size(), sources), targets);
}

}  // namespace pal
