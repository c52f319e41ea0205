// Batches, programs and validation of the image classifiers.
#include "train/images/image_task.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <thread>

#include "core/error.h"
#include "core/philox.h"
#include "train/images/image_models.h"
#include "train/run_files/position.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

constexpr int kMostWorkers = 16;

template <class T> void put(Executable& program, const char* input, std::span<const T> numbers) {
  const Program& p = program.program();
  if (p.value(p.input(input)).spec.numel() != static_cast<int64_t>(numbers.size())) {
    throw ProgramError(std::string("[images] input ") + input + " takes " +
                       to_string(p.value(p.input(input)).spec) + ", not " +
                       std::to_string(numbers.size()) + " numbers: another program's");
  }
  std::memcpy(program.input(input), numbers.data(), numbers.size_bytes());
}

int workers_of(const ImageConfig& config) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return static_cast<int>(config.workers->value_or(std::min(cores, kMostWorkers)));
}

}  // namespace

ImageTask::ImageTask(const Config& config, const fs::path& model_dir)
    : ImageTask(config,
                std::make_shared<ImageData>(
                    config.images(), static_cast<uint64_t>(*config.train.seed), model_dir)) {}

ImageTask::ImageTask(const Config& config, std::shared_ptr<ImageData> data)
    : batch_(*config.train.batch_size),
      seed_(static_cast<uint64_t>(*config.train.seed)),
      data_(std::move(data)),
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

Recorded ImageTask::record(Builder& builder, int bucket, Val scalars, bool training) const {
  return record_lengths(builder, bucket_lengths(bucket), scalars, training);
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
  prefetch_ = std::make_unique<ParallelPrefetch<ImageBatch>>(
      [training = training_.get()](int64_t n, ImageBatch& batch) { training->fill(n, batch); },
      next_, workers_);
}

const std::vector<BatchInfo>& ImageTask::next(int count) {
  if (!prefetch_) start_batches();
  batches_.resize(static_cast<size_t>(count));
  infos_.assign(batches_.size(), {});
  for (size_t i = 0; i < batches_.size(); ++i) {
    prefetch_->next(batches_[i]);
    ++next_;
    const int64_t each = training_->batches_per_epoch();
    infos_[i] = {.normalizer = static_cast<double>(batches_[i].count),
                 .samples = batches_[i].count,
                 .tokens = batches_[i].count,
                 .epoch = static_cast<double>(next_) / static_cast<double>(each),
                 .last_of_epoch = next_ % each == 0};
  }
  data_->warn(data_->train().bad);
  return infos_;
}

void ImageTask::fill(Executable& program, int i) {
  const ImageBatch& batch = batches_.at(static_cast<size_t>(i));
  put<float>(program, image_input::kImages, batch.images);
  put<int32_t>(program, image_input::kLabels, batch.labels);
  if (!loss_.mixup) return;
  put<int32_t>(program, image_input::kOther, batch.other_labels);
  put<float>(program, image_input::kMix, {{batch.mix}});
  put<float>(program, image_input::kOtherMix, {{1 - batch.mix}});
}

// Noise, and classes in turn.
BatchInfo ImageTask::fill_full(Executable& program, std::pair<int64_t, int64_t> lengths) const {
  const int64_t values = model_.input(batch_, lengths.first, lengths.second).numel();
  std::vector<float> images(static_cast<size_t>(values));
  for (size_t i = 0; i < images.size(); ++i) {
    images[i] = 2 * uniform01(draw({seed_, 0, 0, 0}, i).x[0]) - 1;
  }
  std::vector<int32_t> labels(static_cast<size_t>(batch_));
  for (size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<int32_t>(static_cast<int64_t>(i) % data_->class_count());
  }
  put<float>(program, image_input::kImages, images);
  put<int32_t>(program, image_input::kLabels, labels);
  if (loss_.mixup) {
    put<int32_t>(program, image_input::kOther, labels);
    put<float>(program, image_input::kMix, {{1.0f}});
    put<float>(program, image_input::kOtherMix, {{0.0f}});
  }
  return {.normalizer = static_cast<double>(batch_), .samples = batch_, .tokens = batch_};
}

std::string ImageTask::position() const {
  return position_text({{"batch", next_}}, data_->fingerprint());
}

void ImageTask::restore(const std::string& position) {
  const auto numbers =
      read_position(position, {"batch"}, data_->fingerprint(), "[images]", "the training images");
  next_ = numbers[0];
  start_batches();
}

Executable& ImageTask::inference(ProgramSet& programs, int64_t batch) const {
  const std::string name = "logits/" + std::to_string(batch);
  if (Executable* ready = programs.find(name)) return *ready;
  Builder b;
  const int64_t size = data_->transform().size;
  Val x = b.input(image_input::kImages, {model_.input(batch, size, size)});
  std::vector<MovedStatistic> none;
  b.output("logits", model_.logits(b, x, {}, false, none));
  return programs.add(name, b.take());
}

std::vector<double> mean_probabilities(std::span<const ImageMember> members,
                                       const ImageBatch& batch) {
  const auto rows = static_cast<int64_t>(batch.labels.size());
  std::vector<double> mean;
  for (const ImageMember& member : members) {
    Executable& program = member.task->inference(*member.programs, rows);
    put<float>(program, image_input::kImages, batch.images);
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

ImageEvaluation evaluate_images(std::span<const ImageMember> members, const std::string& name) {
  const ImageTask& first = *members[0].task;
  ImageData& data = first.data();
  ImagePart& part = data.part(name);
  const int64_t B = first.batch(), classes = data.class_count();
  const int64_t batches = (part.set.size() + B - 1) / B;
  ParallelPrefetch<ImageBatch> prefetch(
      [&](int64_t n, ImageBatch& batch) {
        fill_validation_batch(part.set, data.transform(), B, n, part.bad, batch);
      },
      0, workers_of(data.config()));
  ImageEvaluation result;
  ImageBatch batch;
  double nats = 0;
  int64_t first_of_one = 0, among_five = 0;
  for (int64_t n = 0; n < batches; ++n) {
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
      first_of_one += before == 0;
      among_five += before < 5;
      nats -= std::log(std::max(p[label], 1e-300));
    }
    result.images += batch.count;
  }
  data.warn(part.bad);
  result.skipped = part.bad.count();
  if (result.images == 0) throw UsageError("data." + name + ": none of the images can be used");
  const double share = 1 / static_cast<double>(result.images);
  result.loss = nats * share;
  result.top1 = 100 * static_cast<double>(first_of_one) * share;
  result.top5 = 100 * static_cast<double>(among_five) * share;
  return result;
}

Validation ImageTask::validate(ProgramSet& programs, const std::string& part) {
  const ImageMember self{this, &programs};
  const ImageEvaluation result = evaluate_images({&self, 1}, part);
  return {.loss = result.loss,
          .metrics = {{"top1", result.top1}, {"top5", result.top5}},
          .best_by = "top1",
          .higher_is_better = true};
}

void ImageTask::save_files(const fs::path& folder) const { data_->save(folder); }

std::vector<std::string> ImageTask::describe() const { return data_->describe(); }

}  // namespace pal
