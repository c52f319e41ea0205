// Sets of images: folders, CIFAR, IDX, damaged files; batches that any number of threads makes
// alike.
#include "data/image_set.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <set>

#include "core/error.h"
#include "data/image_batches.h"
#include "data/parallel_prefetch.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

const fs::path kGolden = PAL_SOURCE_DIR "/tests/data/golden";

class ImageSetTest : public testing::Test {
 protected:
  ImageSetTest()
      : dir_(fs::path(testing::TempDir()) /
             ("pal_images_" + std::to_string(getpid()) + "_" +
              testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(dir_);
    fs::create_directories(dir_);
  }
  ~ImageSetTest() override { fs::remove_all(dir_); }

  void copy(const char* golden, const std::string& to) const {
    fs::create_directories((dir_ / to).parent_path());
    fs::copy_file(kGolden / golden, dir_ / to);
  }
  fs::path write(const std::string& name, const std::string& bytes) const {
    fs::create_directories((dir_ / name).parent_path());
    std::ofstream(dir_ / name, std::ios::binary) << bytes;
    return dir_ / name;
  }
  fs::path compress(const std::string& name, const std::string& bytes) const {
    gzFile file = gzopen((dir_ / name).c_str(), "wb");
    gzwrite(file, bytes.data(), unsigned(bytes.size()));
    gzclose(file);
    return dir_ / name;
  }
  template <class Use> static std::string error_of(Use use) {
    try {
      use();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }
  const fs::path dir_;
};

TEST_F(ImageSetTest, AFolderForEachClass) {
  copy("colour.png", "dog/2.PNG");
  copy("baseline.jpg", "dog/1.jpg");
  copy("grey.jpg", "cat/deep/er/x.JPEG");
  write("cat/readme.txt", "no image");
  write("cat/.hidden.jpg", "no image");
  write("loose.jpg", "of no class");
  write(".cache/1.jpg", "of no class either");
  const ImageSet set = read_image_folder(dir_, OnBadImage::fail);
  EXPECT_EQ(set.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(set.labels, (std::vector<int32_t>{0, 1, 1}));
  EXPECT_EQ(set.files[1].filename(), "1.jpg");
  EXPECT_EQ(set.read(1, 3).width, 30);
  // The order of known classes stands.
  const ImageSet known = read_image_folder(dir_, OnBadImage::fail, {"dog", "cow", "cat"});
  EXPECT_EQ(known.labels, (std::vector<int32_t>{2, 0, 0}));
  EXPECT_NE(set.fingerprint(), known.fingerprint());
  EXPECT_EQ(set.fingerprint(), read_image_folder(dir_, OnBadImage::fail).fingerprint());
}

TEST_F(ImageSetTest, AClassWithoutImagesFailsOrIsLeftOut) {
  copy("colour.png", "a/1.png");
  fs::create_directories(dir_ / "b");
  copy("colour.png", "c/1.png");
  const std::string what = error_of([&] { read_image_folder(dir_, OnBadImage::fail); });
  EXPECT_NE(what.find("b: a class without images"), std::string::npos) << what;
  EXPECT_NE(what.find("data.on_error: skip"), std::string::npos) << what;
  const ImageSet set = read_image_folder(dir_, OnBadImage::skip);
  EXPECT_EQ(set.classes, (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(set.warnings.size(), 1u);
  // Likewise a class that training did not have.
  EXPECT_NE(error_of([&] { read_image_folder(dir_, OnBadImage::fail, {"a", "b"}); }), "");
  EXPECT_EQ(read_image_folder(dir_, OnBadImage::skip, {"a"}).labels, (std::vector<int32_t>{0}));
  EXPECT_NE(error_of([&] { read_image_folder(dir_ / "b", OnBadImage::skip); }).find("no images"),
            std::string::npos);
  EXPECT_NE(
      error_of([&] { read_image_folder(dir_ / "z", OnBadImage::skip); }).find("cannot be read"),
      std::string::npos);
}

TEST_F(ImageSetTest, CifarBinaries) {
  std::string ten, hundred;
  for (int i = 0; i < 3; ++i) {
    ten += char(i);
    hundred += std::string(1, char(19)) + char(97 + i);
    for (int c = 0; c < 3; ++c) {
      const std::string plane(1024, char(10 * c + i));
      ten += plane, hundred += plane;
    }
  }
  const ImageSet set = read_cifar(std::vector{write("a.bin", ten), compress("b.bin.gz", ten)}, 10);
  EXPECT_EQ(set.labels, (std::vector<int32_t>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(set.classes.size(), 10u);
  const Image image = set.read(5, 3);
  EXPECT_EQ((std::vector<uint8_t>{image.pixels.begin(), image.pixels.begin() + 4}),
            (std::vector<uint8_t>{2, 12, 22, 2}));
  EXPECT_EQ(read_cifar(std::vector{write("c.bin", hundred)}, 100).labels,
            (std::vector<int32_t>{97, 98, 99}));
  write("batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  EXPECT_EQ(read_cifar(std::vector{dir_ / "a.bin"}, 10).classes[9], "j");

  EXPECT_NE(error_of([&] {
              read_cifar(std::vector{write("cut", ten.substr(1))}, 10);
            }).find("are not a number of CIFAR-10 images"),
            std::string::npos);
  ten[3073] = 10;
  EXPECT_NE(error_of([&] {
              read_cifar(std::vector{write("label", ten)}, 10);
            }).find("label 10 of image 1"),
            std::string::npos);
  EXPECT_NE(error_of([&] { read_cifar(std::vector{dir_ / "none"}, 10); }).find("no such file"),
            std::string::npos);
  std::ifstream in(dir_ / "b.bin.gz", std::ios::binary);
  const std::string packed{std::istreambuf_iterator<char>(in), {}};
  EXPECT_NE(error_of([&] {
              read_cifar(std::vector{write("d.gz", packed.substr(0, packed.size() / 2))}, 10);
            }).find("cut short"),
            std::string::npos);
}

std::string idx(std::vector<int> extents, const std::string& values) {
  std::string out{0, 0, 8, char(extents.size())};
  for (int e : extents) out += std::string{0, 0, char(e >> 8), char(e)};
  return out + values;
}

TEST_F(ImageSetTest, IdxFiles) {
  const std::string pixels = "abcdefghijkl";
  write("x-images-idx3-ubyte", idx({2, 2, 3}, pixels));
  write("x-labels-idx1-ubyte", idx({2}, std::string{3, 1}));
  compress("y-images-idx3-ubyte.gz", idx({1, 2, 3}, "ABCDEF"));
  compress("y-labels-idx1-ubyte.gz", idx({1}, std::string{0}));
  const std::vector files{dir_ / "x-images-idx3-ubyte", dir_ / "y-images-idx3-ubyte.gz"};
  const ImageSet set = read_idx(files);
  EXPECT_EQ(set.labels, (std::vector<int32_t>{3, 1, 0}));
  EXPECT_EQ(set.classes, (std::vector<std::string>{"0", "1", "2", "3"}));
  EXPECT_EQ(set.read(1, 1).pixels[0], 'g');
  EXPECT_EQ(set.read(2, 3).pixels,
            (std::vector<uint8_t>{'A', 'A', 'A', 'B', 'B', 'B', 'C', 'C', 'C', 'D', 'D', 'D', 'E',
                                  'E', 'E', 'F', 'F', 'F'}));
  const std::vector some{int32_t{2}, int32_t{0}};
  EXPECT_EQ(set.subset(some).labels, (std::vector<int32_t>{0, 3}));
  EXPECT_EQ(set.subset(some).read(0, 1).pixels[0], 'A');

  auto fault = [&](const std::string& bytes) {
    return error_of([&] { read_idx(std::vector{write("z-images-idx3-ubyte", bytes)}); });
  };
  write("z-labels-idx1-ubyte", idx({2}, std::string{3, 1}));
  EXPECT_NE(fault("hello").find("not an IDX file"), std::string::npos);
  EXPECT_NE(fault(idx({2, 2, 3}, pixels.substr(1))).find("has 11 values"), std::string::npos);
  EXPECT_NE(fault(idx({1, 2, 3}, pixels.substr(6))).find("not as many"), std::string::npos);
  EXPECT_NE(fault(std::string{0, 0, 13, 1, 0, 0, 0, 0}).find("other values"), std::string::npos);
  EXPECT_NE(fault(std::string{0, 0, 8, 3, 0}).find("broken header"), std::string::npos);
  // 65,535 cubed would overflow what the file has.
  EXPECT_NE(fault(idx({65535, 65535, 65535}, "x")), "");
}

ImageTransform small() {
  ImageTransform t;
  t.crop = ImageTransform::Crop::random_resized;
  t.size = t.resize = 6;
  t.flip = true;
  t.brightness = 0.3;
  t.mean = {0.5f, 0.5f, 0.5f}, t.std = {0.2f, 0.2f, 0.2f};
  return t;
}

// Drawn by its own number, wherever it stands: a part of a set has the set's images.
TEST_F(ImageSetTest, MadeUpImagesKeepTheirPixelsInAPart) {
  const ImageSet set = made_up_images(6, 3, 8, 3, 5, 0);
  EXPECT_EQ(set.size(), 6);
  EXPECT_EQ(set.made_up.numbers.size(), 6u);
  const std::vector<int32_t> some{4, 1};
  const ImageSet part = set.subset(some);
  EXPECT_EQ(part.read(0, 3).pixels, set.read(4, 3).pixels);
  EXPECT_EQ(part.read(1, 3).pixels, set.read(1, 3).pixels);
  EXPECT_NE(set.read(4, 3).pixels, set.read(1, 3).pixels);
}

// Which of the 4 x 4 blocks of a made-up image of 8 x 8 are bright.
std::vector<bool> pattern_of(const Image& image) {
  std::vector<bool> pattern;
  for (size_t block = 0; block < 16; ++block) {
    int least = 255, most = 0;
    for (size_t k = 0; k < 2 * 2 * 3; ++k) {
      const size_t row = block / 4 * 2 + k / 6, column = block % 4 * 2 + k / 3 % 2;
      const int value = image.pixels[(row * 8 + column) * 3 + k % 3];
      least = std::min(least, value), most = std::max(most, value);
    }
    pattern.push_back(most >= 128);
    EXPECT_TRUE(most < 128 || least >= 96) << "block " << block;
  }
  return pattern;
}

// A class has a pattern of 4 x 4 blocks, bright or dark; the rest is noise that no two images
// share.
TEST_F(ImageSetTest, MadeUpImagesShowTheirClass) {
  const ImageSet set = made_up_images(40, 8, 8, 3, 5, 0);
  std::vector<std::vector<bool>> patterns;
  for (int64_t i = 0; i < set.size(); ++i) {
    const std::vector<bool> pattern = pattern_of(set.read(i, 3));
    const auto label = size_t(set.labels[size_t(i)]);
    ASSERT_EQ(label, size_t(i) % 8);
    if (label == patterns.size()) patterns.push_back(pattern);
    ASSERT_EQ(pattern, patterns[label]) << i;
  }
  EXPECT_GT(std::set(patterns.begin(), patterns.end()).size(), 6u);
}

// No two blocks are the same bit of the pattern.
TEST_F(ImageSetTest, MadeUpImagesHaveSixteenBlocks) {
  const ImageSet set = made_up_images(100, 100, 8, 3, 5, 0);
  std::set<std::vector<bool>> by_class;
  for (size_t block = 0; block < 16; ++block) {
    std::vector<bool> bright;
    for (int64_t i = 0; i < set.size(); ++i) bright.push_back(pattern_of(set.read(i, 3))[block]);
    EXPECT_TRUE(by_class.insert(bright).second) << block;
  }
}

// Of files, of made-up images and of pixels.
TEST_F(ImageSetTest, KeepsWhatASubsetHas) {
  copy("colour.png", "a/1.png"), copy("baseline.jpg", "a/2.jpg"), copy("grey.jpg", "b/1.jpg");
  ImageSet pixels{.labels = {2, 0, 1}, .height = 2, .width = 1, .channels = 3};
  for (int i = 0; i < 3 * 6; ++i) pixels.pixels.push_back(uint8_t(i));
  const std::vector<int32_t> some{0, 2};
  for (const ImageSet& whole :
       {read_image_folder(dir_, OnBadImage::fail), made_up_images(3, 2, 4, 1, 7, 0), pixels}) {
    ImageSet kept = whole;
    kept.keep(some);
    const ImageSet want = whole.subset(some);
    EXPECT_EQ(kept.fingerprint(), want.fingerprint());
    EXPECT_EQ(kept.pixels, want.pixels);
    EXPECT_EQ(kept.read(1, 3).pixels, whole.read(2, 3).pixels);
  }
}

TEST_F(ImageSetTest, FingerprintsTellNamesApart) {
  const auto of = [](std::vector<fs::path> files) {
    return ImageSet{.labels = std::vector<int32_t>(files.size()), .files = files}.fingerprint();
  };
  EXPECT_EQ(of({"ab", "c"}), of({"ab", "c"}));
  EXPECT_NE(of({"ab", "c"}), of({"a", "bc"}));
  EXPECT_NE(of({"ab", "c"}), of({"ab", "d"}));
  EXPECT_NE(of({"ab", "c"}), of({"c", "ab"}));
}

bool equal(const ImageBatch& a, const ImageBatch& b) {
  return a.images == b.images && a.labels == b.labels && a.other_labels == b.other_labels &&
         a.mix == b.mix && a.count == b.count;
}

TEST_F(ImageSetTest, BatchesAreTheSameForAnyNumberOfThreads) {
  const ImageSet set = made_up_images(23, 4, 9, 3, 5, 0);
  BadImages bad(OnBadImage::fail, 1);
  const TrainingImages images(set, small(), {.batch = 5, .seed = 9, .mixup = 0.4}, bad);
  EXPECT_EQ(images.batches_per_epoch(), 4);
  std::vector<ImageBatch> expected(14);
  for (int64_t n = 13; n >= 0; --n) images.fill(n, expected[size_t(n)]);
  for (int workers : {1, 2, 5}) {
    for (int64_t first : {0, 6}) {
      ParallelPrefetch<ImageBatch> ahead(
          [&](int64_t n, ImageBatch& batch) { images.fill(n, batch); }, first, workers);
      ImageBatch batch;
      for (int64_t n = first; n < 14; ++n) {
        ahead.next(batch);
        ASSERT_TRUE(equal(batch, expected[size_t(n)])) << n << " by " << workers;
      }
    }
  }
  // Another seed, another epoch: other images.
  EXPECT_NE(expected[0].images, expected[4].images);
  const TrainingImages other(set, small(), {.batch = 5, .seed = 10, .mixup = 0.4}, bad);
  ImageBatch batch;
  other.fill(0, batch);
  EXPECT_NE(batch.images, expected[0].images);
}

TEST_F(ImageSetTest, AnEpochHasEveryImageOnce) {
  ImageSet set{.height = 1, .width = 1, .channels = 1};
  for (int i = 0; i < 20; ++i) set.labels.push_back(i), set.pixels.push_back(uint8_t(i));
  BadImages bad(OnBadImage::fail, 1);
  ImageTransform t;
  t.size = t.resize = 1;
  t.mean = {0}, t.std = {1};
  const TrainingImages images(set, t, {.batch = 5}, bad);
  ImageBatch batch;
  std::vector<int32_t> first;
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    std::set<int32_t> seen;
    std::vector<int32_t> order;
    for (int64_t n = 0; n < 4; ++n) {
      images.fill(4 * epoch + n, batch);
      for (size_t i = 0; i < 5; ++i) {
        seen.insert(batch.labels[i]);
        order.push_back(batch.labels[i]);
        EXPECT_NEAR(double(batch.images[i]), batch.labels[i] / 255.0, 1e-6);
      }
    }
    EXPECT_EQ(seen.size(), 20u);
    if (epoch == 0)
      first = order;
    else
      EXPECT_NE(order, first);
  }
  // Fewer images than a batch holds: they come more than once.
  const TrainingImages few(set, t, {.batch = 50}, bad);
  EXPECT_EQ(few.batches_per_epoch(), 1);
  few.fill(3, batch);
  EXPECT_EQ(batch.count, 50);
}

TEST_F(ImageSetTest, BadFilesAreSkippedAndCountedOrRefused) {
  copy("colour.png", "a/1.png");
  copy("baseline.jpg", "a/2.jpg");
  copy("baseline.jpg", "b/1.jpg");
  fs::resize_file(dir_ / "a/2.jpg", 700);
  write("b/2.jpg", "a letter, not a picture");
  copy("colour.png", "b/3.png");
  const ImageSet set = read_image_folder(dir_, OnBadImage::skip);
  BadImages skip(OnBadImage::skip, 2), fail(OnBadImage::fail, 2), large(OnBadImage::skip, 22);
  const TrainingImages images(set, small(), {.batch = 5, .seed = 2}, skip);
  ImageBatch batch, again;
  images.fill(0, batch);
  EXPECT_EQ(batch.count, 5);
  for (size_t i = 0; i < 5; ++i) EXPECT_GE(batch.labels[i], 0);
  EXPECT_EQ(skip.count(), 2);
  const std::vector<std::string> news = skip.news();
  ASSERT_EQ(news.size(), 2u);
  EXPECT_TRUE(skip.news().empty());
  // What is known to be bad changes nothing.
  images.fill(0, again);
  EXPECT_TRUE(equal(batch, again));

  const TrainingImages strict(set, small(), {.batch = 5, .seed = 2}, fail);
  const std::string what = error_of([&] { strict.fill(0, batch); });
  EXPECT_NE(what.find(dir_.string()), std::string::npos) << what;
  EXPECT_NE(what.find("data.on_error: skip"), std::string::npos) << what;
  const TrainingImages none(set, small(), {.batch = 5, .seed = 2}, large);
  EXPECT_NE(error_of([&] { none.fill(0, batch); }).find("none of 5"), std::string::npos);
  EXPECT_NE(large.news()[0].find("data.min_side is 22"), std::string::npos);

  BadImages valid(OnBadImage::skip, 2);
  fill_validation_batch(set, small(), 4, 0, valid, batch);
  EXPECT_EQ(batch.labels, (std::vector<int32_t>{0, kNoLabel, 1, kNoLabel}));
  EXPECT_EQ(batch.count, 2);
  fill_validation_batch(set, small(), 4, 1, valid, batch);
  EXPECT_EQ(batch.labels, (std::vector<int32_t>{1, kNoLabel, kNoLabel, kNoLabel}));
  // What a worker throws arrives at whoever takes the batch.
  ParallelPrefetch<ImageBatch> ahead([&](int64_t n, ImageBatch& b) { strict.fill(n, b); }, 0, 3);
  EXPECT_THROW(ahead.next(batch), UsageError);
  EXPECT_THROW(ahead.next(batch), UsageError);
}

TEST_F(ImageSetTest, MixupMixesPairs) {
  const ImageSet set = made_up_images(6, 3, 6, 3, 1, 0);
  BadImages bad(OnBadImage::fail, 1);
  const TrainingImages plain(set, small(), {.batch = 5}, bad);
  const TrainingImages mixed(set, small(), {.batch = 5, .mixup = 0.8}, bad);
  ImageBatch a, b;
  double sum = 0, squares = 0;
  for (int64_t n = 0; n < 400; ++n) {
    mixed.fill(n, b);
    sum += double(b.mix), squares += double(b.mix) * double(b.mix);
    if (n > 3) continue;
    plain.fill(n, a);
    EXPECT_EQ(a.labels, b.labels);
    EXPECT_TRUE(a.other_labels.empty());
    const size_t pixels = 6 * 6 * 3;
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(b.other_labels[i], a.labels[4 - i]);
      for (size_t k = 0; k < pixels; ++k) {
        const float want =
            b.mix * a.images[i * pixels + k] + (1 - b.mix) * a.images[(4 - i) * pixels + k];
        ASSERT_NEAR(b.images[i * pixels + k], want, 1e-5) << i;
      }
    }
  }
  // A batch that was mixed before is plain again.
  plain.fill(0, b);
  EXPECT_EQ(b.mix, 1);
  EXPECT_TRUE(b.other_labels.empty());
  // Beta(0.8, 0.8): mean 1/2, variance 1 / (4 (2 * 0.8 + 1)).
  EXPECT_NEAR(sum / 400, 0.5, 0.05);
  EXPECT_NEAR(squares / 400 - std::pow(sum / 400, 2), 1 / (4 * 2.6), 0.015);
}

// A run that goes on elsewhere, or with a later version, sees what it would have seen. From
// Philox's numbers, worked out apart.
TEST_F(ImageSetTest, SharesAreTheSameEverywhere) {
  const ImageSet set = made_up_images(23, 4, 6, 3, 5, 0);
  BadImages bad(OnBadImage::fail, 1);
  const TrainingImages images(set, small(), {.batch = 5, .seed = 9, .mixup = 1}, bad);
  ImageBatch batch;
  for (const auto& [n, share] : {std::pair(1, 0.5292578f), {2, 0.4916009f}, {6, 0.3638086f}}) {
    images.fill(n, batch);
    EXPECT_NEAR(batch.mix, share, 1e-6f) << n;
  }
}

TEST(ParallelPrefetch, GivesItemsInOrderWhoeverIsSlow) {
  std::atomic<int> made{0};
  {
    ParallelPrefetch<int64_t> ahead(
        [&](int64_t n, int64_t& item) {
          if (n % 3 == 0) usleep(2000);
          item = n * n, ++made;
        },
        7, 4);
    int64_t item = 0;
    for (int64_t n = 7; n < 60; ++n) {
      ahead.next(item);
      ASSERT_EQ(item, n * n);
    }
  }
  EXPECT_LE(made, 53 + 5);  // no further ahead than its slots
}

}  // namespace
}  // namespace pal
