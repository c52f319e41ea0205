// Reading through libsndfile, and resampling.
#include "data/audio.h"

#include <sndfile.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numbers>
#include <numeric>

#include "core/error.h"

namespace pal {
namespace {

constexpr int kLowestRate = 1000, kHighestRate = 768'000, kMostChannels = 64;
// At 16 kHz four hours and a half, and 1 GiB: FLAC has silence of any length in a few bytes.
constexpr int64_t kMostSamples = int64_t{1} << 28;

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw UsageError(path + ": " + what);
}

struct Open {
  std::unique_ptr<SNDFILE, int (*)(SNDFILE*)> file{nullptr, &sf_close};
  SF_INFO info{};
};

// libsndfile takes a WAV that was cut short for one that ends there; its RIFF header says more.
void check_riff_length(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  unsigned char head[8];
  if (!file || std::fread(head, sizeof head, 1, file.get()) != 1) return;
  if (std::string(reinterpret_cast<char*>(head), 4) != "RIFF") return;
  const uint64_t says = 8 + (uint64_t{head[4]} | uint64_t{head[5]} << 8 | uint64_t{head[6]} << 16 |
                             uint64_t{head[7]} << 24);
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path, error);
  // A recorder that could not go back to its header leaves 0 or the largest number there.
  if (error || says >= 0xFFFFFFFFu || bytes >= says) return;
  refuse(path, "is cut short: " + std::to_string(bytes) + " bytes of the " + std::to_string(says) +
                   " that its header names");
}

Open open_audio(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) refuse(path, "no such file");
  if (!std::filesystem::is_regular_file(path, ignored)) refuse(path, "is not a file");
  Open open;
  open.file.reset(sf_open(path.c_str(), SFM_READ, &open.info));
  if (!open.file) {
    std::string why = sf_strerror(nullptr);
    while (!why.empty() && (why.back() == '\n' || why.back() == '.')) why.pop_back();
    std::replace(why.begin(), why.end(), '\n', ' ');
    refuse(path, "cannot be read as sound (" + why + "); give WAV or FLAC");
  }
  const SF_INFO& info = open.info;
  if (info.frames <= 0) refuse(path, "holds no sound");
  if (info.frames > kMostSamples) refuse(path, "is too long");
  if (info.channels < 1 || info.channels > kMostChannels) {
    refuse(path, "has " + std::to_string(info.channels) + " channels");
  }
  if (info.samplerate < kLowestRate || info.samplerate > kHighestRate) {
    refuse(path, "has " + std::to_string(info.samplerate) + " samples a second");
  }
  check_riff_length(path);
  return open;
}

}  // namespace

AudioInfo inspect_audio(const std::string& path) {
  const Open open = open_audio(path);
  return {open.info.samplerate, open.info.frames};
}

Audio read_audio(const std::string& path) {
  const Open open = open_audio(path);
  const auto channels = static_cast<size_t>(open.info.channels);
  Audio audio{open.info.samplerate, {}};
  // The header may claim any number.
  audio.samples.reserve(static_cast<size_t>(std::min<sf_count_t>(open.info.frames, 1 << 20)));
  constexpr size_t kBlock = 4096;
  std::vector<float> block(kBlock * channels);
  for (;;) {
    const sf_count_t got = sf_readf_float(open.file.get(), block.data(), kBlock);
    for (size_t i = 0; got > 0 && i < static_cast<size_t>(got); ++i) {
      float sum = 0;
      for (size_t c = 0; c < channels; ++c) sum += block[i * channels + c];
      audio.samples.push_back(sum / static_cast<float>(channels));
    }
    if (got < static_cast<sf_count_t>(kBlock)) break;
    if (static_cast<int64_t>(audio.samples.size()) > open.info.frames) break;
  }
  if (static_cast<int64_t>(audio.samples.size()) > open.info.frames) {
    refuse(path, "holds more samples than the " + std::to_string(open.info.frames) +
                     " that its header names");
  }
  if (static_cast<int64_t>(audio.samples.size()) < open.info.frames) {
    refuse(path, "is cut short: " + std::to_string(audio.samples.size()) + " samples of the " +
                     std::to_string(open.info.frames) + " that its header names");
  }
  for (const float x : audio.samples) {
    if (!std::isfinite(x)) refuse(path, "holds samples that are no numbers");
  }
  return audio;
}

int64_t resampled_length(int64_t samples, int from, int to) {
  return (samples * to + from - 1) / from;
}

std::vector<float> resample(std::span<const float> samples, int from, int to) {
  if (from == to) return {samples.begin(), samples.end()};
  const int divisor = std::gcd(from, to), up = to / divisor, down = from / divisor;
  // Output n lies at n * down / up of the input: `up` different distances from the samples around.
  constexpr double kCrossings = 16;
  const double cutoff = std::min(1.0, double(up) / double(down));  // of the input's Nyquist
  const double reach = kCrossings / cutoff;                        // input samples either side
  const int64_t side = static_cast<int64_t>(std::ceil(reach)), taps = 2 * side + 1;
  std::vector<float> kernel(static_cast<size_t>(up * taps));
  for (int phase = 0; phase < up; ++phase) {
    const double offset = double(phase) / double(up);
    for (int64_t k = -side; k <= side; ++k) {
      const double x = double(k) - offset, pi = std::numbers::pi;
      const double sinc = x == 0 ? 1 : std::sin(pi * x * cutoff) / (pi * x * cutoff);
      const double window = std::abs(x) < reach ? 0.5 + 0.5 * std::cos(pi * x / reach) : 0;
      kernel[static_cast<size_t>(phase * taps + k + side)] = float(cutoff * sinc * window);
    }
  }
  const auto n = static_cast<int64_t>(samples.size());
  std::vector<float> out(static_cast<size_t>(resampled_length(n, from, to)));
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i) * down, center = at / up;
    const float* weights = kernel.data() + at % up * taps + side - center;  // by input sample
    float sum = 0;
    for (int64_t s = std::max<int64_t>(0, center - side); s <= std::min(n - 1, center + side);
         ++s) {
      sum += weights[s] * samples[static_cast<size_t>(s)];
    }
    out[i] = sum;
  }
  return out;
}

}  // namespace pal
