// Averaging checkpoints, a piece of a tensor at a time.
#include "train/loop/average.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "train/loop/checkpoint.h"
#include "train/run_files/safetensors.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPiece = size_t{1} << 20;  // elements

std::vector<const TensorView*> weights_of(const SafetensorsFile& file) {
  std::vector<const TensorView*> out;  // sorted by name, as the file's
  for (const TensorView& tensor : file.tensors()) {
    if (names_weight(tensor.name)) out.push_back(&tensor);
  }
  return out;
}

void check_alike(const std::vector<TensorView>& means, const SafetensorsFile& file,
                 const fs::path& name, const fs::path& first) {
  bool alike = weights_of(file).size() == means.size();
  for (const TensorView& mean : means) {
    const TensorView* own = file.find(mean.name);
    alike = alike && own && own->dtype == mean.dtype && own->shape == mean.shape;
  }
  if (alike) return;
  throw UsageError(name.string() + ": is of another model than " + first.string() +
                   "; average checkpoints of one run");
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
  std::vector<TensorView> means;
  for (const TensorView* tensor : weights_of(opened[0])) {
    if (tensor->dtype != "F32") {
      throw UsageError(files[0].string() + ": " + tensor->name + " is " + tensor->dtype +
                       "; only F32 weights are averaged");
    }
    means.push_back({tensor->name, tensor->dtype, tensor->shape, nullptr, tensor->bytes});
  }
  for (size_t f = 0; f < files.size(); ++f) {
    check_alike(means, opened[f], files[f], files[0]);
    for (const TensorView& mean : means) opened[f].check(*opened[f].find(mean.name));
  }
  save_safetensors(to.string(), means, {}, [&](const TensorView& mean, const WriteBytes& write) {
    std::vector<float> values(std::min(kPiece, mean.bytes / sizeof(float)));
    std::vector<double> sum(values.size());
    for (size_t at = 0; at < mean.bytes; at += values.size() * sizeof(float)) {
      values.resize(std::min(values.size(), (mean.bytes - at) / sizeof(float)));
      const size_t bytes = values.size() * sizeof(float);
      sum.assign(values.size(), 0.0);
      for (const SafetensorsFile& file : opened) {
        file.read(*file.find(mean.name), at, bytes, values.data());
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += double(values[i]);
      }
      for (size_t i = 0; i < sum.size(); ++i) {
        values[i] = static_cast<float>(sum[i] / double(files.size()));
      }
      write(values.data(), bytes);
    }
  });
}

}  // namespace pal
