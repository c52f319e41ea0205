// Reading and transforming single images: as Pillow reads and resizes them; what is no image.
#include "data/image.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "data/image_transform.h"
#include "tests/support/files.h"

namespace pal {
namespace {

const std::string kFolder = PAL_SOURCE_DIR "/tests/data/golden/";

const nlohmann::json& golden() {
  static const nlohmann::json numbers = [] {
    std::ifstream in(kFolder + "images.json");
    return nlohmann::json::parse(in);
  }();
  return numbers;
}

std::vector<uint8_t> bytes_of(const std::string& name) {
  std::ifstream in(kFolder + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string error_of(const std::vector<uint8_t>& bytes) {
  try {
    decode_image(bytes, 3, "picture.jpg");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Image, ReadsWhatPillowReads) {
  for (const auto& [name, pixels] : golden()["decoded"].items()) {
    const Image image = read_image(kFolder + name, 3);
    ASSERT_EQ(image.width, 30) << name;
    ASSERT_EQ(image.height, 21) << name;
    ASSERT_EQ(image.pixels.size(), pixels.size()) << name;
    // JPEG decoders may round otherwise; PNG is exact.
    const int most = name.ends_with("jpg") ? 3 : 0;
    for (size_t i = 0; i < pixels.size(); ++i) {
      ASSERT_NEAR(int(image.pixels[i]), pixels[i].get<int>(), most) << name << " at " << i;
    }
    EXPECT_EQ(read_image(kFolder + name, 1).pixels.size(), size_t(21 * 30)) << name;
  }
}

TEST(Image, AJpegCutAnywhereIsRefused) {
  for (const char* name : {"baseline.jpg", "progressive.jpg", "grey.jpg"}) {
    const std::vector<uint8_t> whole = bytes_of(name);
    EXPECT_EQ(error_of(whole), "") << name;
    for (size_t size = 0; size < whole.size(); ++size) {
      ASSERT_EQ(error_of({whole.begin(), whole.begin() + ptrdiff_t(size)}),
                size >= 2   ? "picture.jpg: the JPEG is cut short: it has no end marker"
                : size == 1 ? "picture.jpg: not a JPEG or PNG image that can be read"
                            : "picture.jpg: the file is empty")
          << name << " of " << size << " bytes";
    }
  }
}

// stb_image has room for 256 codes a table, and believes whatever stands where it reads their
// counts.
TEST(Image, AJpegWithTooManyCodesIsRefused) {
  const auto with_segment = [](size_t length, std::vector<uint8_t> segment) {
    std::vector<uint8_t> jpeg{0xFF, 0xD8, 0xFF, 0xC4, uint8_t(length >> 8), uint8_t(length)};
    segment.resize(length - 2);
    jpeg.insert(jpeg.end(), segment.begin(), segment.end());
    jpeg.insert(jpeg.end(), {0xFF, 0xD9});
    return jpeg;
  };
  const std::string damaged = "picture.jpg: a damaged JPEG";
  const std::string short_of = "picture.jpg: the JPEG is cut short: it has no end marker";
  EXPECT_EQ(error_of(with_segment(2 + 17 + 257, {0, 0, 255, 2})), damaged);
  EXPECT_EQ(error_of(with_segment(2 + 17 + 256, {0, 0, 255, 1})),  // of no picture, but no harm
            "picture.jpg: not a JPEG or PNG image that can be read");
  EXPECT_EQ(error_of(with_segment(10, {0, 255, 255})), damaged);  // its counts go on after it
  EXPECT_EQ(error_of(with_segment(2 + 17 + 3, {0, 4})), damaged);
  EXPECT_EQ(error_of({0xFF, 0xD8, 0xFF, 0xE0, 0, 1}), damaged);  // shorter than its own length
  EXPECT_EQ(error_of({0xFF, 0xD8, 0xFF, 0xE0, 0, 2}), short_of);
  EXPECT_EQ(error_of({0xFF, 0xD8, 0xFF, 0xE0, 0}), short_of);
  std::vector<uint8_t> filled = with_segment(2 + 17 + 257, {0, 0, 255, 2});
  filled.insert(filled.begin(), 0xFF);  // a fill byte hides nothing
  EXPECT_EQ(error_of(filled), damaged);
  filled = bytes_of("baseline.jpg");
  filled.insert(filled.begin(), 0xFF);
  EXPECT_EQ(error_of(filled), "");
}

TEST(Image, APngCutAnywhereIsRefused) {
  const std::vector<uint8_t> whole = bytes_of("alpha.png");
  const size_t end_chunk = 12;  // nothing is missing without it
  for (size_t size = 0; size + end_chunk < whole.size(); ++size) {
    ASSERT_NE(error_of({whole.begin(), whole.begin() + ptrdiff_t(size)}), "") << size;
  }
}

TEST(Image, RefusesWhatIsNone) {
  const std::string text = "dear reader, this is no picture";
  EXPECT_EQ(error_of({text.begin(), text.end()}),
            "picture.jpg: not a JPEG or PNG image that can be read");
  EXPECT_EQ(error_of({}), "picture.jpg: the file is empty");
  try {
    read_image(kFolder + "none.jpg", 3);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("none.jpg: cannot be opened"), std::string::npos);
  }
  EXPECT_THROW(read_image(kFolder, 3), UsageError);  // a folder
  // A PNG whose header promises 40,000 x 40,000 pixels.
  std::vector<uint8_t> huge = bytes_of("colour.png");
  for (size_t at : {16, 20}) huge[at + 2] = 0x9C, huge[at + 3] = 0x40;
  EXPECT_NE(error_of(huge), "");
}

// A PNG of one pixel whose packed rows are 64 MB.
TEST(Image, APngThatHoldsMoreThanItsPixelsIsRefused) {
  const auto chunk = [](const std::string& name, const std::string& data) {
    std::string size(4, '\0');
    for (int i = 0; i < 4; ++i) size[size_t(i)] = char(data.size() >> (24 - 8 * i));
    return size + name + data + std::string(4, '\0');  // nobody looks at its sum
  };
  const std::string rows(64'000'000, '\0');
  uLongf bytes = compressBound(rows.size());
  std::string packed(bytes, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &bytes,
           reinterpret_cast<const Bytef*>(rows.data()), rows.size());
  packed.resize(bytes);
  const std::string header("\0\0\0\1\0\0\0\1\x08\2\0\0\0", 13);
  const std::string png =
      "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + chunk("IDAT", packed) + chunk("IEND", "");
  EXPECT_LT(png.size(), 100'000u);
  EXPECT_EQ(error_of({png.begin(), png.end()}),
            "picture.jpg: a PNG that is damaged or cut short, or holds more than its pixels");
}

// Nothing is unpacked of a file that is too short for the pixels that its header says.
TEST(Image, AFewBytesHoldNoHugeImage) {
  std::vector<uint8_t> png = bytes_of("colour.png");
  for (size_t at : {16, 20}) png[at + 2] = 0x27, png[at + 3] = 0x10;  // 10,000
  EXPECT_EQ(error_of(png), "picture.jpg: 10000 x 10000 pixels cannot be in a file of " +
                               std::to_string(png.size()) + " bytes; it is damaged or cut short");
  std::vector<uint8_t> jpeg = bytes_of("baseline.jpg");
  const std::vector<uint8_t> frame{0xFF, 0xC0};
  const auto at = std::search(jpeg.begin(), jpeg.end(), frame.begin(), frame.end()) - jpeg.begin();
  for (const size_t extent : {5, 7}) {
    jpeg[size_t(at) + extent] = 0x1F, jpeg[size_t(at) + extent + 1] = 0x40;  // 8,000
  }
  EXPECT_EQ(error_of(jpeg), "picture.jpg: 8000 x 8000 pixels cannot be in a file of " +
                                std::to_string(jpeg.size()) + " bytes; it is damaged or cut short");
}

// Each goes over all pixels, and takes a few bytes.
TEST(Image, AJpegOfManyScansIsRefused) {
  std::vector<uint8_t> jpeg = bytes_of("progressive.jpg");
  const std::vector<uint8_t> scan{0xFF, 0xDA, 0, 8, 1, 1, 0, 0, 63, 0};
  int scans = 0;
  for (size_t i = 0; i + 1 < jpeg.size(); ++i) scans += jpeg[i] == 0xFF && jpeg[i + 1] == 0xDA;
  const std::string refused = "picture.jpg: a JPEG of more than 100 scans";
  for (; scans < 100; ++scans) jpeg.insert(jpeg.end() - 2, scan.begin(), scan.end());
  EXPECT_NE(error_of(jpeg), refused);
  jpeg.insert(jpeg.end() - 2, scan.begin(), scan.end());
  EXPECT_EQ(error_of(jpeg), refused);
}

// Nothing of it is read: a file of holes, and memory that is never touched.
TEST(Image, MoreThan512MiBAreRefused) {
  const size_t most = size_t{512} << 20;
  const TemporaryFolder folder;
  const auto file = folder.path() / "huge.png";
  std::ofstream(file).close();
  for (const size_t bytes : {most + 1, size_t{1} << 40}) {
    std::filesystem::resize_file(file, bytes);
    EXPECT_EQ(usage_error_of([&] { read_image(file, 3); }),
              file.string() + ": larger than 512 MiB");
  }

  const std::unique_ptr<void, void (*)(void*)> memory(std::calloc(most + 1, 1), &std::free);
  ASSERT_TRUE(memory);
  const auto error = [&](size_t bytes) {
    const std::span all(static_cast<const uint8_t*>(memory.get()), bytes);
    return usage_error_of([&] { decode_image(all, 3, "a"); });
  };
  EXPECT_EQ(error(most), "a: not a JPEG or PNG image that can be read");
  EXPECT_EQ(error(most + 1), "a: larger than 512 MiB");
}

// 0.299 red, 0.587 green and 0.114 blue, in parts of 256; grey is the same in three.
TEST(Image, ColoursAndGreyBecomeEachOther) {
  const Image colours{1, 4, 3, {255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 31}};
  const Image grey = with_channels(colours, 1);
  EXPECT_EQ(grey.pixels, (std::vector<uint8_t>{77, 149, 29, 18}));
  EXPECT_EQ(with_channels(grey, 1).pixels, grey.pixels);
  EXPECT_EQ(with_channels(grey, 3).pixels,
            (std::vector<uint8_t>{77, 77, 77, 149, 149, 149, 29, 29, 29, 18, 18, 18}));
  Image many{16, 256, 3, {}};
  for (uint32_t i = 0, state = 1; i < 16 * 256 * 3; ++i) {
    many.pixels.push_back(uint8_t((state = state * 1664525u + 1013904223u) >> 24));
  }
  const Image rounded = with_channels(many, 1);
  for (size_t i = 0; i < rounded.pixels.size(); ++i) {
    const uint8_t* p = many.pixels.data() + 3 * i;
    ASSERT_EQ(rounded.pixels[i], std::floor((77.0 * p[0] + 150 * p[1] + 29 * p[2]) / 256 + 0.5));
  }
}

TEST(Resample, IsPillowsBilinear) {
  const Image image = read_image(kFolder + "colour.png", 3);
  for (const auto& each : golden()["resized"]) {
    const auto& box = each["box"];
    const int left = box[0], top = box[1], right = box[2], bottom = box[3];
    const int width = each["size"][0], height = each["size"][1];
    std::vector<float> got(size_t(width) * size_t(height) * 3);
    resample(image, {top, left, bottom - top, right - left}, height, width, got.data());
    for (size_t i = 0; i < got.size(); ++i) {
      // Pillow rounds after either direction.
      ASSERT_NEAR(double(got[i]), each["pixels"][i].get<double>(), 1.01) << box << " at " << i;
    }
  }
}

TEST(Resample, WritesNothingBehindItsPixels) {
  const Image image = read_image(kFolder + "colour.png", 3);
  constexpr float kNone = -1;
  std::vector<float> got(4 * 5 * 3 + 1, kNone);
  resample(image, {0, 0, image.height / 2, image.width}, 4, 5, got.data());
  EXPECT_EQ(std::count(got.begin(), got.end(), kNone), 1);
  EXPECT_EQ(got.back(), kNone);
}

ImageTransform plain(int size) {
  ImageTransform t;
  t.size = t.resize = size;
  t.mean = {0, 0, 0}, t.std = {1, 1, 1};
  return t;
}

// Every pixel has its own number.
Image numbered(int height, int width) {
  Image image{height, width, 3, {}};
  for (int i = 0; i < height * width; ++i) {
    for (int c = 0; c < 3; ++c) image.pixels.push_back(uint8_t(i * 3 + c));
  }
  return image;
}

std::vector<float> trained(const Image& image, const ImageTransform& t, int64_t place) {
  ImageDraws draws(3, 0, place);
  std::vector<float> out(size_t(t.numel()));
  transform_training(image, t, draws, out.data());
  return out;
}

TEST(Transform, ValidationIsTheCentreNormalised) {
  const Image image = numbered(4, 6);
  ImageTransform t = plain(2);
  t.resize = 4;  // the shorter side stays
  t.mean = {0.1f, 0.2f, 0.3f}, t.std = {0.5f, 0.25f, 2};
  std::vector<float> out(size_t(t.numel()));
  transform_validation(image, t, out.data());
  for (int y = 0; y < 2; ++y) {
    for (int x = 0; x < 2; ++x) {
      for (size_t c = 0; c < 3; ++c) {
        const float value = float(((y + 1) * 6 + x + 2) * 3 + int(c)) / 255;
        EXPECT_NEAR(out[size_t(y * 2 + x) * 3 + c], (value - t.mean[c]) / t.std[c], 1e-5);
      }
    }
  }
}

TEST(Transform, PadAndCropShiftsWithinABlackFrame) {
  const Image image = numbered(5, 5);
  ImageTransform t = plain(5);
  t.crop = ImageTransform::Crop::pad;
  t.pad = 2;
  std::set<std::pair<int, int>> shifts;
  for (int64_t place = 0; place < 300; ++place) {
    const std::vector<float> out = trained(image, t, place);
    bool found = false;
    for (int top = -2; top <= 2 && !found; ++top) {
      for (int left = -2; left <= 2 && !found; ++left) {
        bool same = true;
        for (int y = 0; y < 5; ++y) {
          for (int x = 0; x < 5; ++x) {
            const int h = y + top, w = x + left;
            const bool inside = h >= 0 && h < 5 && w >= 0 && w < 5;
            const float want = inside ? float((h * 5 + w) * 3) / 255 : 0;
            same = same && std::abs(out[size_t(y * 5 + x) * 3] - want) < 1e-5f;
          }
        }
        if (same) shifts.insert({top, left}), found = true;
      }
    }
    ASSERT_TRUE(found) << place;
  }
  EXPECT_EQ(shifts.size(), 25u);
}

TEST(Transform, FlipsAboutEveryOther) {
  ImageTransform t = plain(4);
  const Image square = numbered(4, 4);
  const std::vector<float> as_it_is = trained(square, t, 0);
  t.flip = true;
  int flipped = 0;
  for (int64_t place = 0; place < 1000; ++place) {
    const std::vector<float> out = trained(square, t, place);
    if (out == as_it_is) continue;
    ++flipped;
    for (size_t y = 0; y < 4; ++y) {
      for (size_t x = 0; x < 4; ++x) {
        for (size_t c = 0; c < 3; ++c) {
          ASSERT_EQ(out[(y * 4 + x) * 3 + c], as_it_is[(y * 4 + 3 - x) * 3 + c]);
        }
      }
    }
  }
  EXPECT_NEAR(flipped, 500, 60);
}

TEST(Transform, RandomPartsHaveTheAreaAndTheRatioAskedFor) {
  std::vector<double> areas;
  for (int64_t place = 0; place < 2000; ++place) {
    ImageDraws draws(1, 2, place);
    const CropWindow w = random_resized_window(300, 400, 0.08, draws);
    ASSERT_GE(w.top, 0);
    ASSERT_GE(w.left, 0);
    ASSERT_LE(w.top + w.height, 300);
    ASSERT_LE(w.left + w.width, 400);
    const double ratio = double(w.width) / w.height;
    ASSERT_GT(ratio, 0.73);
    ASSERT_LT(ratio, 1.37);
    areas.push_back(double(w.width) * w.height / (300 * 400));
  }
  std::sort(areas.begin(), areas.end());
  EXPECT_NEAR(areas.front(), 0.08, 0.01);
  // Any ratio fits as long as the area is below 9/16: areas are uniform there.
  auto below = [&](double area) {
    return double(std::lower_bound(areas.begin(), areas.end(), area) - areas.begin());
  };
  EXPECT_NEAR(below(0.3) / below(0.5), 0.22 / 0.42, 0.04);
  EXPECT_GT(areas.back(), 0.9);
  // Where no part fits: the middle, of the nearest ratio.
  ImageDraws draws(1, 2, 3);
  EXPECT_EQ(random_resized_window(10, 1000, 0.9, draws), (CropWindow{0, 493, 10, 13}));
  EXPECT_EQ(random_resized_window(1000, 10, 0.9, draws), (CropWindow{493, 0, 13, 10}));
  EXPECT_EQ(random_resized_window(1, 1000, 0.9, draws), (CropWindow{0, 499, 1, 1}));
  // Of all of the area none fits but where the ratio is that of the image.
  EXPECT_EQ(random_resized_window(100, 150, 1, draws), (CropWindow{0, 8, 100, 133}));
  EXPECT_EQ(random_resized_window(150, 100, 1, draws), (CropWindow{8, 0, 133, 100}));
  EXPECT_EQ(random_resized_window(100, 130, 1, draws), (CropWindow{0, 0, 100, 130}));
  EXPECT_EQ(random_resized_window(130, 100, 1, draws), (CropWindow{0, 0, 130, 100}));
  EXPECT_EQ(random_resized_window(1, 1, 0.08, draws), (CropWindow{0, 0, 1, 1}));
}

TEST(Transform, ColoursAreChangedAsTheFactorsSay) {
  ImageTransform t = plain(2);
  const Image square{2, 2, 3, {100, 150, 190, 50, 60, 70, 100, 150, 190, 50, 60, 70}};
  const std::vector<float> before = trained(square, t, 0);
  auto grey = [](const float* p) { return 0.299f * p[0] + 0.587f * p[1] + 0.114f * p[2]; };
  float least = 2, most = 0;
  for (int64_t place = 0; place < 200; ++place) {
    t.brightness = 0.3, t.contrast = t.saturation = 0;
    std::vector<float> out = trained(square, t, place);
    const float factor = out[0] / before[0];
    least = std::min(least, factor), most = std::max(most, factor);
    for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], factor * before[i], 1e-5);

    t.brightness = 0, t.saturation = 0.4;
    out = trained(square, t, place);
    ASSERT_NEAR(grey(out.data()), grey(before.data()), 1e-5);  // grey stays
    t.saturation = 0, t.contrast = 0.4;
    out = trained(square, t, place);
    const float middle = (grey(before.data()) + grey(before.data() + 3)) / 2;
    ASSERT_NEAR((grey(out.data()) + grey(out.data() + 3)) / 2, middle, 1e-5);  // so does the mean
    ASSERT_NE(out, before);
  }
  EXPECT_NEAR(least, 0.7, 0.02);
  EXPECT_NEAR(most, 1.3, 0.02);
}

TEST(Transform, OnePixelIsEnough) {
  for (auto crop : {ImageTransform::Crop::center, ImageTransform::Crop::pad,
                    ImageTransform::Crop::random_resized}) {
    ImageTransform t = plain(3);
    t.crop = crop;
    t.pad = 0;
    for (const float value : trained({1, 1, 3, {51, 51, 51}}, t, 0)) EXPECT_NEAR(value, 0.2, 1e-6);
  }
}

}  // namespace
}  // namespace pal
