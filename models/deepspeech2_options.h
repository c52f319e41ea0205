// What can be chosen of Deep Speech 2.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "models/rule.h"

namespace pal {

struct DeepSpeech2Options {
  static constexpr const char* kType = "deepspeech2";
  static constexpr const char* kHelp =
      "speech recogniser of convolutions and recurrent layers, with CTC; learns from recordings "
      "and transcripts";

  // What conv_kernels and conv_strides say.
  struct Conv {
    int64_t time, bins;  // extent of the kernel, centred
    int64_t time_stride, bin_stride;
  };
  enum class Cell : uint8_t { gru, lstm };
  enum class Directions : uint8_t { sum, concat };  // concat: side by side, 2 hidden

  int64_t bins = 161;   // of a frame of features
  int64_t labels = 29;  // the blank, number 0, counts
  std::vector<std::string> conv_kernels = {"11x41", "11x21"}, conv_strides = {"2x2", "1x2"};
  int64_t channels = 32;
  Cell cell = Cell::gru;
  int64_t layers = 5, hidden = 800;  // hidden: of one direction
  bool bidirectional = true;
  Directions directions = Directions::sum;
  int64_t fully_connected = 0;  // width of a layer between the last recurrent one and the output
  float dropout = 0;            // of what a recurrent layer hands on
  float clip = 20;              // Hardtanh(0, clip)
  float momentum = 0.1f;        // of the running statistics
  float eps = 1e-5f;
  bool fused = true;          // recurrent cells as one operator
  bool whole_layers = false;  // all steps of a layer's direction as one operator

  // How a configuration names the members: option(key, member, help, what is accepted).
  template <class Option> void declare(Option&& option) {
    option("fused", fused, "recurrent cells as one operator; false: the papers' granularity",
           {.recordings = {"false", "true"}});
    option("whole_layers", whole_layers,
           "a recurrent layer's direction, all its steps, as one operator, on a GPU cuDNN's where "
           "that is found; with fused",
           {.recordings = {"false", "true"}});
    option("conv_kernels", conv_kernels,
           "a convolution each: frames x bins of its kernel, odd numbers");
    option("conv_strides", conv_strides, "frames x bins of each convolution's stride");
    option("conv_channels", channels, "channels of every convolution", {.min = 1, .max = 65536});
    option("cell", cell, "of the recurrent layers");
    option("layers", layers, "recurrent layers", {.min = 1, .max = 64});
    option("hidden", hidden, "width of a recurrent layer, each direction",
           {.min = 1, .max = 65536});
    option("bidirectional", bidirectional, "every recurrent layer reads both ways");
    option("directions", directions,
           "what becomes of the two: sum (Amodei et al.), or concat (side by side)");
    option("fully_connected", fully_connected, "width of a layer before the output layer; 0: none",
           {.min = 0, .max = 65536});
    option("dropout", dropout, "of what a recurrent layer hands on",
           {.min = 0, .max = 1, .below_max = true});
  }
  std::vector<Conv> convs() const;  // conv_kernels and conv_strides as numbers
  static Rules<DeepSpeech2Options> rules();
};

constexpr auto names(DeepSpeech2Options::Cell) { return std::array{"gru", "lstm"}; }
constexpr auto names(DeepSpeech2Options::Directions) { return std::array{"sum", "concat"}; }

}  // namespace pal
