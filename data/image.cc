// JPEG and PNG through stb_image, which is lenient with a JPEG that ends early, trusts its Huffman
// tables, and unpacks whatever a few bytes stand for: all three are looked at here.
#include "data/image.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "core/error.h"

namespace {

// A block that stb_image may ask for, by what the image's size explains: a PNG may hold more packed
// bytes than it has pixels. Zero-filled: a JPEG that names a table which it does not bring reads
// what the allocation held.
thread_local size_t most_block = 0;
void* image_block(void* block, size_t size) {
  if (size > most_block) return nullptr;
  return block ? std::realloc(block, size) : std::calloc(1, size);
}

}  // namespace

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_JPEG
#define STBI_ONLY_PNG
#define STBI_NO_STDIO
#define STBI_NO_FAILURE_STRINGS  // they hold bytes of the file, in a variable that threads share
#define STBI_MAX_DIMENSIONS 32768
#define STBI_MALLOC(size) image_block(nullptr, size)
#define STBI_REALLOC(block, size) image_block(block, size)
#define STBI_FREE(block) std::free(block)
#include <stb/stb_image.h>

namespace pal {
namespace {

constexpr int64_t kMostPixels = 100'000'000;
constexpr size_t kMostImageBytes = size_t{512} << 20;
constexpr const char* kTooLarge = "larger than 512 MiB";
constexpr int kMostScans = 100;  // of a JPEG; each goes over all its pixels
// No byte of a file stands for more: deflate repeats 258 bytes with two bits, and eight pixels of a
// row may be one byte; a JPEG has a bit for a block of 8 x 8.
constexpr int64_t kPngPixelsAByte = 1032 * 8, kJpegPixelsAByte = 8 * 64;

// As stb_image takes it: fill bytes may come before the marker of the start.
bool is_jpeg(std::span<const uint8_t> bytes) {
  const auto marker =
      std::find_if(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte != 0xFF; });
  return marker != bytes.begin() && marker != bytes.end() && *marker == 0xD8;
}

// Whether a segment holds whole Huffman tables, none of more than 256 codes: stb_image reads a
// table on past the segment, and writes past the end of its own.
bool are_tables(std::span<const uint8_t> segment) {
  size_t at = 0;
  while (at + 17 <= segment.size()) {
    size_t codes = 0;
    for (size_t length = 1; length <= 16; ++length) codes += segment[at + length];
    if (codes > 256) return false;
    at += 17 + codes;
  }
  return at == segment.size();
}

// What is wrong with a JPEG, or null, found by walking its markers (ITU-T T.81, annex B) to that of
// its end: segments by their lengths, the data of a scan byte by byte.
const char* jpeg_fault(std::span<const uint8_t> bytes) {
  constexpr const char* kShort = "the JPEG is cut short: it has no end marker";
  size_t at = 0;
  bool scan = false;  // `at` is inside entropy-coded data
  int scans = 0;
  while (at + 1 < bytes.size()) {
    if (bytes[at] != 0xFF) {
      if (!scan) return "a damaged JPEG";
      ++at;
      continue;
    }
    const uint8_t marker = bytes[at + 1];
    if (marker == 0xFF) {  // a fill byte
      ++at;
    } else if (marker == 0 || marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8)) {
      at += 2;  // a stuffed byte, or a marker without a segment
    } else if (marker == 0xD9) {
      return nullptr;
    } else {
      if (at + 3 >= bytes.size()) return kShort;
      const size_t length = size_t{bytes[at + 2]} << 8 | bytes[at + 3];
      if (length < 2) return "a damaged JPEG";
      if (at + 2 + length > bytes.size()) return kShort;
      if (marker == 0xC4 && !are_tables(bytes.subspan(at + 4, length - 2))) return "a damaged JPEG";
      at += 2 + length;
      scan = marker == 0xDA;
      if (scan && ++scans > kMostScans) return "a JPEG of more than 100 scans";
    }
  }
  return kShort;
}

}  // namespace

Image decode_image(std::span<const uint8_t> bytes, int channels, const std::string& name) {
  auto fail = [&](const std::string& what) { throw UsageError(name + ": " + what); };
  if (bytes.empty()) fail("the file is empty");
  if (bytes.size() > kMostImageBytes) fail(kTooLarge);
  const bool jpeg = is_jpeg(bytes);
  if (const char* fault = jpeg ? jpeg_fault(bytes) : nullptr) fail(fault);
  const int size = static_cast<int>(bytes.size());
  Image image{.channels = channels};
  most_block = size_t{1} << 20;
  int own_channels = 0;
  if (!stbi_info_from_memory(bytes.data(), size, &image.width, &image.height, &own_channels)) {
    fail("not a JPEG or PNG image that can be read");
  }
  const int64_t area = int64_t{image.width} * image.height;
  const std::string extent =
      std::to_string(image.width) + " x " + std::to_string(image.height) + " pixels ";
  if (area > kMostPixels) fail(extent + "are more than 100 million");
  if (area / (jpeg ? kJpegPixelsAByte : kPngPixelsAByte) > size) {
    fail(extent + "cannot be in a file of " + std::to_string(size) +
         " bytes; it is damaged or cut short");
  }
  // Rows and columns that are padded; 16 bytes a pixel, and twice for what grows by doubling.
  most_block += 2 * bytes.size() + 32 * size_t(image.width + 64) * size_t(image.height + 64);
  const std::unique_ptr<stbi_uc, void (*)(void*)> pixels(
      stbi_load_from_memory(bytes.data(), size, &image.width, &image.height, &own_channels,
                            channels),
      stbi_image_free);
  if (!pixels)
    fail(jpeg ? "a damaged JPEG"
              : "a PNG that is damaged or cut short, or holds more than its pixels");
  const size_t count = size_t(image.height) * size_t(image.width) * size_t(channels);
  image.pixels.assign(pixels.get(), pixels.get() + count);
  return image;
}

Image read_image(const std::filesystem::path& file, int channels) {
  const std::string name = file.string();
  std::error_code error;
  const auto size = std::filesystem::file_size(file, error);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(std::fopen(name.c_str(), "rb"),
                                                           &std::fclose);
  if (!in) throw UsageError(name + ": cannot be opened: " + std::strerror(errno));
  if (error) throw UsageError(name + ": cannot be read: " + error.message());
  if (size > kMostImageBytes) throw UsageError(name + ": " + kTooLarge);
  std::vector<uint8_t> bytes(size);
  if (std::fread(bytes.data(), 1, bytes.size(), in.get()) != bytes.size()) {
    throw UsageError(name + ": cannot be read to its end");
  }
  return decode_image(bytes, channels, name);
}

Image with_channels(Image image, int channels) {
  if (image.channels == channels) return image;
  const size_t count = size_t(image.height) * size_t(image.width);
  Image out{image.height, image.width, channels, std::vector<uint8_t>(count * size_t(channels))};
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* from = image.pixels.data() + i * size_t(image.channels);
    if (channels == 3) {
      std::fill_n(out.pixels.data() + 3 * i, 3, from[0]);
    } else {
      out.pixels[i] = uint8_t((77 * from[0] + 150 * from[1] + 29 * from[2] + 128) >> 8);
    }
  }
  return out;
}

}  // namespace pal
