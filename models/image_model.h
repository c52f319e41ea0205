// What an image classifier is to the trainer: a function that records its logits.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "core/builder.h"
#include "models/moved_statistic.h"

namespace pal {

struct ImageModel {
  int64_t channels = 3, classes = 1000;
  int64_t frames = 0;  // of films; 0: single images
  // x (B, H, W, channels), of films (B, frames, H, W, channels) -> logits (B, classes). `training`
  // normalises by the batch's own statistics and appends to `moved` what the running ones are to
  // become; else the running ones are used, and `moved` is not touched. `scalars` is the value of
  // the step's scalars (for dropout).
  std::function<Val(Builder&, Val x, Val scalars, bool training,
                    std::vector<MovedStatistic>& moved)>
      logits;

  Shape input(int64_t batch, int64_t height, int64_t width) const;  // the shape of x
};

// Names of the inputs that a classifier's programs declare.
namespace image_input {
inline constexpr const char* kImages = "images";       // f32 (B, H, W, C), or films
inline constexpr const char* kLabels = "labels";       // i32 (B), -1 counts nothing
inline constexpr const char* kOther = "other_labels";  // i32 (B): of mixup's partners
inline constexpr const char* kMix = "mix";             // f32[1]: the image's own share
inline constexpr const char* kOtherMix = "other_mix";  // f32[1]: the partner's
}  // namespace image_input

struct ImageLossOptions {
  float label_smoothing = 0;
  bool mixup = false;  // each image is a mixture, and has two labels
};
struct ImageLoss {
  Val loss;    // f32[1]: smoothed cross entropy, summed over the batch / scalars.tokens
  Val nll;     // f32[1]: -log p(label), summed over the batch; with mixup of the own label alone
  Val logits;  // (B, classes)
  std::vector<MovedStatistic> moved;
};

// Records the inputs and the loss of a batch of images of this size; not `training`, the loss is
// neither smoothed nor mixed.
ImageLoss image_loss(Builder& b, const ImageModel& model, int64_t batch, int64_t height,
                     int64_t width, Val scalars, bool training, const ImageLossOptions& options);

}  // namespace pal
