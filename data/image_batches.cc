// Shuffling, filling and mixing.
#include "data/image_batches.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "data/iterator.h"

namespace pal {
namespace {

constexpr uint32_t kMixStream = 0x313Cu;

void size_batch(const ImageTransform& transform, int64_t rows, ImageBatch& batch) {
  batch.images.resize(static_cast<size_t>(rows * transform.numel()));
  batch.labels.assign(static_cast<size_t>(rows), kNoLabel);
  batch.other_labels.clear();
  batch.mix = 1;
  batch.count = 0;
}

}  // namespace

bool BadImages::read(const ImageSet& set, int64_t i, int channels, std::span<const int64_t> frames,
                     std::vector<Image>& images) {
  {
    const std::lock_guard lock(mutex_);
    if (known_.contains(i)) return false;
  }
  std::string what;
  try {
    images.clear();
    for (const int64_t frame : frames) {
      images.push_back(set.read(i, channels, frame));
      const Image& image = images.back();
      if (std::min(image.height, image.width) >= least_side_) continue;
      what = set.name(i) + ": " + std::to_string(image.width) + " x " +
             std::to_string(image.height) + " pixels; data.min_side is " +
             std::to_string(least_side_);
      break;
    }
    if (what.empty()) return true;
  } catch (const UsageError& error) {
    what = error.what();
  }
  if (on_bad_ == OnBadImage::fail) {
    throw UsageError(what + "; remove it, or set data.on_error: skip to leave such images out");
  }
  const std::lock_guard lock(mutex_);
  if (known_.emplace(i, what).second) news_.push_back(what);
  return false;
}

int64_t BadImages::count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(known_.size());
}

std::vector<std::string> BadImages::news() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, {});
}

TrainingImages::TrainingImages(const ImageSet& set, ImageTransform transform,
                               TrainingBatchOptions options, BadImages& bad)
    : set_(set), transform_(std::move(transform)), options_(options), bad_(bad) {
  if (set.size() == 0) throw UsageError("[data] there is no image to train on");
}

int64_t TrainingImages::batches_per_epoch() const {
  return std::max<int64_t>(1, set_.size() / options_.batch);
}

std::shared_ptr<const std::vector<int32_t>> TrainingImages::order_of(int64_t epoch) const {
  const std::lock_guard lock(mutex_);
  if (const auto found = orders_.find(epoch); found != orders_.end()) return found->second;
  std::vector<int32_t> made(static_cast<size_t>(set_.size()));
  std::iota(made.begin(), made.end(), 0);
  shuffle(made, options_.seed, static_cast<uint64_t>(epoch));
  const auto order = std::make_shared<const std::vector<int32_t>>(std::move(made));
  // Workers are a few batches apart at most, which is seldom more than two epochs.
  while (orders_.size() >= 3) orders_.erase(orders_.begin());
  return orders_[epoch] = order;
}

void TrainingImages::fill(int64_t n, ImageBatch& batch) const {
  const int64_t epoch = n / batches_per_epoch(), number = n % batches_per_epoch();
  const auto order = order_of(epoch);
  size_batch(transform_, options_.batch, batch);
  std::vector<Image> images;
  for (int64_t row = 0; row < options_.batch; ++row) {
    const int64_t place = number * options_.batch + row;
    int64_t tries = 0, which = 0;
    ImageDraws draws(options_.seed, epoch, place);
    bool usable = false;
    while (!usable) {
      if (tries == set_.size()) {
        throw UsageError("[data] none of " + std::to_string(set_.size()) +
                         " training images can be used");
      }
      which = (*order)[static_cast<size_t>((place + tries++) % set_.size())];
      const auto frames = choose_frames(set_.frames(which), transform_, &draws);
      usable = bad_.read(set_, which, transform_.channels(), frames, images);
    }
    float* out = batch.images.data() + row * transform_.numel();
    for (const Image& image : images) {
      ImageDraws same = draws;
      transform_training(image, transform_, same, out);
      out += transform_.image_numel();
    }
    batch.labels[static_cast<size_t>(row)] = set_.labels[static_cast<size_t>(which)];
  }
  batch.count = options_.batch;
  if (options_.mixup > 0) mix(epoch, number, batch);
}

// Zhang et al. 2018, "mixup": one share a batch, partners from the other end of it.
void TrainingImages::mix(int64_t epoch, int64_t number, ImageBatch& batch) const {
  ImageDraws draws(options_.seed, epoch, number, kMixStream);
  batch.mix = static_cast<float>(draw_beta(options_.mixup, draws));
  const float other = 1 - batch.mix;
  batch.other_labels.assign(batch.labels.rbegin(), batch.labels.rend());
  const int64_t pixels = transform_.numel();
  for (int64_t i = 0, j = options_.batch - 1; i < j; ++i, --j) {
    float *a = batch.images.data() + i * pixels, *b = batch.images.data() + j * pixels;
    for (int64_t k = 0; k < pixels; ++k) {
      const float x = a[k], y = b[k];
      a[k] = batch.mix * x + other * y;
      b[k] = batch.mix * y + other * x;
    }
  }
}

void fill_validation_batch(const ImageSet& set, const ImageTransform& transform, int64_t batch_size,
                           int64_t n, BadImages& bad, ImageBatch& batch) {
  size_batch(transform, batch_size, batch);
  std::vector<Image> images;
  for (int64_t row = 0; row < batch_size; ++row) {
    const int64_t i = n * batch_size + row;
    float* out = batch.images.data() + row * transform.numel();
    if (i >= set.size() || !bad.read(set, i, transform.channels(),
                                     choose_frames(set.frames(i), transform, nullptr), images)) {
      std::fill(out, out + transform.numel(), 0.0f);
      continue;
    }
    for (const Image& image : images) {
      transform_validation(image, transform, out);
      out += transform.image_numel();
    }
    batch.labels[static_cast<size_t>(row)] = set.labels[static_cast<size_t>(i)];
    ++batch.count;
  }
}

double draw_beta(double alpha, ImageDraws& draws) {
  for (;;) {
    const double x = std::pow(1 - draws.uniform(), 1 / alpha);  // never 0
    const double y = std::pow(1 - draws.uniform(), 1 / alpha);
    if (x + y <= 1 && x + y > 0) return x / (x + y);
  }
}

}  // namespace pal
