// A labelled set of images, files in a folder for each class or the pixels of CIFAR and IDX files;
// or of films, each a folder of images.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/image.h"

namespace pal {

// What to do about an image, or a class, that cannot be used.
enum class OnBadImage { fail, skip };

// Images drawn from a number each whenever they are read, and kept nowhere.
struct MadeUpImages {
  uint64_t seed = 0, part = 0;
  std::vector<uint32_t> numbers;
};

// Either `files` has an image a label, or `pixels` has them one after the other, all of one size,
// or `made_up` has a number a label. Of films `files` has the frames, film after film.
struct ImageSet {
  std::vector<std::string> classes;  // names, by label
  std::vector<int32_t> labels;
  std::vector<std::filesystem::path> files;
  std::vector<int64_t> film_ends;  // by film: where its frames end in `files`; empty: images
  int height = 0, width = 0, channels = 0;  // of `pixels` and `made_up`
  std::vector<uint8_t> pixels;
  MadeUpImages made_up = {};
  std::vector<std::string> warnings;  // what was left out, and why

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
  int64_t frames(int64_t i) const;  // of a film; of an image 1
  // UsageError when a file cannot be used.
  Image read(int64_t i, int channels, int64_t frame = 0) const;
  std::string name(int64_t i) const;  // for messages: a path, or a number
  ImageSet subset(std::span<const int32_t> which) const;
  void keep(std::span<const int32_t> which);  // rising numbers: the subset, its pixels in place
  // Equal for sets with the same images in the same order; of files the paths below their root are
  // compared, not what is in them.
  uint64_t fingerprint() const;

 private:
  int64_t first_file(int64_t i) const;
  Image draw_made_up(int64_t i) const;
};

// A folder of folders: each of these is a class, named after it, with JPEG and PNG files at any
// depth. Classes and files are in the order of their names. `known`, where given, are the only
// classes there may be, and in this order. UsageError when the folder is missing or has no images;
// with OnBadImage::fail also when a class has none, or is not known.
ImageSet read_image_folder(const std::filesystem::path& folder, OnBadImage on_bad,
                           const std::vector<std::string>& known = {});
// The same of films: each folder below a class's, at any depth, that has JPEG or PNG files in it is
// one, whose frames these are, in the order of their names.
ImageSet read_film_folder(const std::filesystem::path& folder, OnBadImage on_bad,
                          const std::vector<std::string>& known = {});
// A folder of frames: a set of this film alone, without a label. UsageError when it has none.
ImageSet read_film(const std::filesystem::path& folder);

// Files of the CIFAR-10 binary layout (a label byte, 32 x 32 bytes each of red, green and blue), or
// of CIFAR-100's, whose first label byte (of 20) is passed over. Plain or .gz.
ImageSet read_cifar(std::span<const std::filesystem::path> files, int classes);

// Pairs of IDX files, as MNIST has them, of bytes (N, H, W) or (N, H, W, 3), and (N). Plain or .gz.
// `images` name the files of images; those of labels have "labels-idx1" in place of "images-idx3".
ImageSet read_idx(std::span<const std::filesystem::path> images);

// Made-up images: noise over a pattern that their class shares. The same for the same arguments.
ImageSet made_up_images(int64_t count, int classes, int size, int channels, uint64_t seed,
                        uint64_t part);

}  // namespace pal
