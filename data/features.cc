// Spectrograms by kissfft, MFCC files, SpecAugment.
#include "data/features.h"

#include <kiss_fftr.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <numbers>

#include "core/error.h"
#include "data/draws.h"

namespace pal {
namespace {

// Added to a power before its logarithm: silence of zeros is not minus infinity, and no further
// from speech than a quiet room.
constexpr double kFloor = 1e-5;
constexpr double kLeastDeviation = 1e-3;  // of a sound that is the same throughout
constexpr uint32_t kAugmentDraws = 0x5BEC;

// Rows of `columns` numbers, each column less its mean and divided by its deviation.
void normalise(std::span<float> values, int64_t columns) {
  const auto step = static_cast<size_t>(columns);
  for (size_t first = 0; first < step; ++first) {
    double sum = 0, squares = 0;
    size_t count = 0;
    for (size_t i = first; i < values.size(); i += step, ++count) sum += double(values[i]);
    const double mean = sum / double(count);
    for (size_t i = first; i < values.size(); i += step) {
      squares += (double(values[i]) - mean) * (double(values[i]) - mean);
    }
    const double deviation = std::max(std::sqrt(squares / double(count)), kLeastDeviation);
    for (size_t i = first; i < values.size(); i += step) {
      values[i] = float((double(values[i]) - mean) / deviation);
    }
  }
}

float read_float(const unsigned char* p, bool big) {
  const uint32_t u = big ? uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | p[3]
                         : uint32_t{p[3]} << 24 | uint32_t{p[2]} << 16 | uint32_t{p[1]} << 8 | p[0];
  return std::bit_cast<float>(u);
}

struct MfccHead {
  int64_t floats;
  bool big;
};

// From the first four bytes and the file's length.
MfccHead mfcc_head(const std::string& path, std::FILE* file, int64_t coefficients) {
  auto fail = [&](const std::string& what) { throw UsageError(path + ": " + what); };
  std::error_code error;
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path, error));
  unsigned char head[4];
  if (error || bytes < 4 || std::fread(head, 1, 4, file) != 4) fail("is too short for MFCCs");
  const int64_t floats = (bytes - 4) / 4;
  const uint32_t big =
      uint32_t{head[0]} << 24 | uint32_t{head[1]} << 16 | uint32_t{head[2]} << 8 | head[3];
  const uint32_t little = std::bit_cast<uint32_t>(__builtin_bswap32(big));
  if ((bytes - 4) % 4 != 0 || (big != floats && little != floats)) {
    fail("is cut short or holds no MFCCs: its header names " + std::to_string(big) +
         " numbers, it has room for " + std::to_string(floats));
  }
  if (floats == 0) fail("holds no frame");
  if (floats % coefficients != 0) {
    fail("holds " + std::to_string(floats) + " numbers, which is no multiple of " +
         std::to_string(coefficients) + " coefficients; set data.mfcc_coefficients");
  }
  return {floats, big == floats};
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
std::unique_ptr<std::FILE, CloseFile> open_mfcc(const std::string& path) {
  std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  if (!file) throw UsageError(path + ": cannot be opened: " + std::strerror(errno));
  return file;
}

}  // namespace

struct Spectrogram::Parts {
  SpectrogramOptions options;
  int64_t window, hop;  // samples
  std::vector<float> weights, windowed;
  std::vector<kiss_fft_cpx> spectrum;
  std::unique_ptr<std::remove_pointer_t<kiss_fftr_cfg>, void (*)(void*)> fft{nullptr, &std::free};
};

