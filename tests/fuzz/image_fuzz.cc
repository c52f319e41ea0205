// Any bytes as an image file: refused in one line that names it, or an image of the size it says.
#include <fstream>

#include "core/error.h"
#include "data/image.h"
#include "data/image_transform.h"
#include "tests/fuzz/fuzz.h"

namespace pal {
namespace {

std::string bytes_of(const char* name) {
  std::ifstream in(std::string(PAL_SOURCE_DIR "/tests/data/golden/") + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool body(std::string_view bytes) {
  const std::span data(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  Image image;
  try {
    image = decode_image(data, 3, "picture");
  } catch (const UsageError& error) {
    require_one_line(error.what());
    require(std::string(error.what()).starts_with("picture: "), "the file is named");
    return false;
  }
  require(image.height > 0 && image.width > 0, "an image has pixels");
  require(image.pixels.size() == size_t(image.height) * size_t(image.width) * 3, "all its pixels");
  ImageTransform transform;
  transform.crop = ImageTransform::Crop::random_resized;
  transform.size = 8, transform.resize = 9;
  transform.mean = {0, 0, 0}, transform.std = {1, 1, 1};
  std::vector<float> out(size_t(transform.numel()));
  ImageDraws draws(1, 2, 3);
  transform_training(image, transform, draws, out.data());
  transform_validation(image, transform, out.data());
  for (const float value : out) require(value >= -0.001f && value <= 1.001f, "values from 0 to 1");
  return true;
}

}  // namespace

FuzzTarget fuzz_image() {
  FuzzTarget target{.seeds = {},
                    .scraps = {"\xFF\xD8\xFF", "\xFF\xD9", "\xFF\xDA", "\xFF\xC4", "\xFF\xDB",
                               "IDAT", "PLTE", "tRNS", "IEND", std::string(4, '\0')},
                    .body = body};
  for (const char* name :
       {"baseline.jpg", "progressive.jpg", "grey.jpg", "alpha.png", "palette.png", "grey16.png"}) {
    target.seeds.push_back(bytes_of(name));
  }
  return target;
}

}  // namespace pal
