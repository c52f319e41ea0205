// Crops, the resampling filter and the colour changes.
#include "data/image_transform.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace pal {
namespace {

// Which pixels one pixel of the result is made of: weights of [first, first + weights.size()).
struct Taps {
  int first = 0;
  std::vector<float> weights;
};

// Triangles of as many source pixels' width as one target pixel is wide, at least one.
std::vector<Taps> triangle_taps(int from, int to) {
  const double scale = double(from) / to, radius = std::max(scale, 1.0);
  std::vector<Taps> all(static_cast<size_t>(to));
  for (int i = 0; i < to; ++i) {
    const double center = (i + 0.5) * scale;
    const int begin = std::max(0, static_cast<int>(center - radius + 0.5));
    const int end = std::min(from, static_cast<int>(center + radius + 0.5));
    std::vector<double> weights;
    double sum = 0;
    for (int x = begin; x < end; ++x) {
      weights.push_back(std::max(0.0, 1 - std::abs((x + 0.5 - center) / radius)));
      sum += weights.back();
    }
    Taps& taps = all[static_cast<size_t>(i)];
    taps.first = begin;
    for (const double w : weights) taps.weights.push_back(static_cast<float>(w / sum));
  }
  return all;
}

void copy_window(const Image& image, const CropWindow& window, float* out) {
  const size_t row = size_t(window.width) * size_t(image.channels);
  for (int y = 0; y < window.height; ++y) {
    const uint8_t* from =
        image.pixels.data() + (size_t(window.top + y) * size_t(image.width) + size_t(window.left)) *
                                  size_t(image.channels);
    std::copy(from, from + row, out + size_t(y) * row);
  }
}

void flip_rows(float* image, int size, int channels) {
  for (int y = 0; y < size; ++y) {
    float* row = image + size_t(y) * size_t(size) * size_t(channels);
    for (int l = 0, r = size - 1; l < r; ++l, --r) {
      std::swap_ranges(row + l * channels, row + (l + 1) * channels, row + r * channels);
    }
  }
}

float luma(const float* p, int channels) {
  return channels == 1 ? p[0] : 0.299f * p[0] + 0.587f * p[1] + 0.114f * p[2];
}

// Each pixel towards a target, from which it keeps `factor` of its distance; in [0, 1] after.
template <class Target>
void blend(float* image, int64_t pixels, int channels, float factor, Target target) {
  for (int64_t i = 0; i < pixels; ++i) {
    float* p = image + i * channels;
    const float t = target(p);
    for (int c = 0; c < channels; ++c) p[c] = std::clamp(t + factor * (p[c] - t), 0.0f, 1.0f);
  }
}

// torchvision's ColorJitter without hue.
void jitter_colours(float* image, const ImageTransform& t, ImageDraws& draws) {
  const int64_t pixels = int64_t{t.size} * t.size;
  const int channels = t.channels();
  std::array<int, 3> order{0, 1, 2};
  for (int i = 2; i > 0; --i) std::swap(order[size_t(i)], order[size_t(draws.below(i + 1))]);
  const std::array<double, 3> strength{t.brightness, t.contrast, t.saturation};
  for (const int which : order) {
    const double s = strength[size_t(which)];
    if (s == 0) continue;
    const auto factor = static_cast<float>(draws.uniform(std::max(0.0, 1 - s), 1 + s));
    if (which == 0) {
      blend(image, pixels, channels, factor, [](const float*) { return 0.0f; });
    } else if (which == 1) {
      double sum = 0;
      for (int64_t i = 0; i < pixels; ++i) sum += double(luma(image + i * channels, channels));
      const auto mean = static_cast<float>(sum / double(pixels));
      blend(image, pixels, channels, factor, [mean](const float*) { return mean; });
    } else {
      blend(image, pixels, channels, factor,
            [channels](const float* p) { return luma(p, channels); });
    }
  }
}

void normalise(float* image, const ImageTransform& t) {
  const size_t channels = t.mean.size();
  for (int64_t i = 0; i < int64_t{t.size} * t.size; ++i) {
    for (size_t c = 0; c < channels; ++c) *image = (*image - t.mean[c]) / t.std[c], ++image;
  }
}

void to_unit(float* image, int64_t n) {
  for (int64_t i = 0; i < n; ++i) image[i] *= 1.0f / 255.0f;
}

// The part in the middle whose resizing to `size` is that of the whole image to a shorter side of
// `resize`.
CropWindow center_window(const Image& image, int size, int resize) {
  const int side =
      std::max(1, static_cast<int>(std::lround(double(std::min(image.height, image.width)) *
                                               std::min(1.0, double(size) / resize))));
  return {(image.height - side) / 2, (image.width - side) / 2, side, side};
}

// A random window of `size` from the image with a black frame.
void pad_and_crop(const Image& image, const ImageTransform& t, ImageDraws& draws, float* out) {
  const int top = draws.below(2 * t.pad + 1) - t.pad, left = draws.below(2 * t.pad + 1) - t.pad;
  const int channels = image.channels;
  std::vector<float> whole(static_cast<size_t>(t.image_numel()));
  resample(image, center_window(image, t.size, t.size), t.size, t.size, whole.data());
  std::fill(out, out + t.image_numel(), 0.0f);
  const int first = std::max(0, -left), last = std::min(t.size, t.size - left);
  for (int y = std::max(0, -top); y < std::min(t.size, t.size - top); ++y) {
    const float* from = whole.data() + ((y + top) * t.size + first + left) * channels;
    std::copy(from, from + (last - first) * channels, out + (y * t.size + first) * channels);
  }
}

}  // namespace

