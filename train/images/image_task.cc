// Batches, programs and validation of the image classifiers.
#include "train/images/image_task.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "core/device.h"
#include "core/error.h"
#include "core/philox.h"
#include "memory/passes/batch_parts.h"
#include "train/images/image_models.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

constexpr int kMostWorkers = 16;

}  // namespace

int workers_of(const ImageConfig& config) { return workers_of(config, cpu_device().threads); }

int workers_of(const ImageConfig& config, int processors) {
  return static_cast<int>(config.workers->value_or(std::clamp(processors, 1, kMostWorkers)));
}

ImageTask::ImageTask(const Config& config, const fs::path& model_dir)
    : ImageTask(config,
                std::make_shared<ImageData>(
                    config.images(), static_cast<uint64_t>(*config.train.seed), model_dir)) {}

ImageTask::ImageTask(const Config& config, std::shared_ptr<ImageData> data)
    : BatchedTask({{"batch"}, "[images]", "the training images"}, config, std::move(data)),
      batch_(*config.train.batch_size),
      batch_parts_(*config.train.batch_parts),
      model_(image_model(config, data_->class_count())),
      loss_{.label_smoothing = static_cast<float>(*config.train.label_smoothing),
            .mixup = *config.images().mixup > 0},
      workers_(workers_of(config.images())) {}

std::unique_ptr<Task> ImageTask::variant(const Config& config) const {
  return std::unique_ptr<Task>(new ImageTask(config, data_));
}

std::pair<int64_t, int64_t> ImageTask::bucket_lengths(int) const {
  const int64_t size = data_->transform().size;
  return {size, size};
}

Recorded ImageTask::record_lengths(Builder& builder, std::pair<int64_t, int64_t> lengths,
                                   Val scalars, bool training) const {
  ImageLoss loss =
      image_loss(builder, model_, batch_, lengths.first, lengths.second, scalars, training, loss_);
  return {loss.loss, {{"nll", loss.nll}}, std::move(loss.moved)};
}

void ImageTask::start_batches() {
  prefetch_.reset();  // before what its threads use
  ImagePart& part = data_->train();
  const TrainingBatchOptions options{batch_, seed_, *data_->config().mixup};
  training_ = std::make_unique<TrainingImages>(part.set, data_->transform(), options, part.bad);
  start_counting();
  prefetch_ = std::make_unique<ParallelPrefetch<ImageBatch>>(
      [this](int64_t own, ImageBatch& batch) { training_->fill(number_of(own), batch); }, 0,
      workers_);
}

BatchInfo ImageTask::take(ImageBatch& batch) {
  prefetch_->next(batch);
  data_->warn(data_->train().bad);
  BatchInfo info{.normalizer = double(batch.count), .samples = batch.count, .tokens = batch.count};
  count_taken(training_->batches_per_epoch(), info);
  return info;
}

void ImageTask::fill_batch(Executable& program, const ImageBatch& batch) const {
  put(program, image_input::kImages, batch.images);
  put(program, image_input::kLabels, batch.labels);
  if (!loss_.mixup) return;
  put(program, image_input::kOther, batch.other_labels);
  const float other = 1 - batch.mix;
  put(program, image_input::kMix, std::span(&batch.mix, 1));
  put(program, image_input::kOtherMix, std::span(&other, 1));
}

// Noise, and classes in turn.
BatchInfo ImageTask::fill_full(Executable& program, std::pair<int64_t, int64_t> lengths) const {
  ImageBatch batch;
  batch.images.resize(size_t(model_.input(batch_, lengths.first, lengths.second).numel()));
  for (size_t i = 0; i < batch.images.size(); ++i) {
    batch.images[i] = 2 * uniform01(draw({seed_, 0, 0, 0}, i).x[0]) - 1;
  }
  for (int64_t i = 0; i < batch_; ++i) {
    batch.labels.push_back(int32_t(i % data_->class_count()));
  }
  batch.other_labels = batch.labels;
  fill_batch(program, batch);
  return {.normalizer = double(batch_), .samples = batch_, .tokens = batch_};
}

Executable& ImageTask::inference(ProgramSet& programs, int64_t batch) const {
  const std::string name = "logits/" + std::to_string(batch);
  if (Executable* ready = programs.find(name)) return *ready;
  Builder b;
  const int64_t size = data_->transform().size;
  Val x = b.input(image_input::kImages, {model_.input(batch, size, size)});
  std::vector<MovedStatistic> none;
  b.output("logits", model_.logits(b, x, {}, false, none));
  return programs.add(name, in_batch_parts(b.take(), batch_parts_));
}

