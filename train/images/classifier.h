// Trained models that classify images together; one model is an ensemble of one.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "train/images/image_task.h"
#include "train/loop/saved_model.h"

namespace pal {

struct Guess {
  std::string name;
  double probability = 0;
};

class Classifier {
 public:
  // Folders of runs with commas between: DIR[,DIR...]. UsageError when one is no classifier, or the
  // models' classes or images' sizes differ.
  explicit Classifier(const std::string& folders);

  ImageEvaluation evaluate(const std::string& part) const {
    return evaluate_images(members_, part);
  }
  // The likeliest classes, `top` at most, best first. UsageError when the file is no image; where
  // films were learnt, `file` is a folder of frames.
  std::vector<Guess> classify(const std::filesystem::path& file, int64_t top) const;
  std::string weights() const;  // the files they came from, for the log

 private:
  std::vector<SavedModel<ImageTask>> models_;
  std::vector<ImageMember> members_;
};

}  // namespace pal
