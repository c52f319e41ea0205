// The options of speech recognisers, and which of them combine.
#include "train/config/speech_config.h"

#include <cstdio>

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

std::string convolution_fault(const DeepSpeechConfig& model) {
  if (model.conv_kernels.size() != model.conv_strides.size())
    return "model.conv_strides: " + std::to_string(model.conv_strides.size()) + " for the " +
           std::to_string(model.conv_kernels.size()) +
           " convolutions of model.conv_kernels; give one each";
  for (size_t i = 0; i < model.conv_kernels.size(); ++i) {
    const Extents kernel = parse_extents(model.conv_kernels[i]);
    const Extents stride = parse_extents(model.conv_strides[i]);
    if (kernel.frames % 2 == 0 || kernel.bins % 2 == 0)
      return "model.conv_kernels: '" + model.conv_kernels[i] +
             "' is not FRAMESxBINS in odd numbers, as 11x41";
    if (stride.frames < 1 || stride.bins < 1 || stride.frames > kernel.frames ||
        stride.bins > kernel.bins)
      return "model.conv_strides: '" + model.conv_strides[i] +
             "' is not FRAMESxBINS within the kernel, as 2x2";
  }
  return "";
}

}  // namespace

DeepSpeechSection::DeepSpeechSection() {
  option("type", type, "the kind of model", {.choices = {"deepspeech2"}});
  option("fused", model.fused, "recurrent cells as one operator; false: the papers' granularity");
  option("conv_kernels", conv_kernels,
         "a convolution each: frames x bins of its kernel, odd numbers");
  option("conv_strides", conv_strides, "frames x bins of each convolution's stride");
  option("conv_channels", model.channels, "channels of every convolution",
         {.min = 1, .max = 65536});
  option("cell", model.cell, "of the recurrent layers");
  option("layers", model.layers, "recurrent layers", {.min = 1, .max = 64});
  option("hidden", model.hidden, "width of a recurrent layer, each direction",
         {.min = 1, .max = 65536});
  option("bidirectional", model.bidirectional, "every recurrent layer reads both ways");
  option("directions", model.directions,
         "what becomes of the two: sum (Amodei et al.), or concat (side by side)");
  option("fully_connected", model.fully_connected,
         "width of a layer before the output layer; 0: none", {.min = 0, .max = 65536});
  option("dropout", model.dropout, "of what a recurrent layer hands on",
         {.min = 0, .max = 1, .below_max = true});
}

DeepSpeech2Options DeepSpeechSection::network() const {
  DeepSpeech2Options o = model;
  o.convs.clear();
  for (size_t i = 0; i < conv_kernels.size(); ++i) {
    const Extents kernel = parse_extents(conv_kernels[i]), stride = parse_extents(conv_strides[i]);
    o.convs.push_back({kernel.frames, kernel.bins, stride.frames, stride.bins});
  }
  return o;
}

Rules<DeepSpeechConfig> deepspeech_rules() {
  return {
      {"model.conv_kernels, model.conv_strides",
       "as many strides as kernels, FRAMESxBINS each; kernels are odd and no narrower than their "
       "stride",
       convolution_fault},
  };
}

Rules<SpeechConfig> speech_rules() {
  return {
      {"data.join_least, data.join_most, data.features",
       "join_most is at least join_least; only sound is joined and played at another tempo",
       [](const SpeechConfig& data) -> std::string {
         if (*data.join_most < *data.join_least)
           return "data.join_most: is below data.join_least; raise it";
         if (*data.features == "mfcc" && (*data.join_most > 1 || *data.tempo))
           return std::string(*data.tempo ? "data.tempo" : "data.join_most") +
                  ": files of data.features mfcc can be neither joined nor played; leave it out";
         return "";
       }},
  };
}

}  // namespace pal
