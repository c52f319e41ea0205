// Averaging checkpoints, tensor by tensor.
#include "train/loop/average.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "train/loop/checkpoint.h"
#include "train/run_files/safetensors.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

std::vector<const TensorView*> weights_of(const SafetensorsFile& file) {
  std::vector<const TensorView*> out;  // sorted by name, as the file's
  for (const TensorView& tensor : file.tensors()) {
    if (names_weight(tensor.name)) out.push_back(&tensor);
  }
  return out;
}

}  // namespace

std::vector<fs::path> last_checkpoints(const fs::path& folder, int64_t last) {
  std::vector<fs::path> out;
  for (const int64_t step : kept_checkpoints(folder)) {
    if (static_cast<int64_t>(out.size()) < last) out.push_back(kept_checkpoint(folder, step));
  }
  std::reverse(out.begin(), out.end());
  return out;
}

void average_checkpoints(std::span<const fs::path> files, const fs::path& to) {
  if (files.empty()) throw UsageError("average: no checkpoint to average");
  std::vector<SafetensorsFile> opened;
  for (const fs::path& file : files) opened.push_back(SafetensorsFile::open(file.string()));
  const std::vector<const TensorView*> first = weights_of(opened[0]);
  std::vector<TensorView> means;
  std::vector<std::vector<float>> values;
  for (const TensorView* tensor : first) {
    if (tensor->dtype != "F32") {
      throw UsageError(files[0].string() + ": " + tensor->name + " is " + tensor->dtype +
                       "; only F32 weights are averaged");
    }
    std::vector<double> sum(tensor->bytes / sizeof(float), 0.0);
    for (size_t f = 0; f < files.size(); ++f) {
      const TensorView* own = opened[f].find(tensor->name);
      const bool alike = own && own->dtype == tensor->dtype && own->shape == tensor->shape;
      if (!alike || weights_of(opened[f]).size() != first.size()) {
        throw UsageError(files[f].string() + ": is of another model than " + files[0].string() +
                         "; average checkpoints of one run");
      }
      const auto* data = static_cast<const float*>(own->data);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += double(data[i]);
    }
    std::vector<float>& mean = values.emplace_back();
    for (const double x : sum) mean.push_back(static_cast<float>(x / double(files.size())));
    means.push_back({tensor->name, tensor->dtype, tensor->shape, mean.data(), tensor->bytes});
  }
  save_safetensors(to.string(), means);
}

}  // namespace pal
