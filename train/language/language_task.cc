// Batches, programs and validation of language models.
#include "train/language/language_task.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <random>

#include "core/error.h"
#include "core/scalars.h"
#include "models/bert.h"
#include "models/rhn.h"
#include "ops/tensors/state.h"
#include "ops/tensors/transfers.h"
#include "train/loop/step_program.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kValidStream = 0xFFFFFFFF;  // no epoch's: the same words are hidden every time

// Fisher and Yates. The standard fixes mt19937_64's numbers, not its distributions'.
void shuffle(std::vector<int64_t>& order, uint64_t seed, int64_t epoch) {
  std::iota(order.begin(), order.end(), 0);
  std::seed_seq both{uint32_t(seed), uint32_t(seed >> 32), uint32_t(epoch)};
  std::mt19937_64 random(both);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
}

}  // namespace

LanguageTask::LanguageTask(const Config& config, const fs::path& model_dir)
    : LanguageTask(config,
                   std::make_shared<LanguageData>(
                       config.text(), static_cast<uint64_t>(*config.train.seed), model_dir)) {}

LanguageTask::LanguageTask(const Config& config, std::shared_ptr<LanguageData> data)
    : BatchedTask({{"batch"}, "[text]", "the training text or its vocabulary"}, config,
                  std::move(data)),
      batch_(*config.train.batch_size),
      model_(language_model(config, data_->vocabulary().size())) {}

std::unique_ptr<Task> LanguageTask::variant(const Config& config) const {
  return std::unique_ptr<Task>(new LanguageTask(config, data_));
}

std::pair<int64_t, int64_t> LanguageTask::bucket_lengths(int) const {
  return {data_->length(), data_->length()};
}

Recorded LanguageTask::record_lengths(Builder& builder, std::pair<int64_t, int64_t> lengths,
                                      Val scalars, bool training) const {
  const LanguageLoss loss = model_.loss(builder, lengths.first, batch_, scalars, training);
  return {loss.loss, {{"nll", loss.nll}}};
}

int64_t LanguageTask::batches_per_epoch() const {
  return (data_->samples("train") + batch_ - 1) / batch_;
}

BatchInfo LanguageTask::take(LanguageBatch& batch) {
  const int64_t each = batches_per_epoch(), number = number_of(taken());
  const int64_t epoch = number / each, first = number % each * batch_;
  if (ordered_ != epoch) {
    order_.resize(static_cast<size_t>(data_->samples("train")));
    shuffle(order_, seed_, epoch);
    ordered_ = epoch;
  }
  const size_t rows = std::min(order_.size() - size_t(first), size_t(batch_));
  data_->fill("train", {order_.data() + first, rows}, batch_, model_, uint32_t(epoch), batch);
  BatchInfo info{.normalizer = double(std::max<int64_t>(batch.targets, 1)),
                 .samples = batch.samples,
                 .tokens = batch.words};
  count_taken(each, info);
  return info;
}

void LanguageTask::fill_batch(Executable& program, const LanguageBatch& batch) const {
  if (model_.hides) {
    put(program, bert_input::kTokens, batch.tokens);
    put(program, bert_input::kLengths, batch.lengths);
    put(program, bert_input::kHidden, batch.wanted);
  } else {
    put(program, rhn_input::kTokens, batch.tokens);
    put(program, rhn_input::kNext, batch.wanted);
  }
}

BatchInfo LanguageTask::fill_full(Executable& program, std::pair<int64_t, int64_t> lengths) const {
  const int64_t S = lengths.first;
  LanguageBatch batch{.samples = batch_, .words = S * batch_};
  batch.tokens.resize(size_t(S * batch_)), batch.wanted.resize(size_t(S * batch_));
  batch.lengths.assign(size_t(batch_), int32_t(S));
  std::mt19937 random(1);
  for (size_t i = 0; i < batch.tokens.size(); ++i) {
    const auto word = int32_t(random() % uint32_t(data_->vocabulary().size()));
    const bool guess = !model_.hides || float(random() >> 8) * 0x1p-24f < model_.hide;
    batch.tokens[i] = guess && model_.hides ? model_.mask : word;
    batch.wanted[i] = guess ? std::max(word, 1) : 0;  // 0 would not count
    batch.targets += guess;
  }
  fill_batch(program, batch);
  return {.normalizer = double(std::max<int64_t>(batch.targets, 1)),
          .samples = batch.samples,
          .tokens = batch.words};
}

Executable& LanguageTask::validation(ProgramSet& programs) const {
  if (Executable* ready = programs.find("valid")) return *ready;
  Builder b;
  Val scalars = step_scalars(b.input(kScalarsInput, scalars_spec(), Space::host));
  b.output("nll", model_.loss(b, data_->length(), batch_, scalars, false).nll);
  return programs.add("valid", b.take());
}

Validation LanguageTask::validate(ProgramSet& programs, const std::string& part,
                                  const Dealt& dealt) {
  Executable& program = validation(programs);
  std::vector<int64_t> which(static_cast<size_t>(data_->samples(part)));
  std::iota(which.begin(), which.end(), 0);
  struct Found {  // in a batch
    double nats = 0;
    int64_t targets = 0;
  };
  std::vector<Found> found((which.size() + size_t(batch_) - 1) / size_t(batch_));
  LanguageBatch batch;
  for (size_t n = 0; n < found.size(); ++n) {
    if (!dealt.owns(int64_t(n))) continue;
    const size_t at = n * size_t(batch_);
    const size_t rows = std::min(which.size() - at, size_t(batch_));
    data_->fill(part, {which.data() + at, rows}, batch_, model_, kValidStream, batch);
    const StepScalars scalars;
    std::memcpy(program.input(kScalarsInput), &scalars, sizeof scalars);
    fill_batch(program, batch);
    program.run();
    found[n] = {double(*program.output("nll")), batch.targets};
  }
  dealt.complete(found);
  Found all;
  for (const Found& each : found) all.nats += each.nats, all.targets += each.targets;
  const double loss = all.nats / static_cast<double>(std::max<int64_t>(all.targets, 1));
  return {.loss = loss,
          .metrics = {{"perplexity", std::exp(loss)}},
          .best_by = "perplexity",
          .higher_is_better = false};
}

}  // namespace pal
