// Films: folders of frames, which of them are read, and that those of one are changed alike.
#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "data/image_batches.h"
#include "tests/support/files.h"

namespace pal {
namespace {

namespace fs = std::filesystem;
using Frames = std::vector<int64_t>;

const fs::path kGolden = PAL_SOURCE_DIR "/tests/data/golden";

ImageTransform seeing(int frames, int step = 1) {
  ImageTransform t{.size = 7, .resize = 7};
  t.mean = {0, 0, 0}, t.std = {1, 1, 1};
  t.frames = frames, t.frame_step = step;
  return t;
}

// Two films of class a, the first of three different frames; one of class b, of one frame twice.
struct Films {
  Films() {
    copy("colour.png", "a/one/1.png");
    copy("baseline.jpg", "a/one/2.jpg");
    copy("palette.png", "a/one/3.png");
    copy("grey.jpg", "a/deep/er/two/1.jpg");
    copy("colour.png", "b/three/1.png");
    copy("colour.png", "b/three/2.png");
  }
  void copy(const char* golden, const std::string& to) const {
    const fs::path file = folder.path() / to;
    fs::create_directories(file.parent_path());
    fs::copy_file(kGolden / golden, file);
  }
  TemporaryFolder folder;
};

TEST(Film, AFolderOfFramesForEach) {
  const Films films;
  const ImageSet set = read_film_folder(films.folder.path(), OnBadImage::fail);
  EXPECT_EQ(set.classes, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(set.labels, (std::vector<int32_t>{0, 0, 1}));
  EXPECT_EQ(set.film_ends, (Frames{1, 4, 6}));  // folders by name: deep/er/two, one
  EXPECT_EQ(set.frames(1), 3);
  EXPECT_EQ(set.name(1), (films.folder.path() / "a/one").string());
  EXPECT_EQ(set.read(1, 3, 1).pixels, read_image(kGolden / "baseline.jpg", 3).pixels);

  const std::vector<int32_t> last_two{1, 2};
  const ImageSet part = set.subset(last_two);
  EXPECT_EQ(part.film_ends, (Frames{3, 5}));
  EXPECT_EQ(part.read(1, 3, 1).pixels, read_image(kGolden / "colour.png", 3).pixels);
  EXPECT_NE(part.fingerprint(), set.fingerprint());

  const ImageSet one = read_film(films.folder.path() / "a/one");
  EXPECT_EQ(one.frames(0), 3);
  EXPECT_EQ(one.read(0, 3, 2).pixels, read_image(kGolden / "palette.png", 3).pixels);
}

TEST(Film, WhatIsNoFilmIsRefusedOrLeftOut) {
  const Films films;
  films.copy("grey.jpg", "a/loose.jpg");
  const fs::path root = films.folder.path();
  const std::string what = usage_error_of([&] { read_film_folder(root, OnBadImage::fail); });
  EXPECT_NE(what.find("a: 1 images beside its films' folders"), std::string::npos) << what;
  const ImageSet set = read_film_folder(root, OnBadImage::skip);
  EXPECT_EQ(set.labels.size(), 3u);
  EXPECT_EQ(set.warnings.size(), 1u);
  fs::create_directories(root / "c/empty");
  EXPECT_EQ(read_film_folder(root, OnBadImage::skip).warnings.size(), 2u);
  EXPECT_NE(usage_error_of([&] { read_film(root / "c/empty"); }).find("has no frames"),
            std::string::npos);
}

TEST(Film, FramesAreRandomInTrainingAndInTheMiddleElse) {
  EXPECT_EQ(choose_frames(9, seeing(0), nullptr), (Frames{0}));
  EXPECT_EQ(choose_frames(9, seeing(4), nullptr), (Frames{2, 3, 4, 5}));
  EXPECT_EQ(choose_frames(9, seeing(3, 2), nullptr), (Frames{2, 4, 6}));
  EXPECT_EQ(choose_frames(2, seeing(4), nullptr), (Frames{0, 1, 1, 1}));  // stands still
  std::vector<int> begun(6);
  for (int i = 0; i < 600; ++i) {
    ImageDraws draws(1, 0, i);
    const Frames chosen = choose_frames(9, seeing(4), &draws);
    ASSERT_EQ(chosen[3], chosen[0] + 3);
    ++begun.at(size_t(chosen[0]));
  }
  for (const int times : begun) EXPECT_NEAR(times, 100, 40);
}

TEST(Film, BatchesHoldFramesThatWereChangedAlike) {
  const Films films;
  const ImageSet set = read_film_folder(films.folder.path(), OnBadImage::fail);
  BadImages bad(OnBadImage::fail, 2);
  ImageBatch batch;
  const ImageTransform t = seeing(3);
  const size_t image = size_t(t.image_numel());
  fill_validation_batch(set, t, 4, 0, bad, batch);
  ASSERT_EQ(batch.images.size(), 4 * 3 * image);
  EXPECT_EQ(batch.labels, (std::vector<int32_t>{0, 0, 1, kNoLabel}));
  for (int64_t frame = 0; frame < 3; ++frame) {  // of the second film
    std::vector<float> want(image);
    transform_validation(set.read(1, 3, frame), t, want.data());
    const auto got = batch.images.begin() + std::ptrdiff_t((3 + size_t(frame)) * image);
    EXPECT_TRUE(std::equal(want.begin(), want.end(), got)) << frame;
  }

  ImageTransform random = seeing(2);
  random.crop = ImageTransform::Crop::random_resized;
  random.flip = true, random.brightness = 0.4;
  const std::vector<int32_t> third{2};  // both frames are one picture
  const ImageSet still = set.subset(third);
  const TrainingImages training(still, random, {.batch = 3, .seed = 7}, bad);
  training.fill(0, batch);
  std::vector<std::vector<float>> seen;
  for (size_t i = 0; i < 6; ++i) {
    const auto first = batch.images.begin() + std::ptrdiff_t(i * image);
    seen.emplace_back(first, first + std::ptrdiff_t(image));
  }
  for (size_t i = 0; i < 6; i += 2) EXPECT_EQ(seen[i], seen[i + 1]);
  EXPECT_NE(seen[0], seen[2]);  // films are not
}

TEST(Film, AFilmWithABadFrameIsSkipped) {
  const Films films;
  std::ofstream(films.folder.path() / "a/one/2.jpg") << "no picture";
  const ImageSet set = read_film_folder(films.folder.path(), OnBadImage::fail);
  BadImages skip(OnBadImage::skip, 2);
  ImageBatch batch;
  fill_validation_batch(set, seeing(3), 3, 0, skip, batch);
  EXPECT_EQ(batch.labels, (std::vector<int32_t>{0, kNoLabel, 1}));
  EXPECT_EQ(skip.count(), 1);
}

}  // namespace
}  // namespace pal
