// Batches, programs and validation of the translator.
#include "train/translation/translation_task.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "core/error.h"
#include "core/philox.h"
#include "core/scalars.h"
#include "ops/tensors/state.h"
#include "ops/tensors/transfers.h"
#include "train/run_files/log.h"
#include "train/translation/translation_model.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

// The validation program: its output "nll" is summed over the batch's target words.
Program record_nll(const TranslationModel& model, const TranslationShape& shape) {
  Builder b;
  Val scalars = step_scalars(b.input(translation_input::kScalars, scalars_spec(), Space::host));
  b.output("nll", model.loss(b, shape, scalars, false).nll);
  return b.take();
}

std::vector<std::vector<int32_t>> sentences_of(const TranslationPart& part) {
  std::vector<std::vector<int32_t>> sentences;
  for (int64_t i = 0; i < part.text.size(); ++i) {
    const std::span<const int32_t> ids = part.text.source(i);
    sentences.emplace_back(ids.begin(), ids.end());
  }
  return sentences;
}

BatchSize batch_size_of(const TrainConfig& train) {
  return train.batch_words->has_value() ? BatchSize::of_words(**train.batch_words)
                                        : BatchSize(*train.batch_size);
}

}  // namespace

TranslationTask::TranslationTask(const Config& config, const fs::path& model_dir)
    : TranslationTask(config, std::make_shared<TranslationData>(
                                  config.parallel_text(), batch_size_of(config.train),
                                  static_cast<uint64_t>(*config.train.seed), model_dir)) {}

TranslationTask::TranslationTask(const Config& config, std::shared_ptr<TranslationData> data)
    : PrefetchedTask("[nmt]", "the training text, its vocabularies or its buckets", config,
                     std::move(data)),
      batch_(batch_size_of(config.train)),
      model_(translation_model(config, data_->source().size(), data_->target().size())) {}

std::unique_ptr<Task> TranslationTask::variant(const Config& config) const {
  return std::unique_ptr<Task>(new TranslationTask(config, data_));
}

int TranslationTask::bucket_count() const {
  return static_cast<int>(data_->ladder().buckets.size());
}

std::pair<int64_t, int64_t> TranslationTask::bucket_lengths(int bucket) const {
  const Bucket& lengths = data_->ladder().buckets.at(static_cast<size_t>(bucket));
  return {lengths.source, lengths.target};
}

Recorded TranslationTask::record(Builder& builder, int bucket, Val scalars, bool training) const {
  const auto [source, target] = bucket_lengths(bucket);
  return record_shape(builder, {source, target, data_->ladder().rows(bucket)}, scalars, training);
}

Recorded TranslationTask::record_lengths(Builder& builder, std::pair<int64_t, int64_t> lengths,
                                         Val scalars, bool training) const {
  const auto [source, target] = lengths;
  return record_shape(builder, {source, target, batch_.rows(source, target)}, scalars, training);
}

Recorded TranslationTask::record_shape(Builder& builder, const TranslationShape& shape, Val scalars,
                                       bool training) const {
  const TranslationLoss loss = model_.loss(builder, shape, scalars, training);
  return {loss.loss, {{"nll", loss.nll}}};
}

// A plan grows with the words of either side and with the pairs of words that attention looks at:
// a bucket that has fewer of all three than another is none of the largest.
std::vector<int> TranslationTask::largest_candidates() const {
  const BucketLadder& ladder = data_->ladder();
  auto sizes = [&](int bucket) -> std::array<int64_t, 3> {
    const auto [S, T] = bucket_lengths(bucket);
    const int64_t B = ladder.rows(bucket);
    return {B * S, B * T, B * S * T};
  };
  std::vector<int> candidates;
  for (int bucket = bucket_count() - 1; bucket >= 0; --bucket) {
    const auto own = sizes(bucket);
    const bool smaller = std::any_of(candidates.begin(), candidates.end(), [&](int other) {
      const auto theirs = sizes(other);
      return own[0] <= theirs[0] && own[1] <= theirs[1] && own[2] <= theirs[2];
    });
    if (!smaller) candidates.push_back(bucket);
  }
  return candidates;
}

int64_t TranslationTask::batch() const {
  return batch_.words() == 0 ? batch_.sentences() : data_->ladder().rows(bucket_count() - 1);
}

void TranslationTask::start_batches() {
  prefetch_.reset();  // before the iterator that its thread uses
  iterator_ = std::make_unique<TrainIterator>(data_->train(), data_->ladder(), seed_);
  iterator_->restore(resume());
  iterator_->take_share(share_);
  prefetch_ = std::make_unique<Prefetch<TextBatch>>(
      [iterator = iterator_.get()](TextBatch& batch) { return iterator->next(batch); });
}

BatchInfo TranslationTask::take(TextBatch& batch) {
  BatchInfo info = take_from(*prefetch_, batch, iterator_->batches_per_epoch());
  info.normalizer = double(batch.target_tokens);
  info.samples = batch.sentences;
  info.tokens = batch.source_tokens + batch.target_tokens;
  return info;
}

