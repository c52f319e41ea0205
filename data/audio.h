// Sound files as mono samples: WAV, FLAC, and whatever else libsndfile reads.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace pal {

struct Audio {
  int rate = 0;                // samples a second
  std::vector<float> samples;  // in [-1, 1], channels averaged
};

struct AudioInfo {
  int rate = 0;
  int64_t samples = 0;
};

// What the header says. UsageError, one line that begins with the path: no such file, not a sound
// file, empty, or shorter than its header says.
AudioInfo inspect_audio(const std::string& path);
// All of it. UsageError likewise, and where it breaks off or holds values that are no numbers.
Audio read_audio(const std::string& path);

// The sound at another rate: a windowed sinc (Hann, 16 zero crossings a side) below the lower of
// the two Nyquist frequencies. Only the ratio of the rates matters.
std::vector<float> resample(std::span<const float> samples, int from, int to);
// How many samples that makes.
int64_t resampled_length(int64_t samples, int from, int to);

}  // namespace pal
