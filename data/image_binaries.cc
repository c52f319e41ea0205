// CIFAR's and MNIST's own formats, plain or compressed (zlib reads both alike).
#include <zlib.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>

#include "core/error.h"
#include "data/image_set.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostBinaryBytes = size_t{4} << 30;

// What gzread will make of a file: as many bytes as it has, or as its end says (RFC 1952), which is
// a guess where it is damaged.
size_t unpacked_bytes(const fs::path& file) {
  std::error_code ignored;
  const auto bytes = static_cast<size_t>(fs::file_size(file, ignored));
  std::ifstream in(file, std::ios::binary);
  unsigned char magic[2] = {}, last[4] = {};
  in.read(reinterpret_cast<char*>(magic), 2);
  if (magic[0] != 0x1f || magic[1] != 0x8b) return bytes;
  in.seekg(-4, std::ios::end).read(reinterpret_cast<char*>(last), 4);
  const size_t said =
      size_t{last[0]} | size_t{last[1]} << 8 | size_t{last[2]} << 16 | size_t{last[3]} << 24;
  return std::min(said, 1032 * bytes);  // no deflated file holds more
}

std::vector<uint8_t> read_all(const fs::path& file) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) {
    throw UsageError(file.string() + ": there is no such file; see data.root and docs/images.md");
  }
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> in(gzopen(file.c_str(), "rb"), gzclose_r);
  if (!in) throw UsageError(file.string() + ": cannot be opened");
  constexpr size_t kChunk = size_t{1} << 16;
  std::vector<uint8_t> bytes;
  bytes.reserve(std::min(unpacked_bytes(file), kMostBinaryBytes) + kChunk);  // grown, it is twice
  for (;;) {
    const size_t have = bytes.size();
    bytes.resize(have + kChunk);
    const int got = gzread(in.get(), bytes.data() + have, kChunk);
    bytes.resize(have + (got > 0 ? static_cast<size_t>(got) : 0));
    // A compressed file that is cut short is reported by its status at the end.
    int status = Z_OK;
    gzerror(in.get(), &status);
    if (got < 0 || status < 0) {
      throw UsageError(file.string() + ": damaged or cut short; fetch it again");
    }
    if (got == 0) return bytes;
    if (bytes.size() > kMostBinaryBytes)
      throw UsageError(file.string() + ": holds more than 4 GiB");
  }
}

// A line each in a text file beside the images; empty where there is none.
std::vector<std::string> class_names(const fs::path& file) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return {};
  std::vector<std::string> names;
  std::string line;
  for (const uint8_t byte : read_all(file)) {
    if (byte != '\n') {
      line += static_cast<char>(byte);
      continue;
    }
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) names.push_back(line);
    line.clear();
  }
  if (!line.empty()) names.push_back(line);
  return names;
}

// The names, or numbers in place of too few.
std::vector<std::string> classes_named(const fs::path& folder,
                                       std::initializer_list<const char*> files, int count) {
  for (const char* file : files) {
    std::vector<std::string> names = class_names(folder / file);
    if (static_cast<int>(names.size()) == count) return names;
  }
  std::vector<std::string> names;
  for (int c = 0; c < count; ++c) names.push_back(std::to_string(c));
  return names;
}

struct Idx {
  std::vector<int64_t> extents;
  std::vector<uint8_t> bytes;  // of the file
  size_t begin = 0;            // of the values
};

Idx read_idx_file(const fs::path& file) {
  Idx idx{.bytes = read_all(file)};
  const std::vector<uint8_t>& b = idx.bytes;
  auto fail = [&](const std::string& what) { throw UsageError(file.string() + ": " + what); };
  if (b.size() < 4 || b[0] != 0 || b[1] != 0) fail("not an IDX file");
  if (b[2] != 8) fail("an IDX file of other values than bytes");
  const size_t rank = b[3];
  if (rank < 1 || rank > 4 || b.size() < 4 + 4 * rank) fail("an IDX file with a broken header");
  idx.begin = 4 + 4 * rank;
  uint64_t count = 1;
  for (size_t i = 0; i < rank; ++i) {
    uint64_t extent = 0;
    for (size_t k = 0; k < 4; ++k) extent = extent << 8 | b[4 + 4 * i + k];
    idx.extents.push_back(static_cast<int64_t>(extent));
    count = std::min<uint64_t>(count, kMostBinaryBytes) * extent;
  }
  if (count != b.size() - idx.begin) {
    fail("has " + std::to_string(b.size() - idx.begin) + " values where its header says " +
         std::to_string(count) + "; fetch it again");
  }
  return idx;
}

