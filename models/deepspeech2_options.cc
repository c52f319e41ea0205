// The convolutions of Deep Speech 2 as a configuration writes them.
#include "models/deepspeech2_options.h"

#include <cstdio>

#include "models/option_help.h"

namespace pal {
namespace {

// "11x41" as two numbers; both 0 where it is nothing of the kind.
struct Extents {
  int64_t frames = 0, bins = 0;
};

Extents parse_extents(const std::string& text) {
  long long frames = 0, bins = 0;
  int end = -1;
  std::sscanf(text.c_str(), "%5lldx%5lld%n", &frames, &bins, &end);
  if (end != static_cast<int>(text.size()) || frames < 1 || bins < 1) return {};
  return {frames, bins};
}

std::string convolution_fault(const DeepSpeech2Options& o) {
  if (o.conv_kernels.size() != o.conv_strides.size())
    return "model.conv_strides: " + std::to_string(o.conv_strides.size()) + " for the " +
           std::to_string(o.conv_kernels.size()) +
           " convolutions of model.conv_kernels; give one each";
  for (size_t i = 0; i < o.conv_kernels.size(); ++i) {
    const Extents kernel = parse_extents(o.conv_kernels[i]);
    const Extents stride = parse_extents(o.conv_strides[i]);
    if (kernel.frames % 2 == 0 || kernel.bins % 2 == 0)
      return "model.conv_kernels: '" + o.conv_kernels[i] +
             "' is not FRAMESxBINS in odd numbers, as 11x41";
    if (stride.frames < 1 || stride.bins < 1 || stride.frames > kernel.frames ||
        stride.bins > kernel.bins)
      return "model.conv_strides: '" + o.conv_strides[i] +
             "' is not FRAMESxBINS within the kernel, as 2x2";
  }
  return "";
}

std::string layer_fault(const DeepSpeech2Options& o) {
  return o.whole_layers && !o.fused ? kWholeLayersHaveNoParts : "";
}

}  // namespace

std::vector<DeepSpeech2Options::Conv> DeepSpeech2Options::convs() const {
  std::vector<Conv> out;
  for (size_t i = 0; i < conv_kernels.size(); ++i) {
    const Extents kernel = parse_extents(conv_kernels[i]), stride = parse_extents(conv_strides[i]);
    out.push_back({kernel.frames, kernel.bins, stride.frames, stride.bins});
  }
  return out;
}

Rules<DeepSpeech2Options> DeepSpeech2Options::rules() {
  return {{"model.conv_kernels, model.conv_strides",
           "as many strides as kernels, FRAMESxBINS each; kernels are odd and no narrower than "
           "their stride",
           convolution_fault},
          {"model.whole_layers, model.fused", "whole layers are of fused cells", layer_fault}};
}

}  // namespace pal
