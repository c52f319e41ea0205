// The encoder's and the decoder's programs for a length, and what goes from one to the other.
#include "train/translation/scorer.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "core/error.h"
#include "data/vocabulary.h"
#include "ops/losses/top_k.h"
#include "ops/tensors/columns.h"

namespace pal {
namespace {

constexpr const char *kBestScores = "best/scores", *kBestWords = "best/words", *kEnds = "best/ends";

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

Executable& TranslationScorer::find_encoder(int64_t steps) {
  const std::string name = "encoder/" + std::to_string(steps) + "x" + std::to_string(batch_);
  if (Executable* ready = programs_.find(name)) return *ready;
  Builder b;
  model_.encoder(b, {steps, 1, batch_});
  return programs_.add(name, b.take());
}

Executable& TranslationScorer::find_decoder(int64_t steps, int64_t capacity) {
  std::string name = "decoder/" + std::to_string(steps) + "x" + std::to_string(rows());
  if (!model_.caches.empty()) name += "x" + std::to_string(capacity);
  if (beam_ > 1) name += "/" + std::to_string(beam_);
  if (Executable* ready = programs_.find(name)) return *ready;
  Builder b;
  model_.decoder_step(b, {steps, capacity, rows()});
  const Val log_probs{&b, b.program().output("log_probs")};
  const TopK best = top_k(log_probs, std::min(model_.target_vocab, words_for_beam(beam_)));
  b.output(kBestScores, best.values), b.output(kBestWords, best.indices);
  b.output(kEnds, slice_columns(log_probs, Vocabulary::kEnd, Vocabulary::kEnd + 1));
  return programs_.add_keeping(name, b.take());
}

void TranslationScorer::add_programs(int64_t steps, std::optional<int64_t> most_steps) {
  // The last step is that of </s>.
  const int64_t usual = longest_translation(steps) + 1, asked = most_steps.value_or(usual);
  const int64_t capacity = asked <= usual ? usual : (asked + 9) / 10 * 10;
  encoder_ = &find_encoder(steps), decoder_ = &find_decoder(steps, capacity);
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
    const std::span<std::byte> to = decoder_->kept(name);
    moves.push_back({{encoder.output<std::byte>(name), to.size() / beam}, to.data(), parts, beam});
  };
  for (const std::string& name : model_.states) move(name, batch);
  for (const std::string& name : model_.memory) move(name, batch * static_cast<size_t>(steps));
  make_all(std::move(moves));
  Move{std::as_bytes(lengths), decoder_->input(translation_input::kSourceLengths), batch, beam}
      .make();
  position_ = 0;
  cached_rows_.clear();
  if (model_.caches.empty()) return;
  const int64_t capacity = decoder_->input_spec(translation_input::kCachedRows).shape[0];
  for (int64_t i = 0; i < capacity * rows(); ++i) {
    cached_rows_.push_back(static_cast<int32_t>(i % rows()));
  }
}

// Says whose state each row goes on from. What a cache holds of the steps before stays where it is.
void TranslationScorer::put_parents(std::span<const int32_t> parents) {
  const auto count = static_cast<size_t>(rows());
  std::vector<int32_t> from(count);
  for (size_t i = 0; i < count; ++i) {
    from[i] = parents.empty() || position_ == 0 ? static_cast<int32_t>(i) : parents[i];
  }
  if (!model_.states.empty()) {
    put(*decoder_, translation_input::kParents, from.data(), from.size() * sizeof from[0]);
  }
  if (model_.caches.empty()) return;
  const auto capacity = static_cast<int64_t>(cached_rows_.size() / count);
  if (position_ >= capacity) {
    throw ProgramError("[translate] step " + std::to_string(position_ + 1) + " of at most " +
                       std::to_string(capacity) + ": start() was told of fewer");
  }
  std::vector<int32_t> before(count);
  for (size_t t = 0; t < static_cast<size_t>(position_); ++t) {
    int32_t* const rows = cached_rows_.data() + t * count;
    std::copy_n(rows, count, before.begin());
    for (size_t i = 0; i < count; ++i) rows[i] = before[static_cast<size_t>(from[i])];
  }
  put(*decoder_, translation_input::kCachedRows, cached_rows_.data(),
      cached_rows_.size() * sizeof cached_rows_[0]);
  put(*decoder_, translation_input::kPosition, &position_, sizeof position_);
}

void TranslationScorer::step(std::span<const int32_t> words, std::span<const int32_t> parents) {
  if (!decoder_) throw ProgramError("[translate] step() before start()");
  if (!parents.empty() && parents.size() != static_cast<size_t>(rows())) {
    throw ProgramError("[translate] step() takes a parent for each of " + std::to_string(rows()) +
                       " rows, not " + std::to_string(parents.size()));
  }
  put(*decoder_, translation_input::kToken, words.data(), words.size_bytes());
  put_parents(parents);
  decoder_->run();
  ++position_;
}

BestWords TranslationScorer::best() {
  decoder_->fetch({kBestScores, kBestWords, kEnds});
  const auto count = static_cast<size_t>(rows());
  const auto k = static_cast<size_t>(std::min(model_.target_vocab, words_for_beam(beam_)));
  return {{decoder_->output(kBestScores), count * k},
          {decoder_->output<int32_t>(kBestWords), count * k},
          {decoder_->output(kEnds), count}};
}

}  // namespace pal