std::vector<double> mean_probabilities(std::span<const ImageMember> members,
                                       const ImageBatch& batch) {
  const auto rows = static_cast<int64_t>(batch.labels.size());
  std::vector<double> mean;
  for (const ImageMember& member : members) {
    Executable& program = member.task->inference(*member.programs, rows);
    put(program, image_input::kImages, batch.images);
    program.run();
    const int64_t classes = member.task->data().class_count();
    mean.resize(static_cast<size_t>(rows * classes));
    const float* logits = program.output("logits");
    for (int64_t r = 0; r < rows; ++r) {
      const float* row = logits + r * classes;
      const double most = double(*std::max_element(row, row + classes));
      double sum = 0;
      for (int64_t c = 0; c < classes; ++c) sum += std::exp(double(row[c]) - most);
      const double share = 1 / (sum * static_cast<double>(members.size()));
      for (int64_t c = 0; c < classes; ++c) {
        mean[static_cast<size_t>(r * classes + c)] += std::exp(double(row[c]) - most) * share;
      }
    }
  }
  return mean;
}

ImageEvaluation evaluate_images(std::span<const ImageMember> members, const std::string& name,
                                const Dealt& dealt) {
  const ImageTask& first = *members[0].task;
  ImageData& data = first.data();
  ImagePart& part = data.part(name);
  const int64_t B = first.batch(), classes = data.class_count();
  const int64_t batches = (part.set.size() + B - 1) / B;
  ParallelPrefetch<ImageBatch> prefetch(
      [&](int64_t n, ImageBatch& batch) {
        const int64_t number = dealt.first() + n * dealt.stride();
        if (number >= batches) return;
        fill_validation_batch(part.set, data.transform(), B, number, part.bad, batch);
      },
      0, workers_of(data.config()));
  struct Found {  // in a batch
    double nats = 0;
    int64_t images = 0, first_of_one = 0, among_five = 0;
  };
  std::vector<Found> found(static_cast<size_t>(batches));
  ImageBatch batch;
  for (int64_t n = 0; n < batches; ++n) {
    if (!dealt.owns(n)) continue;
    Found& of_batch = found[static_cast<size_t>(n)];
    prefetch.next(batch);
    if (batch.count == 0) continue;
    const std::vector<double> all = mean_probabilities(members, batch);
    for (int64_t r = 0; r < B; ++r) {
      const int32_t label = batch.labels[static_cast<size_t>(r)];
      if (label == kNoLabel) continue;
      const double* p = all.data() + r * classes;
      // Classes before the right one; of equal ones the first counts as the more probable.
      int64_t before = std::isnan(p[label]) ? classes : 0;
      for (int64_t c = 0; c < classes; ++c) {
        before += p[c] > p[label] || (p[c] == p[label] && c < label);
      }
      of_batch.first_of_one += before == 0;
      of_batch.among_five += before < 5;
      of_batch.nats -= std::log(std::max(p[label], 1e-300));
    }
    of_batch.images = batch.count;
  }
  data.warn(part.bad);
  dealt.complete(found);
  ImageEvaluation result{.skipped = dealt.total(part.bad.count())};
  Found all;
  for (const Found& each : found) {
    all.nats += each.nats, all.first_of_one += each.first_of_one;
    all.among_five += each.among_five, result.images += each.images;
  }
  if (result.images == 0) throw UsageError("data." + name + ": none of the images can be used");
  const double share = 1 / static_cast<double>(result.images);
  result.loss = all.nats * share;
  result.top1 = 100 * static_cast<double>(all.first_of_one) * share;
  result.top5 = 100 * static_cast<double>(all.among_five) * share;
  return result;
}

Validation ImageTask::validate(ProgramSet& programs, const std::string& part, const Dealt& dealt) {
  const ImageMember self{this, &programs};
  const ImageEvaluation result = evaluate_images({&self, 1}, part, dealt);
  return {.loss = result.loss,
          .metrics = {{"top1", result.top1}, {"top5", result.top5}},
          .best_by = "top1",
          .higher_is_better = true};
}

}  // namespace pal
