// A picture in memory, and how it comes out of a JPEG or PNG file.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace pal {

struct Image {
  int height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;  // (H, W, C): grey, or red, green, blue
};

// With 1 (grey) or 3 channels, whatever the file has; transparency is dropped, 16 bits become 8.
// UsageError, beginning with `name`: it is neither JPEG nor PNG, cut short, damaged, or too large.
Image decode_image(std::span<const uint8_t> bytes, int channels, const std::string& name);
// The same from a file; `name` is its path. UsageError also when it cannot be read.
Image read_image(const std::filesystem::path& file, int channels);

// Grey as red, green and blue of one value each; colours as their luma (ITU-R BT.601).
Image with_channels(Image image, int channels);

}  // namespace pal
