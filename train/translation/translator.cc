// Greedy search, beam search and scoring over the encoder's and the decoder's programs.
#include "train/translation/translator.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "core/error.h"
#include "core/parallel.h"
#include "data/vocabulary.h"
#include "ops/kernels/math.h"

namespace pal {
namespace {

int64_t bytes_of(Executable& program, const std::string& input) {
  return program.program().value(program.program().input(input)).spec.bytes();
}

void put(Executable& program, const std::string& input, const void* data, size_t bytes) {
  if (static_cast<int64_t>(bytes) != bytes_of(program, input)) {
    throw ProgramError("[translate] input " + input + " takes " +
                       std::to_string(bytes_of(program, input)) + " bytes, not " +
                       std::to_string(bytes));
  }
  std::memcpy(program.input(input), data, bytes);
}

// Bytes from one program to another: each of `parts` equal parts `beam` times, one after the other.
struct Move {
  std::span<const std::byte> from;
  std::byte* to;
  size_t parts, beam;
  std::vector<std::byte> held = {};  // a copy of `from`, where it had to make way

  bool overwrites(const Move& other) const {
    const std::less<> before;
    return before(other.from.data(), to + from.size() * beam) &&
           before(to, other.from.data() + other.from.size());
  }
  void hold() {
    held.assign(from.begin(), from.end());
    from = held;
  }
  void make() {
    if (beam == 1) {
      std::memmove(to, from.data(), from.size());
      return;
    }
    if (overwrites(*this)) hold();
    const size_t bytes = from.size() / parts;
    for (size_t i = 0; i < parts * beam; ++i) {
      std::memcpy(to + i * bytes, from.data() + i / beam * bytes, bytes);
    }
  }
};

// Makes the moves in an order in which none overwrites what another has yet to read. The programs
// of a set lie in the same bytes; of moves in a ring, one at a time waits in memory of its own.
void make_all(std::vector<Move> moves) {
  while (!moves.empty()) {
    auto next = std::find_if(moves.begin(), moves.end(), [&](const Move& m) {
      return std::none_of(moves.begin(), moves.end(),
                          [&](const Move& other) { return &other != &m && m.overwrites(other); });
    });
    if (next == moves.end()) {
      std::find_if(moves.begin(), moves.end(), [](const Move& m) {
        return m.held.empty();
      })->hold();
      continue;
    }
    next->make();
    moves.erase(next);
  }
}

}  // namespace

Executable& TranslationScorer::program(
    const std::string& name, const std::function<void(Builder&, const TranslationShape&)>& record,
    const TranslationShape& shape) {
  if (Executable* ready = programs_.find(name)) return *ready;
  Builder builder;
  record(builder, shape);
  return programs_.add(name, builder.take());
}

void TranslationScorer::add_programs(int64_t steps, std::optional<int64_t> most_steps) {
  const std::string s = std::to_string(steps);
  // The last step is that of </s>.
  const int64_t usual = longest_translation(steps) + 1, asked = most_steps.value_or(usual);
  const int64_t capacity = asked <= usual ? usual : (asked + 9) / 10 * 10;
  std::string decoder_name = "decoder/" + s + "x" + std::to_string(rows());
  if (!model_.caches.empty()) decoder_name += "x" + std::to_string(capacity);
  encoder_ =
      &program("encoder/" + s + "x" + std::to_string(batch_), model_.encoder, {steps, 1, batch_});
  decoder_ = &program(decoder_name, model_.decoder_step, {steps, capacity, rows()});
}

void TranslationScorer::start(int64_t steps, std::span<const int32_t> source,
                              std::span<const int32_t> lengths, std::optional<int64_t> most_steps) {
  add_programs(steps, most_steps);
  Executable& encoder = *encoder_;
  put(encoder, translation_input::kSource, source.data(), source.size_bytes());
  put(encoder, translation_input::kSourceLengths, lengths.data(), lengths.size_bytes());
  encoder.run();

  // A sentence's rows start alike: (B, ...) becomes (B * beam, ...), and (S, B, ...) is S * B
  // parts.
  const auto beam = static_cast<size_t>(beam_), batch = static_cast<size_t>(batch_);
  std::vector<Move> moves;
  auto move = [&](const std::string& name, size_t parts) {
    const auto bytes = static_cast<size_t>(bytes_of(*decoder_, name)) / beam;
    moves.push_back({{encoder.output<std::byte>(name), bytes}, decoder_->input(name), parts, beam});
  };
  for (const std::string& name : model_.states) move(name, batch);
  for (const std::string& name : model_.memory) move(name, batch * static_cast<size_t>(steps));
  make_all(std::move(moves));
  Move{std::as_bytes(lengths), decoder_->input(translation_input::kSourceLengths), batch, beam}
      .make();
  position_ = 0;
}

// A state from the outputs of the step before to the inputs of the next, which lie apart.
void TranslationScorer::carry_state(const std::string& name, std::span<const int32_t> parents) {
  const auto bytes = static_cast<size_t>(bytes_of(*decoder_, name));
  const std::byte* from = decoder_->output<std::byte>("next/" + name);
  if (parents.empty()) return put(*decoder_, name, from, bytes);
  const size_t rows = parents.size(), row = bytes / rows;
  std::byte* to = decoder_->input(name);
  for (size_t i = 0; i < rows; ++i) {
    std::memcpy(to + i * row, from + static_cast<size_t>(parents[i]) * row, row);
  }
}

// Appends what the step before has made to a cache, (T, rows, ..), and puts its rows in the
// parents' order.
void TranslationScorer::carry_cache(const std::string& name, std::span<const int32_t> parents) {
  const Program& program = decoder_->program();
  const int64_t capacity = program.value(program.input(name)).spec.shape[0];
  if (position_ > capacity) {
    throw ProgramError("[translate] step " + std::to_string(position_ + 1) + " of at most " +
                       std::to_string(capacity) + ": start() was told of fewer");
  }
  const auto count = static_cast<size_t>(rows());
  const auto step = static_cast<size_t>(bytes_of(*decoder_, name) / capacity);  // bytes
  const size_t row = step / count;
  std::byte* cache = decoder_->input(name);
  std::memcpy(cache + static_cast<size_t>(position_ - 1) * step,
              decoder_->output<std::byte>("next/" + name), step);
  std::vector<size_t> moved;
  for (size_t i = 0; i < parents.size(); ++i) {
    if (static_cast<size_t>(parents[i]) != i) moved.push_back(i);
  }
  if (moved.empty()) return;
  const Queue queue{.workers = programs_.device().threads};
  parallel_chunks(queue, position_, 1, [&](int64_t t, int64_t) {
    std::byte* to = cache + static_cast<size_t>(t) * step;
    const std::vector<std::byte> from(to, to + step);
    for (const size_t i : moved) {
      std::memcpy(to + i * row, from.data() + static_cast<size_t>(parents[i]) * row, row);
    }
  });
}

const float* TranslationScorer::step(std::span<const int32_t> words,
                                     std::span<const int32_t> parents) {
  if (!decoder_) throw ProgramError("[translate] step() before start()");
  if (!parents.empty() && parents.size() != static_cast<size_t>(rows())) {
    throw ProgramError("[translate] step() takes a parent for each of " + std::to_string(rows()) +
                       " rows, not " + std::to_string(parents.size()));
  }
  put(*decoder_, translation_input::kToken, words.data(), words.size_bytes());
  if (position_ > 0) {
    for (const std::string& name : model_.states) carry_state(name, parents);
    for (const std::string& name : model_.caches) carry_cache(name, parents);
  }
  if (!model_.caches.empty()) {
    put(*decoder_, translation_input::kPosition, &position_, sizeof position_);
  }
  decoder_->run();
  ++position_;
  return decoder_->output("log_probs");
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

const float* Translator::step(std::span<const int32_t> words, std::span<const int32_t> parents) {
  if (scorers_.size() == 1) return scorers_[0].step(words, parents);
  std::vector<const float*> scores;
  for (TranslationScorer& scorer : scorers_) scores.push_back(scorer.step(words, parents));
  average_.resize(words.size() * static_cast<size_t>(members_[0].model.target_vocab));
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
      const float* scores = step(words);  // (B, V)
      for (size_t b = 0; b < rows.size(); ++b) {
        if (ended[b]) continue;
        words[b] = likeliest({scores + b * vocabulary, vocabulary}, allow_unknown);
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
    const float* scores = step(words, parents);  // (B * beam, V)
    parallel_chunks(queue, static_cast<int64_t>(beams.size()), 1, [&](int64_t b, int64_t) {
      Beam& beam = beams[static_cast<size_t>(b)];
      if (beam.done()) return;
      const size_t first = static_cast<size_t>(b) * width;
      beam.advance({scores + first * vocabulary, width * vocabulary});
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
      const float* scores = step(words);  // (B, V)
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
