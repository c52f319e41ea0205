// A speech corpus: recordings with transcripts, checked, perhaps joined to longer utterances, and
// turned into features.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/features.h"
#include "data/labels.h"
#include "data/manifest.h"

namespace pal {

struct SpeechOptions {
  bool mfcc = false;  // the files are MFCCs; else sound
  SpectrogramOptions spectrogram;
  int64_t coefficients = 13;
  double max_seconds = 20;
  double join_gap = 0;      // seconds of silence between joined recordings
  bool skip_faults = true;  // leave out what cannot be used, and count it; else UsageError
  bool lowercase = true;
};

struct Utterance {
  std::vector<std::string> files;  // one after the other; none: made up from `seed` and the labels
  std::vector<int32_t> labels;
  std::string transcript, speaker;
  int64_t samples = 0;  // at the spectrogram's rate; 0 of MFCCs
  int64_t frames = 0;
  uint64_t seed = 0;
};

// What was left out, by reason.
struct Faults {
  int64_t count = 0;
  std::string first;  // the first one's message

  void add(const std::string& message);
};

// The entries that can be used, with files below `folder`. Reads the files' headers, and lets the
// labels spell the transcripts. What cannot be used or is too long goes to `faults`, or is a
// UsageError.
std::vector<Utterance> check_entries(const std::vector<ManifestEntry>& entries,
                                     const std::string& folder, const Labels& labels,
                                     const SpeechOptions& options, Faults& faults);

// `count` utterances of `least` to `most` recordings of one speaker each, drawn from (seed,
// stream). UsageError when no label is the space.
std::vector<Utterance> join_utterances(const std::vector<Utterance>& recordings,
                                       const Labels& labels, const SpeechOptions& options,
                                       int64_t count, int64_t least, int64_t most, uint64_t seed,
                                       uint64_t stream);

// `count` made-up utterances as long as those of read books (LibriSpeech: 2 to 16 seconds, 14
// letters a second), whose features say which label is spoken.
std::vector<Utterance> make_up_utterances(const Labels& labels, const SpeechOptions& options,
                                          int64_t count, uint64_t seed, uint64_t stream);

// Reads the files of utterances. One object serves one thread.
class FeatureReader {
 public:
  explicit FeatureReader(const SpeechOptions& options);

  int64_t bins() const;
  // The frames of so many samples; of MFCCs, as many.
  int64_t frames(int64_t samples) const { return spectrogram_.frames(samples); }
  // `tempo`: 10 as it is; 9 slower and lower, 11 faster and higher, by a tenth (sound only).
  // UsageError that names the file.
  Features read(const Utterance& utterance, int tempo = 10);
  Features read_file(const std::string& path);

 private:
  std::vector<float> samples_of(const std::string& path) const;
  Features make_up(const Utterance& utterance) const;

  SpeechOptions options_;
  Spectrogram spectrogram_;
};

}  // namespace pal
