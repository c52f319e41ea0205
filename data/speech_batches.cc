// Filling batches of utterances.
#include "data/speech_batches.h"

#include <algorithm>

#include "core/error.h"
#include "data/draws.h"

namespace pal {
namespace {

constexpr uint32_t kTempoDraws = 0x7E390;

// Of one utterance in one epoch.
uint64_t stream_of(int64_t epoch, int32_t utterance) {
  return static_cast<uint64_t>(epoch) << 32 | static_cast<uint32_t>(utterance);
}

}  // namespace

std::vector<PairLength> speech_lengths(const std::vector<Utterance>& utterances, bool tempo) {
  std::vector<PairLength> out;
  for (const Utterance& u : utterances) {
    const int64_t frames = tempo ? u.frames * 10 / 9 + 2 : u.frames;
    const int64_t labels = static_cast<int64_t>(u.labels.size()) + 1;
    out.push_back({static_cast<int>(frames), static_cast<int>(std::max<int64_t>(2, labels))});
  }
  return out;
}

void fill_speech_batch(FeatureReader& reader, const std::vector<Utterance>& utterances,
                       std::span<const int32_t> rows, const SpeechExtent& extent,
                       const SpeechVariety* variety, bool skip_faults, SpeechBatch& out) {
  const auto [F, L, B] = extent;
  const int64_t bins = reader.bins();
  out.extent = extent;
  out.features.assign(static_cast<size_t>(B * F * bins), 0.0f);
  out.frames.assign(static_cast<size_t>(B), 0);
  out.labels.assign(static_cast<size_t>(L * B), 0);
  out.label_lengths.assign(static_cast<size_t>(B), 0);
  out.rows.assign(rows.begin(), rows.end());
  out.utterances = out.total_frames = 0;
  out.faults = {};
  for (size_t b = 0; b < rows.size(); ++b) {
    const Utterance& u = utterances[static_cast<size_t>(rows[b])];
    int tempo = 10;
    uint64_t stream = 0;
    if (variety) {
      stream = stream_of(out.position.epoch, rows[b]);
      if (variety->tempo)
        tempo = 9 + static_cast<int>(Draws(variety->seed, stream, kTempoDraws).below(3));
    }
    Features features;
    try {
      features = reader.read(u, tempo);
    } catch (const UsageError& error) {
      if (!skip_faults) throw;
      out.faults.add(error.what());
      continue;
    }
    if (variety) augment(features, variety->masks, variety->seed, stream);
    const int64_t frames = std::min(features.frames, F);
    std::copy(features.values.begin(), features.values.begin() + frames * bins,
              out.features.begin() + static_cast<int64_t>(b) * F * bins);
    out.frames[b] = static_cast<int32_t>(frames);
    const int64_t length = std::min(static_cast<int64_t>(u.labels.size()), L);
    for (int64_t i = 0; i < length; ++i) {
      out.labels[static_cast<size_t>(i * B) + b] = u.labels[static_cast<size_t>(i)];
    }
    out.label_lengths[b] = static_cast<int32_t>(length);
    ++out.utterances;
    out.total_frames += frames;
  }
}

}  // namespace pal
