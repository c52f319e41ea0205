// What a speech recogniser reads of an utterance: a row of numbers for every hop of time.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace pal {

struct Features {
  int64_t frames = 0, bins = 0;
  std::vector<float> values;  // (frames, bins)
};

struct SpectrogramOptions {
  int rate = 16000;                  // samples a second; other sounds are resampled
  double window = 0.02, hop = 0.01;  // seconds
};

// Log magnitudes of a Hamming window's Fourier transform, less their mean and divided by their
// standard deviation over the utterance (Amodei et al. 2016). One object serves one thread.
class Spectrogram {
 public:
  explicit Spectrogram(const SpectrogramOptions& options);
  ~Spectrogram();
  Spectrogram(Spectrogram&&) noexcept;
  Spectrogram& operator=(Spectrogram&&) noexcept;

  const SpectrogramOptions& options() const;
  int64_t bins() const;  // half the window's samples, and one: 161 of 20 ms at 16 kHz
  // Whole windows in so many samples; one at least, which zeros fill up.
  int64_t frames(int64_t samples) const;
  Features compute(std::span<const float> samples);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Cepstral coefficients as CMU Sphinx stores them: the number of floats that follow, and these, all
// four bytes, the highest first (or the lowest, where only that fits the file's length). Each
// coefficient is normalised over the utterance. UsageError, one line that begins with the path.
Features read_mfcc(const std::string& path, int64_t coefficients);
// The frames of such a file, by its length.
int64_t inspect_mfcc(const std::string& path, int64_t coefficients);

// SpecAugment (Park et al. 2019): `count` masks of up to `width` frames (or bins) each, at places
// drawn from (seed, stream); what is masked is 0, the utterance's mean.
struct SpecAugment {
  int64_t time_masks = 0, time_width = 0, bin_masks = 0, bin_width = 0;
};
void augment(Features& features, const SpecAugment& options, uint64_t seed, uint64_t stream);

}  // namespace pal
