// Batches, programs and validation of the recogniser.
#include "train/speech/speech_task.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "core/error.h"
#include "core/philox.h"
#include "core/scalars.h"
#include "ops/losses/log_softmax.h"
#include "ops/tensors/state.h"
#include "ops/tensors/transfers.h"
#include "train/run_files/log.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kFrameStep = 64;  // what utterances longer than the buckets are padded to
constexpr int64_t kFaultsShown = 10;

DeepSpeech2Options model_options(const Config& config, int64_t labels) {
  DeepSpeech2Options o = *config.options<DeepSpeech2Options>();
  o.bins = FeatureReader(speech_options(config.speech())).bins();
  o.labels = labels;
  return o;
}

// The validation program: "nll" of every row, and "log_probs" of its labels.
Program record_validation(const DeepSpeech2Options& model, const SpeechShape& shape) {
  Builder b;
  Val scalars = step_scalars(b.input(speech_input::kScalars, scalars_spec(), Space::host));
  const SpeechLoss loss = deepspeech2_loss(b, model, shape, scalars, false);
  b.output("nll", loss.nll);
  b.output("log_probs", log_softmax(loss.logits));
  return b.take();
}

Spelling decode(const LogProbs& probs, int64_t beam) {
  return beam > 1 ? ctc_beam(probs, beam) : ctc_greedy(probs);
}

// Rows of a part in batches of like length: those of a bucket together, the last ones longer than
// all buckets.
struct ValidBatch {
  SpeechExtent extent;
  std::vector<int32_t> rows;
};
std::vector<ValidBatch> valid_batches(const std::vector<Utterance>& utterances, SpeechData& data) {
  const BucketLadder& ladder = data.ladder();
  const std::vector<PairLength> lengths = speech_lengths(utterances, false);
  std::vector<std::vector<int32_t>> of_bucket(ladder.buckets.size());
  std::vector<ValidBatch> out;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const int bucket = ladder.find(lengths[i]);
    if (bucket >= 0) {
      of_bucket[static_cast<size_t>(bucket)].push_back(static_cast<int32_t>(i));
      continue;
    }
    const int64_t frames = (lengths[i].source + kFrameStep - 1) / kFrameStep * kFrameStep;
    const int64_t labels = (lengths[i].target + kFrameStep - 1) / kFrameStep * kFrameStep;
    out.push_back({{frames, labels, 1}, {static_cast<int32_t>(i)}});
  }
  for (size_t bucket = 0; bucket < of_bucket.size(); ++bucket) {
    const SpeechExtent extent = data.extent(static_cast<int>(bucket));
    const std::vector<int32_t>& rows = of_bucket[bucket];
    for (size_t at = 0; at < rows.size(); at += static_cast<size_t>(extent.batch)) {
      const size_t end = std::min(rows.size(), at + static_cast<size_t>(extent.batch));
      out.push_back(
          {extent,
           {rows.begin() + static_cast<int64_t>(at), rows.begin() + static_cast<int64_t>(end)}});
    }
  }
  return out;
}

}  // namespace

SpeechTask::SpeechTask(const Config& config, const fs::path& model_dir)
    : SpeechTask(config, std::shared_ptr<SpeechData>()) {
  data_ = std::make_shared<SpeechData>(
      config.speech(), batch_, seed_, model_dir,
      [model = model_](int64_t frames) { return output_steps(model, frames); });
  model_.labels = data_->labels().size();
}

// Without `data`, the caller adds it.
SpeechTask::SpeechTask(const Config& config, const std::shared_ptr<SpeechData>& data)
    : PrefetchedTask("[speech]", "the training recordings, their transcripts or the buckets",
                     config, data),
      batch_(*config.train.batch_size),
      model_(model_options(config, data ? data->labels().size() : 0)) {}

std::unique_ptr<Task> SpeechTask::variant(const Config& config) const {
  return std::unique_ptr<Task>(new SpeechTask(config, data_));
}

int SpeechTask::bucket_count() const { return static_cast<int>(data_->ladder().buckets.size()); }

std::pair<int64_t, int64_t> SpeechTask::bucket_lengths(int bucket) const {
  const SpeechExtent extent = data_->extent(bucket);
  return {extent.frames, extent.labels};
}

Recorded SpeechTask::record_lengths(Builder& builder, std::pair<int64_t, int64_t> lengths,
                                    Val scalars, bool training) const {
  const SpeechShape shape{lengths.first, lengths.second, batch_};
  SpeechLoss loss = deepspeech2_loss(builder, model_, shape, scalars, training);
  return {loss.loss, {}, std::move(loss.moved)};
}

