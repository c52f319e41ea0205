// Batches of images: which are in batch n, and what was done to them, depends on the set, the
// options and n alone, so that any number of threads makes the same batches, and a run resumes from
// a number.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "data/image_set.h"
#include "data/image_transform.h"

namespace pal {

// The images of a set that turned out to be of no use. May be used by several threads.
class BadImages {
 public:
  BadImages(OnBadImage on_bad, int least_side) : on_bad_(on_bad), least_side_(least_side) {}

  // The image, or those frames of the film; or nothing, and a note, where one cannot be used and is
  // to be skipped. UsageError where it is not to be skipped.
  bool read(const ImageSet& set, int64_t i, int channels, std::span<const int64_t> frames,
            std::vector<Image>& images);

  int64_t count() const;
  // What was wrong with those noted since the last call.
  std::vector<std::string> news();

 private:
  OnBadImage on_bad_;
  int least_side_;
  mutable std::mutex mutex_;
  std::map<int64_t, std::string> known_;
  std::vector<std::string> news_;
};

struct ImageBatch {
  std::vector<float> images;    // (B, size, size, C), of films (B, frames, size, size, C)
  std::vector<int32_t> labels;  // (B); of a place without an image: kNoLabel
  // With mixup: image i is mix of itself and 1 - mix of one with label other_labels[i].
  std::vector<int32_t> other_labels;
  float mix = 1;
  int64_t count = 0;  // images in it
};
inline constexpr int32_t kNoLabel = -1;

struct TrainingBatchOptions {
  int64_t batch = 128;
  uint64_t seed = 1;
  double mixup = 0;  // alpha of Beta(alpha, alpha), at most 1; 0: images are not mixed
};

// Endless shuffled batches, numbered from 0: an epoch is as many as are full, at least one. The set
// and the record of bad images are referred to, and must outlive it.
class TrainingImages {
 public:
  TrainingImages(const ImageSet& set, ImageTransform transform, TrainingBatchOptions options,
                 BadImages& bad);

  int64_t batches_per_epoch() const;
  // Any thread may call it. In the place of an image that is skipped stands the next of the epoch's
  // order that is not. UsageError when there is none.
  void fill(int64_t n, ImageBatch& batch) const;

 private:
  std::shared_ptr<const std::vector<int32_t>> order_of(int64_t epoch) const;
  void mix(int64_t epoch, int64_t number, ImageBatch& batch) const;

  const ImageSet& set_;
  ImageTransform transform_;
  TrainingBatchOptions options_;
  BadImages& bad_;
  mutable std::mutex mutex_;
  mutable std::map<int64_t, std::shared_ptr<const std::vector<int32_t>>> orders_;  // by epoch
};

// Batch n of a pass in the set's order: images n B to n B + B - 1, without augmentation. A skipped
// image, and what is missing in the last batch, are zeros, with kNoLabel.
void fill_validation_batch(const ImageSet& set, const ImageTransform& transform, int64_t batch_size,
                           int64_t n, BadImages& bad, ImageBatch& batch);

// Beta(alpha, alpha) for alpha in (0, 1], by Jöhnk's method.
double draw_beta(double alpha, ImageDraws& draws);

}  // namespace pal
