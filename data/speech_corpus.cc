// Checking, joining, making up and reading utterances.
#include "data/speech_corpus.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "core/error.h"
#include "data/audio.h"
#include "data/draws.h"

namespace pal {
namespace {

constexpr uint32_t kJoinDraws = 0x701E, kMadeUpDraws = 0x3ADE, kNoiseDraws = 0x2015E;

int64_t gap_samples(const SpeechOptions& options) {
  return std::lround(options.join_gap * options.spectrogram.rate);
}

// One entry as an utterance, or the reason why not.
Utterance check_entry(const ManifestEntry& entry, const std::string& folder, const Labels& labels,
                      const SpeechOptions& options, const Spectrogram& spectrogram) {
  Utterance u;
  const std::string path = (std::filesystem::path(folder) / entry.path).lexically_normal().string();
  u.files = {path};
  u.speaker = entry.speaker;
  std::string unknown;
  const auto ids = labels.encode(entry.transcript, options.lowercase, &unknown);
  if (!ids) {
    throw UsageError(path + ": its transcript holds '" + unknown +
                     "', which is no label; add it to data.labels or mend the transcript");
  }
  u.labels = *ids;
  u.transcript = labels.decode(u.labels);
  double seconds = 0;
  if (options.mfcc) {
    u.frames = inspect_mfcc(path, options.coefficients);
    seconds = static_cast<double>(u.frames) * options.spectrogram.hop;
  } else {
    const AudioInfo info = inspect_audio(path);
    u.samples = resampled_length(info.samples, info.rate, options.spectrogram.rate);
    u.frames = spectrogram.frames(u.samples);
    seconds = static_cast<double>(info.samples) / info.rate;
  }
  if (seconds > options.max_seconds) {
    throw UsageError(path + ": is " + std::to_string(static_cast<int64_t>(seconds)) +
                     " seconds long, longer than data.max_seconds");
  }
  return u;
}

}  // namespace

void Faults::add(const std::string& message) {
  if (count++ == 0) first = message;
}

std::vector<Utterance> check_entries(const std::vector<ManifestEntry>& entries,
                                     const std::string& folder, const Labels& labels,
                                     const SpeechOptions& options, Faults& faults) {
  const Spectrogram spectrogram(options.spectrogram);
  std::vector<Utterance> out;
  for (const ManifestEntry& entry : entries) {
    try {
      out.push_back(check_entry(entry, folder, labels, options, spectrogram));
    } catch (const UsageError& error) {
      if (!options.skip_faults) throw;
      faults.add(error.what());
    }
  }
  return out;
}

std::vector<Utterance> join_utterances(const std::vector<Utterance>& recordings,
                                       const Labels& labels, const SpeechOptions& options,
                                       int64_t count, int64_t least, int64_t most, uint64_t seed,
                                       uint64_t stream) {
  std::map<std::string, std::vector<const Utterance*>> of_speaker;
  for (const Utterance& one : recordings) of_speaker[one.speaker].push_back(&one);
  std::vector<const std::vector<const Utterance*>*> speakers;
  for (const auto& [name, own] : of_speaker) speakers.push_back(&own);
  std::vector<Utterance> out;
  if (speakers.empty()) return out;
  if (!labels.has_space()) {
    throw UsageError("data.labels: lacks the space, which joined transcripts need; add it");
  }
  const Spectrogram spectrogram(options.spectrogram);
  Draws draws(seed, stream, kJoinDraws);
  auto one_of = [&](const auto& list) {
    return list[static_cast<size_t>(draws.below(static_cast<int64_t>(list.size())))];
  };
  for (int64_t i = 0; i < count; ++i) {
    const auto& own = *one_of(speakers);
    Utterance joined{.speaker = own[0]->speaker};
    const int64_t parts = least + draws.below(most - least + 1);
    for (int64_t k = 0; k < parts; ++k) {
      const Utterance& part = *one_of(own);
      joined.files.push_back(part.files[0]);
      joined.transcript += (k > 0 ? " " : "") + part.transcript;
      joined.samples += part.samples + (k > 0 ? gap_samples(options) : 0);
    }
    joined.labels = labels.encode(joined.transcript, false).value();
    joined.frames = spectrogram.frames(joined.samples);
    out.push_back(std::move(joined));
  }
  return out;
}

std::vector<Utterance> make_up_utterances(const Labels& labels, const SpeechOptions& options,
                                          int64_t count, uint64_t seed, uint64_t stream) {
  Draws draws(seed, stream, kMadeUpDraws);
  std::vector<Utterance> out;
  const double most = std::min(16.0, options.max_seconds), least = std::min(2.0, most);
  for (int64_t i = 0; i < count; ++i) {
    // Long ones are the rule in LibriSpeech: the square root of a uniform number.
    const double seconds = least + (most - least) * std::sqrt(draws.uniform());
    Utterance u;
    u.frames = std::max<int64_t>(1, std::llround(seconds / options.spectrogram.hop));
    u.seed = (stream << 32) + static_cast<uint64_t>(i) + 1;
    const auto letters = static_cast<int64_t>(seconds * 14);
    for (int64_t k = 0; k < letters; ++k) {
      u.labels.push_back(static_cast<int32_t>(1 + draws.below(labels.size() - 1)));
    }
    u.transcript = labels.decode(u.labels);
    out.push_back(std::move(u));
  }
  return out;
}

FeatureReader::FeatureReader(const SpeechOptions& options)
    : options_(options), spectrogram_(options.spectrogram) {}

int64_t FeatureReader::bins() const {
  return options_.mfcc ? options_.coefficients : spectrogram_.bins();
}

std::vector<float> FeatureReader::samples_of(const std::string& path) const {
  const Audio audio = read_audio(path);
  return resample(audio.samples, audio.rate, options_.spectrogram.rate);
}

// A quiet noise, and a bump over a few bins for as long as each label lasts.
Features FeatureReader::make_up(const Utterance& utterance) const {
  Features out{utterance.frames, bins(), {}};
  Draws draws(utterance.seed, 0, kNoiseDraws);
  const auto labels = static_cast<int64_t>(utterance.labels.size());
  for (int64_t frame = 0; frame < out.frames; ++frame) {
    const int64_t label =
        labels == 0 ? 0 : utterance.labels[static_cast<size_t>(frame * labels / out.frames)];
    for (int64_t bin = 0; bin < out.bins; ++bin) {
      const bool bump = label > 0 && bin * 30 / out.bins == label;
      out.values.push_back(static_cast<float>(draws.uniform() - 0.5) + (bump ? 2.0f : 0.0f));
    }
  }
  return out;
}

Features FeatureReader::read_file(const std::string& path) {
  if (options_.mfcc) return read_mfcc(path, options_.coefficients);
  return spectrogram_.compute(samples_of(path));
}

Features FeatureReader::read(const Utterance& utterance, int tempo) {
  if (utterance.files.empty()) return make_up(utterance);
  if (options_.mfcc) return read_mfcc(utterance.files[0], options_.coefficients);
  std::vector<float> samples;
  for (const std::string& file : utterance.files) {
    if (&file != (utterance.files).data()) {
      samples.resize(samples.size() + static_cast<size_t>(gap_samples(options_)));
    }
    const std::vector<float> own = samples_of(file);
    samples.insert(samples.end(), own.begin(), own.end());
  }
  if (tempo != 10) samples = resample(samples, tempo, 10);
  return spectrogram_.compute(samples);
}

}  // namespace pal