void SpeechTask::start_batches() {
  prefetch_.reset();  // before what its thread uses
  const std::vector<Utterance>& utterances = data_->train();
  order_ = std::make_unique<BatchOrder>(speech_lengths(utterances, data_->variety().tempo),
                                        data_->ladder(), seed_, "utterances");
  order_->restore(resume());
  order_->take_share(share_);
  reader_ = std::make_unique<FeatureReader>(data_->options());
  prefetch_ = std::make_unique<Prefetch<SpeechBatch>>([this, &utterances](SpeechBatch& batch) {
    const BatchOrder::Batch next = order_->next();
    batch.bucket = next.bucket;
    batch.position = next.position;
    batch.resume = next.resume;
    fill_speech_batch(*reader_, utterances, next.rows, data_->extent(next.bucket),
                      &data_->variety(), data_->skips_faults(), batch);
    return true;
  });
}

void SpeechTask::report(const Faults& faults) {
  if (faults.count == 0) return;
  faults_ += faults.count;
  if (faults_ - faults.count >= kFaultsShown) return;
  log_warn(std::to_string(faults_) +
           " utterances were left out while training, this one now: " + faults.first);
}

BatchInfo SpeechTask::take(SpeechBatch& batch) {
  BatchInfo info = take_from(*prefetch_, batch, order_->batches_per_epoch());
  report(batch.faults);
  info.normalizer = double(std::max<int64_t>(1, batch.utterances));
  info.samples = batch.utterances;
  info.tokens = batch.total_frames;
  return info;
}

void SpeechTask::fill_batch(Executable& program, const SpeechBatch& batch) const {
  std::vector<int32_t> steps;
  for (const int32_t frames : batch.frames) steps.push_back(int32_t(output_steps(model_, frames)));
  put(program, speech_input::kFeatures, batch.features);
  put(program, speech_input::kSteps, steps);
  put(program, speech_input::kLabels, batch.labels);
  put(program, speech_input::kLabelLengths, batch.label_lengths);
}

// Noise, and labels in turn: half as many as there are steps.
BatchInfo SpeechTask::fill_full(Executable& program, std::pair<int64_t, int64_t> lengths) const {
  const auto [F, L] = lengths;
  SpeechBatch batch;
  for (int64_t i = 0; i < batch_ * F * model_.bins; ++i) {
    batch.features.push_back(2 * uniform01(draw({seed_, 0, 0, 0}, uint64_t(i)).x[0]) - 1);
  }
  const auto labels = std::min(L, output_steps(model_, F) / 2);
  batch.frames.assign(size_t(batch_), int32_t(F));
  batch.label_lengths.assign(size_t(batch_), int32_t(labels));
  for (int64_t i = 0; i < L * batch_; ++i) {
    batch.labels.push_back(int32_t(1 + (i / batch_ + i) % (model_.labels - 1)));
  }
  fill_batch(program, batch);
  return {.normalizer = double(batch_), .samples = batch_, .tokens = batch_ * F};
}

void SpeechTask::declare_weights(ProgramSet& programs) const {
  programs.add("weights", record_validation(model_, {1, 1, 1}));
}

Executable& SpeechTask::validation(ProgramSet& programs, const SpeechExtent& extent) const {
  const auto [F, L, B] = extent;
  const std::string name =
      "valid/" + std::to_string(F) + "x" + std::to_string(L) + "x" + std::to_string(B);
  if (Executable* ready = programs.find(name)) return *ready;
  return programs.add(name, record_validation(model_, {F, L, B}));
}

void SpeechTask::add_programs(ProgramSet& programs, const std::string& part) {
  for (const ValidBatch& batch : valid_batches(data_->part(part), *data_)) {
    validation(programs, batch.extent);
  }
}

