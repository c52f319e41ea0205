// What all image sets share, folders of images and of films, and made-up images.
#include "data/image_set.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "core/error.h"
#include "core/philox.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

bool is_image_name(const fs::path& file) {
  std::string extension = file.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return (extension == ".jpg" || extension == ".jpeg" || extension == ".png") &&
         file.filename().string()[0] != '.';
}

// Names in a folder, sorted; UsageError when it cannot be read.
std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (at->is_directory(ignored) && at->path().filename().string()[0] != '.') {
      found.push_back(at->path());
    }
  }
  if (error) throw UsageError(folder.string() + ": cannot be read: " + error.message());
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<fs::path> images_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, error), end;
  for (; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (!at->is_directory(ignored) && is_image_name(at->path())) found.push_back(at->path());
  }
  if (error) throw UsageError(folder.string() + ": cannot be read: " + error.message());
  std::sort(found.begin(), found.end());
  return found;
}

// What a class's folder holds: the files, and of films where each ends, and how many images lie
// beside them.
struct Found {
  std::vector<fs::path> files;
  std::vector<int64_t> film_ends;
  size_t loose = 0;
};

Found films_in(const fs::path& folder) {
  Found found{images_in(folder)};
  found.loose = std::erase_if(found.files,
                              [&](const fs::path& file) { return file.parent_path() == folder; });
  // By folder, and within one by name: so that a film's frames follow each other.
  std::stable_sort(
      found.files.begin(), found.files.end(),
      [](const fs::path& a, const fs::path& b) { return a.parent_path() < b.parent_path(); });
  for (size_t i = 0; i < found.files.size(); ++i) {
    const bool last = i + 1 == found.files.size();
    if (last || found.files[i].parent_path() != found.files[i + 1].parent_path()) {
      found.film_ends.push_back(static_cast<int64_t>(i) + 1);
    }
  }
  return found;
}

ImageSet read_classes(const fs::path& folder, OnBadImage on_bad,
                      const std::vector<std::string>& known, bool films) {
  ImageSet set;
  set.classes = known;
  const std::string kind = films ? "films" : "images";
  auto bad = [&](const std::string& what, const std::string& left_out) {
    if (on_bad == OnBadImage::fail) {
      throw UsageError(what + "; remove it, or set data.on_error: skip to leave it out");
    }
    set.warnings.push_back(what + "; " + left_out);
  };
  for (const fs::path& each : folders_in(folder)) {
    const std::string name = each.filename().string();
    const Found found = films ? films_in(each) : Found{images_in(each)};
    if (found.loose > 0) {
      bad(each.string() + ": " + std::to_string(found.loose) + " images beside its films' folders",
          "they are left out");
    }
    const size_t count = films ? found.film_ends.size() : found.files.size();
    if (count == 0) {
      bad(each.string() + ": a class without " + kind + " (.jpg, .jpeg, .png)", "it is no class");
      continue;
    }
    auto at = std::find(set.classes.begin(), set.classes.end(), name);
    if (at == set.classes.end() && !known.empty()) {
      bad(each.string() + ": no class of the training " + kind,
          std::to_string(count) + " " + kind + " are left out");
      continue;
    }
    if (at == set.classes.end()) at = set.classes.insert(at, name);
    set.labels.insert(set.labels.end(), count, static_cast<int32_t>(at - set.classes.begin()));
    const auto before = static_cast<int64_t>(set.files.size());
    for (const int64_t end : found.film_ends) set.film_ends.push_back(before + end);
    set.files.insert(set.files.end(), found.files.begin(), found.files.end());
  }
  if (set.files.empty()) {
    throw UsageError(
        folder.string() + ": has no " + kind + "; expected a folder for each class, with " +
        (films ? "a folder of .jpg or .png files for each film" : ".jpg or .png files"));
  }
  return set;
}

}  // namespace

int64_t ImageSet::frames(int64_t i) const {
  if (film_ends.empty()) return 1;
  return film_ends[static_cast<size_t>(i)] - first_file(i);
}

int64_t ImageSet::first_file(int64_t i) const {
  if (film_ends.empty()) return i;
  return i == 0 ? 0 : film_ends[static_cast<size_t>(i - 1)];
}

Image ImageSet::read(int64_t i, int wanted, int64_t frame) const {
  if (!files.empty()) return read_image(files[static_cast<size_t>(first_file(i) + frame)], wanted);
  if (!made_up.numbers.empty()) return with_channels(draw_made_up(i), wanted);
  const size_t bytes = size_t(height) * size_t(width) * size_t(channels);
  const auto first = pixels.begin() + static_cast<std::ptrdiff_t>(bytes) * i;
  return with_channels(
      {height, width, channels, {first, first + static_cast<std::ptrdiff_t>(bytes)}}, wanted);
}

std::string ImageSet::name(int64_t i) const {
  if (files.empty()) return "image " + std::to_string(i);
  const fs::path& file = files[static_cast<size_t>(first_file(i))];
  return (film_ends.empty() ? file : file.parent_path()).string();
}

