// Opening runs, and classifying single files.
#include "train/images/classifier.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "train/run_files/saved_run.h"

namespace pal {
namespace {

bool learns_from_images(const Config& config) {
  return std::holds_alternative<ImageConfig>(config.data);
}

}  // namespace

Classifier::Classifier(const std::string& folders) {
  for (const std::string& name : split_models(folders)) {
    const SavedRun run = find_saved_run(name);
    const Config config = load_config(run.folder / "config.yaml");
    if (!learns_from_images(config)) {
      throw UsageError("--model: " + name + " is no image classifier");
    }
    models_.push_back(open_saved_model<ImageTask>(run, config));
    ImageData &first = models_[0].task->data(), &own = models_.back().task->data();
    const ImageTransform &a = first.transform(), &b = own.transform();
    if (own.classes() != first.classes() || a.size != b.size || a.resize != b.resize ||
        a.frames != b.frames || a.frame_step != b.frame_step || a.mean != b.mean ||
        a.std != b.std) {
      throw UsageError("--model: " + name +
                       " has other classes, or sees images otherwise, than the "
                       "first model; an ensemble needs models trained on the same data section");
    }
  }
  for (const SavedModel<ImageTask>& model : models_)
    members_.push_back({model.task.get(), model.programs.get()});
}

std::vector<Guess> Classifier::classify(const std::filesystem::path& file, int64_t top) const {
  ImageData& data = models_[0].task->data();
  const ImageTransform& transform = data.transform();
  ImageBatch batch;
  batch.labels = {kNoLabel};
  batch.images.resize(static_cast<size_t>(transform.numel()));
  const ImageSet one = transform.frames > 0 ? read_film(file) : ImageSet{.files = {file}};
  float* out = batch.images.data();
  for (const int64_t frame : choose_frames(one.frames(0), transform, nullptr)) {
    transform_validation(one.read(0, transform.channels(), frame), transform, out);
    out += transform.image_numel();
  }
  const std::vector<double> p = mean_probabilities(members_, batch);
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] > p[b]; });
  std::vector<Guess> guesses;
  for (const size_t c : order) {
    if (static_cast<int64_t>(guesses.size()) == top) break;
    guesses.push_back({data.classes()[c], p[c]});
  }
  return guesses;
}

std::string Classifier::weights() const {
  std::string list;
  for (const SavedModel<ImageTask>& model : models_)
    list += (list.empty() ? "" : ", ") + model.weights.string();
  return list;
}

}  // namespace pal