void TranslationTask::fill_batch(Executable& program, const TextBatch& batch) const {
  put(program, translation_input::kSource, batch.source);
  put(program, translation_input::kSourceLengths, batch.source_lengths);
  put(program, translation_input::kTargetIn, batch.target_in);
  put(program, translation_input::kTargetOut, batch.target_out);
}

BatchInfo TranslationTask::fill_full(Executable& program,
                                     std::pair<int64_t, int64_t> lengths) const {
  const auto [S, T] = lengths;
  const int64_t B = batch_.rows(S, T);
  auto words = [&](const char* input, int64_t count, int64_t vocabulary) {
    std::vector<int32_t> ids(static_cast<size_t>(count));
    for (size_t i = 0; i < ids.size(); ++i) {
      const uint32_t number = draw({seed_, 0, 0, 0}, i).x[0];
      ids[i] = Vocabulary::kSpecials +
               static_cast<int32_t>(number % uint32_t(vocabulary - Vocabulary::kSpecials));
    }
    put(program, input, ids);
  };
  words(translation_input::kSource, S * B, data_->source().size());
  words(translation_input::kTargetIn, T * B, data_->target().size());
  words(translation_input::kTargetOut, T * B, data_->target().size());
  put(program, translation_input::kSourceLengths,
      std::vector<int32_t>(static_cast<size_t>(B), static_cast<int32_t>(S)));
  return {.normalizer = static_cast<double>(T * B), .samples = B, .tokens = (S + T) * B};
}

void TranslationTask::declare_weights(ProgramSet& programs) const {
  programs.add("weights", record_nll(model_, {1, 1, 1}));
}

Executable& TranslationTask::nll(ProgramSet& programs, const TextBatch& batch) const {
  const std::string name = "valid/" + std::to_string(batch.S) + "x" + std::to_string(batch.T);
  if (Executable* ready = programs.find(name)) return *ready;
  return programs.add(name, record_nll(model_, {batch.S, batch.T, batch.B}));
}

void TranslationTask::add_programs(ProgramSet& programs, const std::string& name) {
  const TranslationPart& part = data_->part(name);
  ValidIterator batches(part.text, data_->ladder(), ValidIterator::Order::bucket);
  for (TextBatch batch; batches.next(batch);) nll(programs, batch);
  Translator translator({translator_member(programs)}, batch());
  translator.add_programs(sentences_of(part));
}

double TranslationTask::loss(ProgramSet& programs, const TranslationPart& part, const Dealt& dealt,
                             int64_t& truncated) const {
  ValidIterator batches(part.text, data_->ladder(), ValidIterator::Order::bucket);
  truncated = batches.truncated();
  TextBatch batch;
  std::vector<float> nats;
  int64_t words = 0;
  while (batches.next(batch)) {
    words += batch.target_tokens;
    nats.push_back(0);
    if (!dealt.owns(int64_t(nats.size()) - 1)) continue;
    Executable* const program = &nll(programs, batch);
    const StepScalars scalars;
    std::memcpy(program->input(translation_input::kScalars), &scalars, sizeof scalars);
    fill_batch(*program, batch);
    program->run();
    nats.back() = *program->output("nll");
  }
  dealt.complete(nats);
  return std::accumulate(nats.begin(), nats.end(), 0.0) / static_cast<double>(words);
}

Translator::Member TranslationTask::translator_member(ProgramSet& programs) const {
  Translator::Member member{&programs, model_, {}};
  for (const Bucket& bucket : data_->ladder().buckets) member.lengths.push_back(bucket.source);
  return member;
}

TranslationEvaluation TranslationTask::evaluate(ProgramSet& programs, const TranslationPart& part,
                                                const Dealt& dealt) const {
  TranslationEvaluation result;
  result.loss = loss(programs, part, dealt, result.truncated);
  Translator translator({translator_member(programs)}, batch());
  for (const std::vector<int32_t>& ids : translator.greedy(sentences_of(part), false, dealt)) {
    result.hypotheses.push_back(data_->target_segmenter().join(data_->target().decode(ids)));
  }
  dealt.complete(result.hypotheses);
  result.bleu = corpus_bleu(result.hypotheses, part.lines.target);
  return result;
}

Validation TranslationTask::validate(ProgramSet& programs, const std::string& name,
                                     const Dealt& dealt) {
  const TranslationPart& part = data_->part(name);
  const TranslationEvaluation result = evaluate(programs, part, dealt);
  Validation validation{.loss = result.loss,
                        .metrics = {{"bleu", result.bleu.score}},
                        .best_by = "bleu",
                        .higher_is_better = true};
  for (const size_t at : sample_rows(part.lines.source.size())) {
    validation.samples.emplace_back(part.lines.source[at], result.hypotheses[at]);
  }
  return validation;
}

SavedNmt open_nmt(const fs::path& path) {
  const SavedRun run = find_saved_run(path);
  const Config config = load_config(run.folder / "config.yaml");
  if (!std::holds_alternative<ParallelTextConfig>(config.data)) {
    throw UsageError(run.folder.string() + ": holds no translator");
  }
  return open_saved_model<TranslationTask>(run, config);
}

}  // namespace pal