SpeechEvaluation SpeechTask::evaluate(ProgramSet& programs, const std::string& part, int64_t beam,
                                      const Dealt& dealt) const {
  const std::vector<Utterance>& utterances = data_->part(part);
  const std::vector<ValidBatch> batches = valid_batches(utterances, *data_);
  FeatureReader reader(data_->options());
  auto made = static_cast<size_t>(dealt.first());
  Prefetch<SpeechBatch> prefetch([&](SpeechBatch& batch) {
    if (made >= batches.size()) return false;
    fill_speech_batch(reader, utterances, batches[made].rows, batches[made].extent, nullptr,
                      data_->skips_faults(), batch);
    made += static_cast<size_t>(dealt.stride());
    return true;
  });
  SpeechEvaluation result;
  result.references.resize(utterances.size());
  result.hypotheses.resize(utterances.size());
  struct Found {  // in a batch
    double nats = 0;
    int64_t utterances = 0, possible = 0, faults = 0;
    ErrorRate words, characters;
  };
  std::vector<Found> found(batches.size());
  std::vector<std::string> first_faults(batches.size());
  auto number = static_cast<size_t>(dealt.first());
  SpeechBatch batch;
  for (; prefetch.next(batch); number += static_cast<size_t>(dealt.stride())) {
    if (!dealt.owns(static_cast<int64_t>(number))) break;
    Found& of_batch = found[number];
    const int64_t B = batch.extent.batch;
    Executable* const program = &validation(programs, batch.extent);
    const StepScalars scalars;
    std::memcpy(program->input(speech_input::kScalars), &scalars, sizeof scalars);
    fill_batch(*program, batch);
    program->run();
    const float *nll = program->output("nll"), *probs = program->output("log_probs");
    of_batch.faults = batch.faults.count, first_faults[number] = batch.faults.first;
    for (size_t b = 0; b < batch.rows.size(); ++b) {
      if (batch.frames[b] == 0) continue;  // could not be read
      const auto row = static_cast<size_t>(batch.rows[b]);
      const int64_t steps = output_steps(model_, batch.frames[b]);
      const LogProbs own{probs + static_cast<int64_t>(b) * model_.labels, steps, B * model_.labels,
                         model_.labels};
      result.references[row] = utterances[row].transcript;
      result.hypotheses[row] = data_->labels().decode(decode(own, beam).labels);
      of_batch.words += word_errors(result.hypotheses[row], result.references[row]);
      of_batch.characters += character_errors(result.hypotheses[row], result.references[row]);
      ++of_batch.utterances;
      if (std::isinf(nll[b])) continue;
      of_batch.nats += double(nll[b]);
      ++of_batch.possible;
    }
  }
  dealt.complete(found);
  for (auto* texts : {&result.references, &result.hypotheses, &first_faults}) {
    dealt.complete(*texts);
  }
  Faults faults;
  int64_t possible = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    result.loss += found[i].nats, result.utterances += found[i].utterances;
    result.words += found[i].words, result.characters += found[i].characters;
    possible += found[i].possible;
    if (found[i].faults > 0) faults.add(first_faults[i]), faults.count += found[i].faults - 1;
  }
  if (faults.count > 0) {
    log_warn(std::to_string(faults.count) + " utterances of part '" + part +
             "' cannot be read and are left out; the first: " + faults.first);
  }
  result.loss /= static_cast<double>(std::max<int64_t>(1, possible));
  return result;
}

Validation SpeechTask::validate(ProgramSet& programs, const std::string& part, const Dealt& dealt) {
  const SpeechEvaluation result = evaluate(programs, part, 1, dealt);
  Validation validation{
      .loss = result.loss,
      .metrics = {{"wer", result.words.percent()}, {"cer", result.characters.percent()}},
      .best_by = "wer",
      .higher_is_better = false};
  for (const size_t at : sample_rows(result.references.size())) {
    validation.samples.emplace_back(result.references[at], result.hypotheses[at]);
  }
  return validation;
}

Spelling SpeechTask::transcribe(ProgramSet& programs, FeatureReader& reader,
                                const std::string& file, int64_t beam) const {
  const Features features = reader.read_file(file);
  const int64_t frames = (features.frames + kFrameStep - 1) / kFrameStep * kFrameStep;
  const std::string name = "recognise/" + std::to_string(frames);
  Executable* program = programs.find(name);
  if (!program) {
    Builder b;
    deepspeech2_recogniser(b, model_, {frames, 1, 1});
    program = &programs.add(name, b.take());
  }
  std::vector<float> padded = features.values;
  padded.resize(static_cast<size_t>(frames * features.bins));
  const int64_t steps = output_steps(model_, features.frames);
  put(*program, speech_input::kFeatures, padded);
  put(*program, speech_input::kSteps, std::vector<int32_t>{static_cast<int32_t>(steps)});
  program->run();
  return decode({program->output("log_probs"), steps, model_.labels, model_.labels}, beam);
}

SavedSpeech open_speech(const fs::path& path) {
  const SavedRun run = find_saved_run(path);
  const Config config = load_config(run.folder / "config.yaml");
  if (!config.options<DeepSpeech2Options>()) {
    throw UsageError(run.folder.string() +
                     ": holds no speech recogniser but a model of another "
                     "type; name the folder of a recogniser's run");
  }
  return open_saved_model<SpeechTask>(run, config);
}

}  // namespace pal
