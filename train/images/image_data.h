// An image classifier's data as a configuration describes it. Each part is read when it is first
// asked for, so that a step is planned, and a trained model used, where the training images are
// not.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/image_batches.h"
#include "train/config/config.h"

namespace pal {

// A part of the data, and what of it is of no use.
struct ImagePart {
  ImagePart(ImageSet images, const ImageConfig& config)
      : set(std::move(images)), bad(on_bad_image(config), static_cast<int>(*config.min_side)) {}
  static OnBadImage on_bad_image(const ImageConfig& config) {
    return *config.on_error == "skip" ? OnBadImage::skip : OnBadImage::fail;
  }
  ImageSet set;
  BadImages bad;
};

class ImageData {
 public:
  // `model_dir`, where given, is a run's folder: its classes are used.
  ImageData(const ImageConfig& config, uint64_t seed, const std::filesystem::path& model_dir = {});

  // Without reading images where data.classes or a run's folder says how many. UsageError where the
  // training images have another number.
  int64_t class_count();
  const std::vector<std::string>& classes();  // their names
  ImagePart& train();
  // "valid" or "test". UsageError where there is none.
  ImagePart& part(const std::string& name);
  const ImageTransform& transform() const { return transform_; }
  const ImageConfig& config() const { return config_; }

  // Stands for the training images: equal ones make equal batches.
  uint64_t fingerprint();
  // classes.txt, a name a line: what another ImageData with `model_dir` reads.
  void save(const std::filesystem::path& folder);
  std::vector<std::string> describe();  // for the log; reads the training images

  // Logs the images that were skipped since the last call, the first few by name.
  void warn(BadImages& bad);

 private:
  std::vector<std::filesystem::path> paths(const std::vector<std::string>& names,
                                           const std::string& key) const;
  ImageSet read(const std::vector<std::string>& names, const std::string& key,
                const std::vector<std::string>& known) const;
  ImageSet make_up(uint64_t part) const;
  void read_training();

  ImageConfig config_;
  uint64_t seed_;
  ImageTransform transform_;
  std::vector<std::string> classes_;
  std::unique_ptr<ImagePart> train_, held_out_;
  std::map<std::string, std::unique_ptr<ImagePart>> parts_;
  std::optional<uint64_t> fingerprint_;
  int64_t warned_ = 0;
};

}  // namespace pal