Spectrogram::Spectrogram(const SpectrogramOptions& options) : parts_(std::make_unique<Parts>()) {
  Parts& p = *parts_;
  p.options = options;
  p.window = std::max<int64_t>(2, std::lround(options.window * options.rate / 2) * 2);  // even
  p.hop = std::max<int64_t>(1, std::lround(options.hop * options.rate));
  for (int64_t i = 0; i < p.window; ++i) {
    const double turn = 2 * std::numbers::pi * double(i) / double(p.window - 1);
    p.weights.push_back(float(0.54 - 0.46 * std::cos(turn)));
  }
  p.windowed.resize(static_cast<size_t>(p.window));
  p.spectrum.resize(static_cast<size_t>(bins()));
  p.fft.reset(kiss_fftr_alloc(int(p.window), 0, nullptr, nullptr));
  if (!p.fft) throw ProgramError("[spectrogram] no transform of " + std::to_string(p.window));
}
Spectrogram::~Spectrogram() = default;
Spectrogram::Spectrogram(Spectrogram&&) noexcept = default;
Spectrogram& Spectrogram::operator=(Spectrogram&&) noexcept = default;

const SpectrogramOptions& Spectrogram::options() const { return parts_->options; }
int64_t Spectrogram::bins() const { return parts_->window / 2 + 1; }
int64_t Spectrogram::frames(int64_t samples) const {
  return samples < parts_->window ? 1 : 1 + (samples - parts_->window) / parts_->hop;
}

Features Spectrogram::compute(std::span<const float> samples) {
  Parts& p = *parts_;
  Features out{frames(static_cast<int64_t>(samples.size())), bins(), {}};
  out.values.reserve(static_cast<size_t>(out.frames * out.bins));
  for (int64_t frame = 0; frame < out.frames; ++frame) {
    const auto begin = static_cast<size_t>(frame * p.hop);
    for (size_t i = 0; i < p.windowed.size(); ++i) {
      p.windowed[i] = begin + i < samples.size() ? p.weights[i] * samples[begin + i] : 0;
    }
    kiss_fftr(p.fft.get(), p.windowed.data(), p.spectrum.data());
    for (const kiss_fft_cpx& z : p.spectrum) {
      const double power = double(z.r) * double(z.r) + double(z.i) * double(z.i);
      out.values.push_back(float(0.5 * std::log(power + kFloor)));
    }
  }
  normalise(out.values, 1);
  return out;
}

int64_t inspect_mfcc(const std::string& path, int64_t coefficients) {
  return mfcc_head(path, open_mfcc(path).get(), coefficients).floats / coefficients;
}

Features read_mfcc(const std::string& path, int64_t coefficients) {
  const auto file = open_mfcc(path);
  const MfccHead head = mfcc_head(path, file.get(), coefficients);
  std::vector<unsigned char> bytes(static_cast<size_t>(4 * head.floats));
  if (std::fread(bytes.data(), 1, bytes.size(), file.get()) != bytes.size()) {
    throw UsageError(path + ": cannot be read to its end");
  }
  Features out{head.floats / coefficients, coefficients, {}};
  for (size_t i = 0; i < bytes.size(); i += 4) {
    out.values.push_back(read_float(bytes.data() + i, head.big));
    if (!std::isfinite(out.values.back())) throw UsageError(path + ": holds what is no number");
  }
  normalise(out.values, coefficients);
  return out;
}

void augment(Features& features, const SpecAugment& options, uint64_t seed, uint64_t stream) {
  Draws draws(seed, stream, kAugmentDraws);
  auto place = [&](int64_t extent, int64_t width) {  // [begin, end)
    const int64_t size = draws.below(std::min(width, extent) + 1);
    const int64_t begin = draws.below(extent - size + 1);
    return std::pair(begin, begin + size);
  };
  for (int64_t i = 0; i < options.time_masks; ++i) {
    const auto [begin, end] = place(features.frames, options.time_width);
    std::fill(features.values.begin() + begin * features.bins,
              features.values.begin() + end * features.bins, 0.0f);
  }
  for (int64_t i = 0; i < options.bin_masks; ++i) {
    const auto [begin, end] = place(features.bins, options.bin_width);
    for (int64_t frame = 0; frame < features.frames; ++frame) {
      const auto row = features.values.begin() + frame * features.bins;
      std::fill(row + begin, row + end, 0.0f);
    }
  }
}

}  // namespace pal
