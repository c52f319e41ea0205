// Images as a configuration describes them: each of its keys reaches the transform and the log.
#include "train/images/image_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace pal {
namespace {

ImageData data_of(const std::string& keys) {
  const Config config = parse_config(
      "model: {type: resnet, family: cifar, depth: 8, width: 4}\n"
      "data: {synthetic: true, classes: 4, image_size: 8" +
          keys + "}\ntrain: {batch_size: 4, steps: 1}\n",
      "test.yaml");
  return ImageData(std::get<ImageConfig>(config.data), 1);
}

std::string described(const std::string& keys) {
  ImageData data = data_of(keys);
  std::string text;
  for (const std::string& line : data.describe()) text += line + "\n";
  return text;
}

TEST(ImageData, TheTransformHasWhatWasConfigured) {
  const ImageData plain = data_of(", brightness: 0, contrast: 0, saturation: 0");
  EXPECT_EQ(plain.transform().brightness, 0);
  EXPECT_EQ(plain.transform().contrast, 0);
  EXPECT_EQ(plain.transform().saturation, 0);
  const ImageData data = data_of(
      ", crop: pad, crop_pad: 3, crop_scale: 0.25, flip: false, resize: 12, brightness: 0.125, "
      "contrast: 0.375, saturation: 0.625, mean: [1, 2, 3], std: [4, 5, 6]");
  const ImageTransform& t = data.transform();
  EXPECT_EQ(t.crop, ImageTransform::Crop::pad);
  EXPECT_EQ(t.size, 8);
  EXPECT_EQ(t.resize, 12);
  EXPECT_EQ(t.pad, 3);
  EXPECT_FLOAT_EQ(float(t.scale_min), 0.25f);
  EXPECT_FALSE(t.flip);
  EXPECT_FLOAT_EQ(float(t.brightness), 0.125f);
  EXPECT_FLOAT_EQ(float(t.contrast), 0.375f);
  EXPECT_FLOAT_EQ(float(t.saturation), 0.625f);
  EXPECT_TRUE(std::ranges::equal(t.mean, std::vector{1, 2, 3}));
  EXPECT_TRUE(std::ranges::equal(t.std, std::vector{4, 5, 6}));
}

TEST(ImageData, TheLogSaysWhatIsDoneToImages) {
  const std::string none = "brightness: 0, contrast: 0, saturation: 0";
  EXPECT_EQ(described(", flip: false, mixup: 0, " + none).find("jittered"), std::string::npos);
  for (const char* key : {"brightness", "contrast", "saturation"}) {
    std::string keys = ", " + none;
    const std::string zero = std::string(key) + ": 0";
    keys.replace(keys.find(zero), zero.size(), std::string(key) + ": 0.5");
    EXPECT_NE(described(keys).find(", colours jittered"), std::string::npos) << key;
  }
  const std::string all = described(", crop: center, flip: true, mixup: 0.5, " + none);
  EXPECT_NE(all.find("8 x 8 x 3, crop center, flipped, mixed\n"), std::string::npos) << all;
}

}  // namespace
}  // namespace pal
