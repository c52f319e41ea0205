// Reading the parts, and what to say when they are not there.
#include "train/images/image_data.h"

#include <algorithm>
#include <fstream>
#include <numeric>

#include "core/error.h"
#include "data/atomic_file.h"
#include "data/iterator.h"
#include "train/run_files/log.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kClassesFile = "classes.txt";
constexpr int64_t kMadeUpTraining = 1024, kMadeUpOther = 256;
constexpr int64_t kMostWarnings = 10;

// What to fetch for sets that have a name, and where it belongs.
std::string hint_for(const ImageConfig& config) {
  const std::string& format = *config.format;
  if (format == "cifar10" || format == "cifar100") {
    return "; fetch the binary version of " +
           std::string(format == "cifar10" ? "CIFAR-10" : "CIFAR-100") +
           " (www.cs.toronto.edu/~kriz/cifar.html), and set data.root to the folder of its .bin "
           "files";
  }
  if (format == "idx") return "; set data.root to the folder of the IDX files";
  if (config.classes->value_or(0) == 1000) {
    return "; ImageNet (www.image-net.org, ILSVRC2012) goes into a folder for each class, below "
           "train/ and val/ of data.root (docs/images.md)";
  }
  return "; set data.root to the folder that holds it, with a folder of images for each class";
}

ImageTransform transform_of(const ImageConfig& config) {
  using Crop = ImageTransform::Crop;
  const std::string& crop = *config.crop;
  ImageTransform t{.crop = crop == "pad"      ? Crop::pad
                           : crop == "center" ? Crop::center
                                              : Crop::random_resized};
  t.size = static_cast<int>(*config.image_size);
  t.resize = static_cast<int>(config.resize->value_or(*config.image_size));
  t.frames = static_cast<int>(config.frames->value_or(0));
  t.frame_step = static_cast<int>(*config.frame_step);
  t.pad = static_cast<int>(*config.crop_pad);
  t.scale_min = *config.crop_scale;
  t.flip = *config.flip;
  t.brightness = *config.brightness;
  t.contrast = *config.contrast;
  t.saturation = *config.saturation;
  t.mean.assign(config.mean->begin(), config.mean->end());
  t.std.assign(config.std->begin(), config.std->end());
  return t;
}

std::vector<std::string> read_classes(const fs::path& file) {
  std::ifstream in(file);
  std::vector<std::string> classes;
  for (std::string line; std::getline(in, line);) classes.push_back(line);
  if (classes.empty()) {
    throw UsageError(file.string() + ": missing or empty; name the folder of a run");
  }
  return classes;
}

}  // namespace

ImageData::ImageData(const ImageConfig& config, uint64_t seed, const fs::path& model_dir)
    : config_(config), seed_(seed), transform_(transform_of(config)) {
  if (*config_.frames && *config_.format != "folder") {
    throw UsageError("data.frames: films are read from folders alone; set data.format: folder");
  }
  if (!model_dir.empty()) classes_ = read_classes(model_dir / kClassesFile);
}

std::vector<fs::path> ImageData::paths(const std::vector<std::string>& names,
                                       const std::string& key) const {
  std::vector<fs::path> found;
  for (const std::string& name : names) {
    found.push_back(data_path(config_, name));
    std::error_code ignored;
    if (!fs::exists(found.back(), ignored)) {
      throw UsageError("data." + key + ": " + found.back().string() + ": not there" +
                       hint_for(config_));
    }
  }
  if (found.empty()) throw UsageError("data." + key + ": names nothing");
  return found;
}

ImageSet ImageData::read(const std::vector<std::string>& names, const std::string& key,
                         const std::vector<std::string>& known) const {
  const std::vector<fs::path> found = paths(names, key);
  ImageSet set;
  if (*config_.format == "idx") {
    set = read_idx(found);
  } else if (*config_.format != "folder") {
    set = read_cifar(found, *config_.format == "cifar100" ? 100 : 10);
  } else if (found.size() == 1) {
    const auto read_folder = *config_.frames ? read_film_folder : read_image_folder;
    set = read_folder(found[0], ImagePart::on_bad_image(config_), known);
  } else {
    throw UsageError("data." + key + ": name one folder");
  }
  for (const std::string& warning : set.warnings) log_warn("data." + key + ": " + warning);
  return set;
}

ImageSet ImageData::make_up(uint64_t part) const {
  return made_up_images(part == 0 ? kMadeUpTraining : kMadeUpOther,
                        static_cast<int>(**config_.classes), transform_.size, transform_.channels(),
                        seed_, part);
}

