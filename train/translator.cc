// Greedy search over the encoder's and the decoder's programs.
#include "train/translator.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/error.h"
#include "data/vocabulary.h"

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

}  // namespace

void NmtScorer::start(int64_t steps, std::span<const int32_t> source,
                      std::span<const int32_t> lengths) {
  const NmtShape shape{steps, 1, batch_};
  const std::string size = std::to_string(steps) + "x" + std::to_string(batch_);
  Executable* encoder = programs_.find("encoder/" + size);
  if (!encoder) {
    Builder builder;
    nmt_encoder(builder, model_, shape);
    encoder = &programs_.add("encoder/" + size, builder.take());
  }
  decoder_ = programs_.find("decoder/" + size);
  if (!decoder_) {
    Builder builder;
    nmt_decoder_step(builder, model_, shape);
    decoder_ = &programs_.add("decoder/" + size, builder.take());
  }
  put(*encoder, nmt_input::kSource, source.data(), source.size_bytes());
  put(*encoder, nmt_input::kSourceLengths, lengths.data(), lengths.size_bytes());
  encoder->run();

  // The two programs lie in the same bytes: everything out before anything in.
  std::vector<std::string> names = states_;
  names.insert(names.end(), {"keys", "values"});
  std::vector<std::vector<std::byte>> held;
  for (const std::string& name : names) {
    const std::byte* data = encoder->output<std::byte>(name);
    held.emplace_back(data, data + bytes_of(*decoder_, name));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    put(*decoder_, names[i], held[i].data(), held[i].size());
  }
  put(*decoder_, nmt_input::kSourceLengths, lengths.data(), lengths.size_bytes());
  started_ = false;
}

const float* NmtScorer::step(std::span<const int32_t> words) {
  if (!decoder_) throw ProgramError("[translate] step() before start()");
  put(*decoder_, "token", words.data(), words.size_bytes());
  if (started_) {  // inputs and outputs of one program lie apart
    for (const std::string& name : states_) {
      put(*decoder_, name, decoder_->output<std::byte>("next/" + name),
          static_cast<size_t>(bytes_of(*decoder_, name)));
    }
  }
  decoder_->run();
  started_ = true;
  return decoder_->output("log_probs");
}

int32_t likeliest(std::span<const float> scores, const TranslateOptions& options) {
  const auto end = static_cast<size_t>(Vocabulary::kEnd);
  size_t best = end;
  if (options.allow_unknown && scores[size_t(Vocabulary::kUnknown)] >= scores[end]) {
    best = static_cast<size_t>(Vocabulary::kUnknown);
  }
  for (size_t id = end + 1; id < scores.size(); ++id) {
    if (scores[id] > scores[best]) best = id;
  }
  return static_cast<int32_t>(best);
}

int64_t Translator::rung(int64_t length) const {
  const auto found = std::lower_bound(lengths_.begin(), lengths_.end(), length);
  return found != lengths_.end() ? *found : (length + 9) / 10 * 10;
}

std::vector<std::vector<int32_t>> Translator::greedy(
    std::span<const std::vector<int32_t>> sources, const TranslateOptions& options) {
  std::vector<size_t> rows;  // with words, shortest first, so that a batch's sentences are alike
  for (size_t i = 0; i < sources.size(); ++i) {
    if (!sources[i].empty()) rows.push_back(i);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [&](size_t a, size_t b) { return sources[a].size() < sources[b].size(); });
  std::vector<std::vector<int32_t>> out(sources.size());
  const auto batch = static_cast<size_t>(scorer_.batch());
  for (size_t at = 0; at < rows.size(); at += batch) {
    greedy_batch(sources, std::span(rows).subspan(at, std::min(batch, rows.size() - at)), options,
                 out);
  }
  return out;
}

void Translator::greedy_batch(std::span<const std::vector<int32_t>> sources,
                              std::span<const size_t> rows, const TranslateOptions& options,
                              std::vector<std::vector<int32_t>>& out) {
  const auto batch = static_cast<size_t>(scorer_.batch());
  const auto vocabulary = static_cast<size_t>(scorer_.model().target_vocab);
  const int64_t steps = rung(static_cast<int64_t>(sources[rows.back()].size()));
  std::vector<int32_t> source(static_cast<size_t>(steps) * batch, Vocabulary::kPad);  // (S, B)
  std::vector<int32_t> lengths(batch, 0);
  for (size_t b = 0; b < rows.size(); ++b) {
    const std::vector<int32_t>& words = sources[rows[b]];
    for (size_t s = 0; s < words.size(); ++s) source[s * batch + b] = words[s];
    lengths[b] = static_cast<int32_t>(words.size());
  }
  scorer_.start(steps, source, lengths);

  std::vector<int32_t> words(batch, Vocabulary::kBegin);
  std::vector<bool> ended(rows.size(), false);
  for (size_t left = rows.size(); left > 0;) {
    const float* scores = scorer_.step(words);  // (B, V)
    for (size_t b = 0; b < rows.size(); ++b) {
      if (ended[b]) continue;
      words[b] = likeliest({scores + b * vocabulary, vocabulary}, options);
      std::vector<int32_t>& translation = out[rows[b]];
      if (words[b] != Vocabulary::kEnd) translation.push_back(words[b]);
      if (words[b] == Vocabulary::kEnd || translation.size() == 2 * sources[rows[b]].size() + 10) {
        ended[b] = true;
        --left;
      }
    }
  }
}

}  // namespace pal
