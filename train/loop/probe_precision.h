// pal plan --probe-precision: how much the gradients of a trained model change when one layer's
// feature maps are rounded for the backward phase, and the smallest format for each layer that
// changes them little.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "ops/encodings/dpr.h"
#include "train/config/config.h"
#include "train/loop/task.h"

namespace pal {

// Maps that are rounded together: one with its views, or, where there are many, all of a layer.
struct ProbedMaps {
  std::string scope;  // as memory.dpr_layers names it; "": it has no name
  std::string layer;  // of the first of them (memory/passes/encode.h, layer_of)
  int64_t maps = 0, bytes = 0;
  // By Dpr: the norm of the change of all weights' gradients over that of the gradients (L2), of
  // the batch where it is largest. Infinity where a gradient is not finite.
  std::array<double, kDprFormats.size()> error{};
};

// By scope the smallest format with which the error of each of its groups is at most `most`. None
// for scopes where there is no such format, nor for those above one: a name in dpr_layers stands
// for all scopes below it.
std::vector<std::pair<std::string, Dpr>> propose_formats(const std::vector<ProbedMaps>& probed,
                                                         double most);

struct ProbeOptions {
  int batches = 3;
  size_t alone = 40;  // so many maps at most are tried one by one
};
struct PrecisionProbe {
  std::vector<ProbedMaps> probed;  // in order of production
  int batches = 0;
  double seconds = 0;
};
// Runs batches of the task's training data with the weights of `weights`; changes nothing.
// UsageError where the file does not fit the model, or no map could be rounded.
PrecisionProbe probe_precision(Task& task, const Config& config,
                               const std::filesystem::path& weights,
                               const ProbeOptions& options = {});

}  // namespace pal