void ImageData::read_training() {
  if (train_) return;
  // A resumed run's classes are those that it began with.
  const auto known = *config_.format == "folder" ? classes_ : std::vector<std::string>{};
  ImageSet all = *config_.synthetic ? make_up(0) : read(*config_.train, "train", known);
  const auto count = static_cast<int64_t>(all.classes.size());
  if (*config_.classes && **config_.classes != count) {
    throw UsageError("data.classes: " + std::to_string(**config_.classes) +
                     ", but the training images have " + std::to_string(count) +
                     "; correct it, or set it to null");
  }
  if (classes_.empty()) classes_ = all.classes;
  if (*config_.valid_count >= all.size()) {
    throw UsageError("data.valid_count: " + std::to_string(*config_.valid_count) +
                     " images are to be held out of " + std::to_string(all.size()) + "; lower it");
  }
  if (*config_.valid_count == 0) {
    train_ = std::make_unique<ImagePart>(std::move(all), config_);
    return;
  }
  // Chosen by their number alone, so that runs of any seed are judged by the same images.
  std::vector<int32_t> order(static_cast<size_t>(all.size()));
  std::iota(order.begin(), order.end(), 0);
  shuffle(order, 0, 0x4E1Du);
  const auto middle = order.begin() + *config_.valid_count;
  std::sort(order.begin(), middle);
  std::sort(middle, order.end());
  held_out_ = std::make_unique<ImagePart>(all.subset({order.begin(), middle}), config_);
  all.keep({middle, order.end()});
  train_ = std::make_unique<ImagePart>(std::move(all), config_);
}

int64_t ImageData::class_count() {
  if (*config_.classes && classes_.empty()) return **config_.classes;
  return static_cast<int64_t>(classes().size());
}

const std::vector<std::string>& ImageData::classes() {
  if (classes_.empty()) read_training();
  return classes_;
}

ImagePart& ImageData::train() {
  read_training();
  return *train_;
}

ImagePart& ImageData::part(const std::string& name) {
  const bool has_valid = !config_.valid->empty() || *config_.valid_count > 0;
  const bool has_test = !config_.test->empty();
  if (!has_valid && !has_test && !*config_.synthetic) {
    throw UsageError(
        "data.valid: there are no images to validate on; name some, or set "
        "data.valid_count to a number of training images");
  }
  // Either stands in for the other.
  const bool valid = !*config_.synthetic && (name == "valid" ? has_valid : !has_test);
  if (valid && config_.valid->empty()) {
    read_training();
    return *held_out_;
  }
  std::unique_ptr<ImagePart>& part = parts_[valid ? "valid" : "test"];
  if (part) return *part;
  ImageSet set = *config_.synthetic ? make_up(1)
                 : valid            ? read(*config_.valid, "valid", classes())
                                    : read(*config_.test, "test", classes());
  for (const int32_t label : set.labels) {
    if (label >= class_count()) {
      throw UsageError("data." + name + ": has an image of class " + std::to_string(label) +
                       "; the training images have " + std::to_string(class_count()));
    }
  }
  part = std::make_unique<ImagePart>(std::move(set), config_);
  return *part;
}

uint64_t ImageData::fingerprint() {
  if (!fingerprint_) fingerprint_ = train().set.fingerprint();
  return *fingerprint_;
}

void ImageData::save(const fs::path& folder) {
  std::string text;
  for (const std::string& name : classes()) text += name + "\n";
  AtomicFile file((folder / kClassesFile).string());
  file.write(text.data(), text.size());
  file.commit();
}

std::vector<std::string> ImageData::describe() {
  const std::string kind = transform_.frames > 0 ? "films" : "images";
  const std::string counts = std::to_string(train().set.size()) + " training " + kind + ", " +
                             std::to_string(class_count()) + " classes";
  const std::string size = std::to_string(transform_.size);
  std::vector<std::string> lines;
  if (*config_.synthetic) {
    lines.push_back("SYNTHETIC IMAGES (data.synthetic), made up from the seed" +
                    std::string(transform_.frames > 0 ? " (films stand still)" : "") +
                    ": their loss and top-1 say nothing about pictures; " + counts);
  } else {
    lines.push_back(*config_.format + " " + kind + " in " + data_path(config_, "").string() + ": " +
                    counts);
  }
  if (held_out_) lines.back() += ", " + std::to_string(held_out_->set.size()) + " held out";
  std::string what = size + " x " + size + " x " + std::to_string(transform_.channels()) +
                     ", crop " + *config_.crop;
  if (transform_.frames > 0) {
    what = std::to_string(transform_.frames) + " frames of " + what;
    if (transform_.frame_step > 1)
      what += ", every " + std::to_string(transform_.frame_step) + "th";
  }
  if (transform_.flip) what += ", flipped";
  if (*config_.brightness > 0 || *config_.contrast > 0 || *config_.saturation > 0) {
    what += ", colours jittered";
  }
  if (*config_.mixup > 0) what += ", mixed";
  lines.push_back(what);
  return lines;
}

void ImageData::warn(BadImages& bad) {
  for (const std::string& what : bad.news()) {
    if (++warned_ > kMostWarnings) continue;
    log_warn("image skipped (" + std::to_string(warned_) + " so far): " + what);
    if (warned_ == kMostWarnings) log_warn("further images that are skipped are only counted");
  }
}

}  // namespace pal
