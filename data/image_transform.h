// From an image of any size to the numbers that a model reads: crop, resize, flip, colour,
// normalise; and which frames of a film are read.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/philox.h"
#include "data/image.h"

namespace pal {

struct ImageTransform {
  enum class Crop {
    center,         // no augmentation: as for validation
    pad,            // `pad` black pixels on every side, then a random window (He et al. 2016)
    random_resized  // a random part, of scale_min to 1 of the area, resized (Szegedy et al. 2015)
  };
  Crop crop = Crop::center;
  int size = 224;  // height and width of the result
  int resize =
      256;  // before the centre crop: the shorter side; where pad is the crop: size is used
  int pad = 4;
  double scale_min = 0.08;
  bool flip = false;                                    // left to right, every other image
  double brightness = 0, contrast = 0, saturation = 0;  // factors from [1 - x, 1 + x], random order
  std::vector<float> mean, std;  // by channel, of values in [0, 1]; their number is the channels
  int frames = 0;                // of a film, frame_step apart; 0: single images
  int frame_step = 1;

  int channels() const { return static_cast<int>(mean.size()); }
  int64_t image_numel() const { return int64_t{size} * size * channels(); }
  int64_t numel() const { return std::max(frames, 1) * image_numel(); }  // of a sample
};

// Random numbers for one image: a function of (seed, epoch, position in the epoch) alone.
class ImageDraws {
 public:
  ImageDraws(uint64_t seed, int64_t epoch, int64_t position, uint32_t stream = 0x1A6Eu)
      : key_{seed, static_cast<uint32_t>(epoch), static_cast<uint32_t>(position), stream} {}

  double uniform() {  // [0, 1)
    if (at_ == 4) block_ = draw(key_, next_++), at_ = 0;
    return static_cast<double>(uniform01(block_.x[at_++]));
  }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  int below(int bound) { return static_cast<int>(uniform() * bound); }  // bound up to 2^24

 private:
  RandomKey key_;
  uint64_t next_ = 0;
  Philox4 block_{};
  int at_ = 4;
};

// Part of an image.
struct CropWindow {
  int top = 0, left = 0, height = 0, width = 0;
  bool operator==(const CropWindow&) const = default;
};

// As torchvision's RandomResizedCrop chooses: ratio 3/4 to 4/3, ten tries, then the largest centre
// window of such a ratio.
CropWindow random_resized_window(int height, int width, double scale_min, ImageDraws& draws);

// The window resized to (height, width, C), values in [0, 255]: bilinear, with a filter as wide as
// the pixels that fall on one (as Pillow's; "antialias"). Exact where the size stays.
void resample(const Image& image, const CropWindow& window, int height, int width, float* out);

// The frames to read of a film of `count`: from a random one on where there are draws, else those
// in the middle. A film that is too short stands still at its end. {0} for single images.
std::vector<int64_t> choose_frames(int64_t count, const ImageTransform& transform,
                                   ImageDraws* draws);

// The whole transform of a training image, augmented as the transform says: (size, size, C) to out.
// Frames of a film are given equal draws, and so changed alike.
void transform_training(const Image& image, const ImageTransform& transform, ImageDraws& draws,
                        float* out);
// Of an image to be judged: the shorter side resized, the centre, normalised.
void transform_validation(const Image& image, const ImageTransform& transform, float* out);

}  // namespace pal