CropWindow random_resized_window(int height, int width, double scale_min, ImageDraws& draws) {
  const double area = double(height) * width, widest = std::log(4.0 / 3.0);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * draws.uniform(scale_min, 1.0);
    const double ratio = std::exp(draws.uniform(-widest, widest));
    const auto w = static_cast<int>(std::lround(std::sqrt(target * ratio)));
    const auto h = static_cast<int>(std::lround(std::sqrt(target / ratio)));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const int top = draws.below(height - h + 1);
    return {top, draws.below(width - w + 1), h, w};
  }
  int w = width, h = height;
  if (double(width) / height < 3.0 / 4) {
    h = static_cast<int>(std::lround(width / 0.75));
  } else if (double(width) / height > 4.0 / 3) {
    w = static_cast<int>(std::lround(height / 0.75));
  }
  w = std::min(w, width), h = std::min(h, height);
  return {(height - h) / 2, (width - w) / 2, h, w};
}

void resample(const Image& image, const CropWindow& window, int height, int width, float* out) {
  if (window.height == height && window.width == width) return copy_window(image, window, out);
  const int channels = image.channels;
  const size_t row = size_t(width) * size_t(channels);
  const std::vector<Taps> across = triangle_taps(window.width, width);
  std::vector<float> narrow(size_t(window.height) * row);  // (window.height, width, C)
  for (int y = 0; y < window.height; ++y) {
    const uint8_t* from =
        image.pixels.data() +
        (size_t(window.top + y) * size_t(image.width) + size_t(window.left)) * size_t(channels);
    float* to = narrow.data() + size_t(y) * row;
    for (const Taps& taps : across) {
      const uint8_t* pixel = from + taps.first * channels;
      for (int c = 0; c < channels; ++c) {
        float sum = 0;
        for (size_t k = 0; k < taps.weights.size(); ++k) {
          sum += taps.weights[k] * float(pixel[k * size_t(channels) + size_t(c)]);
        }
        *to++ = sum;
      }
    }
  }
  const std::vector<Taps> down = triangle_taps(window.height, height);
  for (size_t y = 0; y < down.size(); ++y) {
    float* to = out + y * row;
    std::fill(to, to + row, 0.0f);
    for (size_t k = 0; k < down[y].weights.size(); ++k) {
      const float* from = narrow.data() + (size_t(down[y].first) + k) * row;
      const float weight = down[y].weights[k];
      for (size_t i = 0; i < row; ++i) to[i] += weight * from[i];
    }
  }
}

std::vector<int64_t> choose_frames(int64_t count, const ImageTransform& t, ImageDraws* draws) {
  if (t.frames == 0) return {0};
  const int64_t span = int64_t{t.frames - 1} * t.frame_step + 1;
  const int64_t room = std::max<int64_t>(count - span, 0);
  const int64_t first = draws ? draws->below(static_cast<int>(room + 1)) : room / 2;
  std::vector<int64_t> chosen;
  for (int i = 0; i < t.frames; ++i) {
    chosen.push_back(std::min(first + int64_t{i} * t.frame_step, count - 1));
  }
  return chosen;
}

void transform_training(const Image& image, const ImageTransform& t, ImageDraws& draws,
                        float* out) {
  switch (t.crop) {
    case ImageTransform::Crop::pad: pad_and_crop(image, t, draws, out); break;
    case ImageTransform::Crop::random_resized:
      resample(image, random_resized_window(image.height, image.width, t.scale_min, draws), t.size,
               t.size, out);
      break;
    case ImageTransform::Crop::center:
      resample(image, center_window(image, t.size, t.resize), t.size, t.size, out);
  }
  if (t.flip && draws.uniform() < 0.5) flip_rows(out, t.size, t.channels());
  to_unit(out, t.image_numel());
  if (t.brightness > 0 || t.contrast > 0 || t.saturation > 0) jitter_colours(out, t, draws);
  normalise(out, t);
}

void transform_validation(const Image& image, const ImageTransform& t, float* out) {
  resample(image, center_window(image, t.size, t.resize), t.size, t.size, out);
  to_unit(out, t.image_numel());
  normalise(out, t);
}

}  // namespace pal