fs::path labels_of(const fs::path& images) {
  std::string name = images.filename().string();
  const std::string from = "images-idx3", to = "labels-idx1";
  const size_t at = name.find(from);
  if (at == std::string::npos) {
    throw UsageError(images.string() +
                     ": the name has no 'images-idx3', so the file of labels "
                     "('labels-idx1') is not known; name it as MNIST does");
  }
  return images.parent_path() / name.replace(at, from.size(), to);
}

}  // namespace

ImageSet read_cifar(std::span<const fs::path> files, int classes) {
  constexpr int kSide = 32, kPixels = kSide * kSide;
  const size_t labels = classes == 100 ? 2 : 1, record = labels + 3 * kPixels;
  ImageSet set{.height = kSide, .width = kSide, .channels = 3};
  set.classes =
      classes_named(files[0].parent_path(), {"batches.meta.txt", "fine_label_names.txt"}, classes);
  size_t total = 0;
  for (const fs::path& file : files) total += unpacked_bytes(file);
  set.pixels.reserve(std::min(total, kMostBinaryBytes));
  for (const fs::path& file : files) {
    const std::vector<uint8_t> bytes = read_all(file);
    if (bytes.empty() || bytes.size() % record != 0) {
      throw UsageError(file.string() + ": " + std::to_string(bytes.size()) +
                       " bytes are not a number of CIFAR-" + std::to_string(classes) +
                       " images of " + std::to_string(record) + "; fetch it again");
    }
    for (size_t at = 0; at < bytes.size(); at += record) {
      const uint8_t* image = bytes.data() + at + labels;
      if (image[-1] >= classes) {
        throw UsageError(file.string() + ": label " + std::to_string(image[-1]) + " of image " +
                         std::to_string(at / record) + " is none of " + std::to_string(classes));
      }
      set.labels.push_back(image[-1]);
      for (int p = 0; p < kPixels; ++p) {
        for (int c = 0; c < 3; ++c) set.pixels.push_back(image[c * kPixels + p]);
      }
    }
  }
  return set;
}

ImageSet read_idx(std::span<const fs::path> images) {
  ImageSet set;
  for (const fs::path& file : images) {
    Idx pixels = read_idx_file(file);
    const Idx labels = read_idx_file(labels_of(file));
    auto fail = [&](const std::string& what) { throw UsageError(file.string() + ": " + what); };
    const size_t rank = pixels.extents.size();
    if (rank < 3 || (rank == 4 && pixels.extents[3] != 3)) fail("not images (N, H, W)");
    if (labels.extents.size() != 1 || labels.extents[0] != pixels.extents[0]) {
      fail("its labels, " + labels_of(file).filename().string() + ", are not as many");
    }
    const int64_t height = pixels.extents[1], width = pixels.extents[2];
    if (pixels.extents[0] < 1 || height < 1 || width < 1 || height > 4096 || width > 4096) {
      fail("no images, or larger than 4096 x 4096");
    }
    const int channels = rank == 4 ? 3 : 1;
    if (!set.labels.empty() &&
        (set.height != height || set.width != width || set.channels != channels)) {
      fail("images of another size than in " + images[0].string());
    }
    set.height = static_cast<int>(height), set.width = static_cast<int>(width);
    set.channels = channels;
    pixels.bytes.erase(pixels.bytes.begin(), pixels.bytes.begin() + ptrdiff_t(pixels.begin));
    if (set.pixels.empty()) {  // the usual case of one file is not held twice
      set.pixels = std::move(pixels.bytes);
    } else {
      set.pixels.insert(set.pixels.end(), pixels.bytes.begin(), pixels.bytes.end());
    }
    set.labels.insert(set.labels.end(), labels.bytes.begin() + ptrdiff_t(labels.begin),
                      labels.bytes.end());
  }
  const int classes = 1 + *std::max_element(set.labels.begin(), set.labels.end());
  set.classes = classes_named(images[0].parent_path(), {"classes.txt"}, std::max(classes, 2));
  return set;
}

}  // namespace pal
