// The mean of several checkpoints' weights: smoother than any of them (Vaswani et al. 2017, section
// 6.1; Junczys-Dowmunt et al. 2016).
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace pal {

// The newest `last` of the step-N.safetensors that train.keep_last keeps in a run's folder, oldest
// first; all where there are fewer.
std::vector<std::filesystem::path> last_checkpoints(const std::filesystem::path& folder,
                                                    int64_t last);

// Writes the mean of the files' weights to `to`, in the form of best.safetensors; summed in f64 in
// the order of the files. UsageError, and nothing written, when there is no file, or when they are
// not of one model or not in f32.
void average_checkpoints(std::span<const std::filesystem::path> files,
                         const std::filesystem::path& to);

}  // namespace pal
