// Any bytes as a sound file, as cepstral coefficients, and as CIFAR's binaries: refused in one line
// that names the file, or as many numbers as it says.
#include <cmath>
#include <filesystem>

#include "data/audio.h"
#include "data/features.h"
#include "data/image_set.h"
#include "tests/fuzz/fuzz.h"

namespace pal {
namespace {

template <typename Read> bool accepts_file(std::string_view bytes, const Read& read) {
  const MemoryFile memory(bytes);
  return accepts(memory.path(), [&] { read(memory.path()); });
}

bool sound_body(std::string_view bytes) {
  return accepts_file(bytes, [](const std::string& path) {
    const AudioInfo info = inspect_audio(path);
    require(info.rate > 0 && info.samples > 0, "a sound has samples");
    const Audio audio = read_audio(path);
    require(int64_t(audio.samples.size()) == info.samples, "all its samples");
    for (const float sample : audio.samples) require(std::isfinite(sample), "samples are numbers");
  });
}

bool mfcc_body(std::string_view bytes) {
  constexpr int64_t kCoefficients = 3;
  return accepts_file(bytes, [](const std::string& path) {
    const int64_t frames = inspect_mfcc(path, kCoefficients);
    const Features features = read_mfcc(path, kCoefficients);
    require(features.frames == frames && features.bins == kCoefficients, "the frames it says");
    require(int64_t(features.values.size()) == frames * kCoefficients, "all its numbers");
    for (const float value : features.values) require(std::isfinite(value), "numbers");
  });
}

bool cifar_body(std::string_view bytes) {
  return accepts_file(bytes, [](const std::string& path) {
    const std::filesystem::path file = path;
    const ImageSet set = read_cifar({&file, 1}, 10);
    require(set.size() > 0, "images");
    require(set.pixels.size() == size_t(set.size()) * 3072, "all their pixels");
    for (const int32_t label : set.labels) require(label >= 0 && label < 10, "labels");
  });
}

std::string wav(const std::string& samples, uint32_t rate = 8000) {
  const auto number = [](uint32_t value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
    return out;
  };
  return "RIFF" + number(uint32_t(36 + samples.size()), 4) + "WAVEfmt " + number(16, 4) +
         number(1, 2) + number(1, 2) + number(rate, 4) + number(2 * rate, 4) + number(2, 2) +
         number(16, 2) + "data" + number(uint32_t(samples.size()), 4) + samples;
}

}  // namespace

FuzzTarget fuzz_sound() {
  return {{wav("abcdefgh"), wav(std::string(2, '\0'), 16000), "fLaC", "RIFF"},
          {"RIFF", "WAVE", "fmt ", "data", "LIST", "fact", "fLaC", "OggS", "FORM",
           "\xFF\xFF\xFF\xFF", std::string(4, '\0'), "\x01", "\x03"},
          sound_body};
}

FuzzTarget fuzz_mfcc() {
  const std::string three("\0\0\0\3", 4);
  return {{three + std::string("\x3f\x80\0\0\x40\0\0\0\xc0\x40\0\0", 12),
           std::string("\6\0\0\0", 4) + std::string(24, '\1'), std::string(4, '\0'), "x"},
          {std::string(4, '\0'), std::string("\0\0\0\6", 4), "\x7f\x80", "\xff\xff\xff\xff",
           std::string(12, '\1')},
          mfcc_body};
}

FuzzTarget fuzz_cifar() {
  return {{std::string(3073, '\1'), std::string(2 * 3073, '\3'), std::string(3072, '\0'),
           "\x1f\x8b\x08"},
          {"\x1f\x8b", std::string(1, '\xFF'), std::string(3073, '\2')},
          cifar_body};
}

}  // namespace pal