ImageSet ImageSet::subset(std::span<const int32_t> which) const {
  ImageSet out{.classes = classes, .height = height, .width = width, .channels = channels};
  out.made_up = {made_up.seed, made_up.part, {}};
  const auto bytes = static_cast<std::ptrdiff_t>(height) * width * channels;
  for (const int32_t i : which) {
    out.labels.push_back(labels.at(static_cast<size_t>(i)));
    if (!files.empty()) {
      const auto first = files.begin() + first_file(i);
      out.files.insert(out.files.end(), first, first + frames(i));
      if (!film_ends.empty()) out.film_ends.push_back(static_cast<int64_t>(out.files.size()));
    } else if (!made_up.numbers.empty()) {
      out.made_up.numbers.push_back(made_up.numbers.at(static_cast<size_t>(i)));
    } else if (!pixels.empty()) {
      out.pixels.insert(out.pixels.end(), pixels.begin() + bytes * i,
                        pixels.begin() + bytes * (i + 1));
    }
  }
  return out;
}

void ImageSet::keep(std::span<const int32_t> which) {
  std::vector<uint8_t> own = std::exchange(pixels, {});
  *this = subset(which);
  const auto bytes = static_cast<std::ptrdiff_t>(height) * width * channels;
  auto to = own.begin();
  for (const int32_t i : which) {
    if (!own.empty()) to = std::copy_n(own.begin() + bytes * i, bytes, to);
  }
  own.erase(to, own.end());
  pixels = std::move(own);
}

uint64_t ImageSet::fingerprint() const {
  uint64_t hash = 14695981039346656037ull;  // FNV-1a
  auto take = [&](const void* data, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) {
      hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 1099511628211ull;
    }
  };
  take(labels.data(), labels.size() * sizeof labels[0]);
  for (const fs::path& file : files) {
    const std::string own = file.filename().string();
    take(own.c_str(), own.size() + 1);
  }
  take(film_ends.data(), film_ends.size() * sizeof(int64_t));
  const int32_t size[3] = {height, width, channels};
  take(size, sizeof size);
  take(pixels.data(), pixels.size());
  if (!made_up.numbers.empty()) {  // what their pixels are drawn from
    take(&made_up.seed, sizeof made_up.seed);
    take(&made_up.part, sizeof made_up.part);
    take(made_up.numbers.data(), made_up.numbers.size() * sizeof made_up.numbers[0]);
  }
  return hash;
}

ImageSet read_image_folder(const fs::path& folder, OnBadImage on_bad,
                           const std::vector<std::string>& known) {
  return read_classes(folder, on_bad, known, false);
}

ImageSet read_film_folder(const fs::path& folder, OnBadImage on_bad,
                          const std::vector<std::string>& known) {
  return read_classes(folder, on_bad, known, true);
}

ImageSet read_film(const fs::path& folder) {
  ImageSet set;
  set.files = images_in(folder);
  if (set.files.empty()) {
    throw UsageError(folder.string() + ": has no frames (.jpg, .jpeg, .png)");
  }
  set.film_ends = {static_cast<int64_t>(set.files.size())};
  return set;
}

ImageSet made_up_images(int64_t count, int classes, int size, int channels, uint64_t seed,
                        uint64_t part) {
  ImageSet set{.height = size, .width = size, .channels = channels};
  for (int c = 0; c < classes; ++c) set.classes.push_back(std::to_string(c));
  set.made_up = {seed, part, {}};
  for (int64_t i = 0; i < count; ++i) {
    set.labels.push_back(static_cast<int32_t>(i % classes));
    set.made_up.numbers.push_back(static_cast<uint32_t>(i));
  }
  return set;
}

// Noise, and 4 x 4 blocks, bright or not: the bits of the class's pattern say which.
Image ImageSet::draw_made_up(int64_t i) const {
  constexpr uint32_t kNoise = 0x5E7u, kPattern = 0x5E8u;
  const auto bytes = size_t(height) * size_t(width) * size_t(channels);
  const auto label = static_cast<uint32_t>(labels[static_cast<size_t>(i)]);
  const uint32_t number = made_up.numbers[static_cast<size_t>(i)];
  const uint32_t pattern = draw({made_up.seed, label, 0, kPattern}, 0).x[0];
  Image image{height, width, channels, std::vector<uint8_t>(bytes)};
  for (size_t p = 0; p < bytes; p += 4) {
    const Philox4 noise = draw({made_up.seed, number, uint32_t(made_up.part), kNoise}, p / 4);
    for (size_t k = 0; k < 4 && p + k < bytes; ++k) {
      const size_t pixel = (p + k) / size_t(channels);
      const size_t row = pixel / size_t(width), column = pixel % size_t(width);
      const size_t block = row * 4 / size_t(height) * 4 + column * 4 / size_t(width);
      const uint32_t bright = pattern >> block & 1;
      image.pixels[p + k] = uint8_t((noise.x[k] & 127) + 96 * bright);
    }
  }
  return image;
}

}  // namespace pal
