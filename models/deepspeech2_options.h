// What can be chosen of Deep Speech 2.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace pal {

struct DeepSpeech2Options {
  struct Conv {
    int64_t time, bins;  // extent of the kernel, centred
    int64_t time_stride, bin_stride;
  };
  enum class Cell : uint8_t { gru, lstm };
  enum class Directions : uint8_t { sum, concat };  // concat: side by side, 2 hidden

  int64_t bins = 161;   // of a frame of features
  int64_t labels = 29;  // the blank, number 0, counts
  std::vector<Conv> convs = {{11, 41, 2, 2}, {11, 21, 1, 2}};
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
  bool fused = true;  // recurrent cells as one operator
};

constexpr auto names(DeepSpeech2Options::Cell) { return std::array{"gru", "lstm"}; }
constexpr auto names(DeepSpeech2Options::Directions) { return std::array{"sum", "concat"}; }

}  // namespace pal
