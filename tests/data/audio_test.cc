// Sound files of every kind, good and bad; resampling.
#include "data/audio.h"

#include <gtest/gtest.h>
#include <sndfile.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numbers>

#include "core/error.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

class AudioTest : public testing::Test {
 protected:
  AudioTest()
      : dir_(fs::path(testing::TempDir()) /
             ("pal_audio_" + std::to_string(getpid()) + "_" +
              testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::create_directories(dir_);
  }
  ~AudioTest() override { fs::remove_all(dir_); }

  // A tone of 440 Hz; channel c has the amplitude 0.5 / (c + 1).
  std::string tone(const std::string& name, int rate, int channels, int format, int64_t frames) {
    SF_INFO info{};
    info.samplerate = rate, info.channels = channels, info.format = format;
    const std::string path = (dir_ / name).string();
    SNDFILE* file = sf_open(path.c_str(), SFM_WRITE, &info);
    EXPECT_NE(file, nullptr) << sf_strerror(nullptr);
    std::vector<float> samples;
    for (int64_t i = 0; i < frames; ++i) {
      for (int c = 0; c < channels; ++c) samples.push_back(sample(i, rate) / float(c + 1));
    }
    EXPECT_EQ(sf_writef_float(file, samples.data(), frames), frames);
    sf_close(file);
    return path;
  }
  static float sample(int64_t i, int rate) {
    return 0.5f * float(std::sin(2 * std::numbers::pi * 440 * double(i) / rate));
  }
  std::string error_of(const std::string& path) {
    std::string what;
    try {
      (void)read_audio(path);
    } catch (const UsageError& error) {
      what = error.what();
      EXPECT_EQ(what.find('\n'), std::string::npos) << what;
      EXPECT_TRUE(what.starts_with(path)) << what;
    }
    return what;
  }

  fs::path dir_;
};

TEST_F(AudioTest, ReadsEveryFormAsMono) {
  struct Form {
    const char* name;
    int rate, channels, format;
    float error;
  };
  for (const Form& f : {Form{"a.wav", 16000, 1, SF_FORMAT_WAV | SF_FORMAT_PCM_16, 1e-4f},
                        Form{"b.wav", 44100, 2, SF_FORMAT_WAV | SF_FORMAT_PCM_24, 1e-5f},
                        Form{"c.wav", 8000, 1, SF_FORMAT_WAV | SF_FORMAT_PCM_U8, 1e-2f},
                        Form{"d.wav", 7919, 3, SF_FORMAT_WAV | SF_FORMAT_FLOAT, 1e-6f},
                        Form{"e.flac", 16000, 1, SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 1e-4f},
                        Form{"f.wav", 8000, 1, SF_FORMAT_WAV | SF_FORMAT_ULAW, 2e-2f}}) {
    const std::string path = tone(f.name, f.rate, f.channels, f.format, 5000);
    const Audio audio = read_audio(path);
    EXPECT_EQ(inspect_audio(path).samples, 5000) << f.name;
    EXPECT_EQ(audio.rate, f.rate) << f.name;
    ASSERT_EQ(audio.samples.size(), 5000u) << f.name;
    float mean = 0;
    for (int c = 0; c < f.channels; ++c) mean += 1 / float((c + 1) * f.channels);
    for (int64_t i = 0; i < 5000; ++i) {
      ASSERT_NEAR(audio.samples[size_t(i)], sample(i, f.rate) * mean, f.error)
          << f.name << " " << i;
    }
  }
}

TEST_F(AudioTest, RefusesWhatIsNoSound) {
  EXPECT_NE(error_of((dir_ / "none.wav").string()).find("no such file"), std::string::npos);
  EXPECT_NE(error_of(dir_.string()).find("is not a file"), std::string::npos);
  std::ofstream(dir_ / "text.wav") << "this is no sound at all, whatever its name says";
  EXPECT_NE(error_of((dir_ / "text.wav").string()).find("give WAV or FLAC"), std::string::npos);
  std::ofstream(dir_ / "zero.wav");
  EXPECT_NE(error_of((dir_ / "zero.wav").string()), "");
  const std::string empty = tone("empty.wav", 8000, 1, SF_FORMAT_WAV | SF_FORMAT_PCM_16, 0);
  EXPECT_NE(error_of(empty).find("holds no sound"), std::string::npos);
}

// However a file breaks off, it is an error and no crash.
TEST_F(AudioTest, RefusesWhatIsCutShort) {
  for (const std::string& path :
       {tone("cut.wav", 8000, 1, SF_FORMAT_WAV | SF_FORMAT_PCM_16, 4000),
        tone("cut.flac", 8000, 1, SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 9000)}) {
    const auto whole = static_cast<int64_t>(fs::file_size(path));
    for (int64_t bytes = whole - 1; bytes > 0; bytes -= 1 + bytes / 7) {
      fs::resize_file(path, static_cast<uintmax_t>(bytes));
      EXPECT_NE(error_of(path), "") << path << " of " << bytes << " bytes";
    }
  }
}

TEST_F(AudioTest, SaysHowMuchIsMissing) {
  const std::string path = tone("long.wav", 8000, 1, SF_FORMAT_WAV | SF_FORMAT_PCM_16, 40'000);
  ASSERT_EQ(fs::file_size(path), 80'044u);
  fs::resize_file(path, 70'000);
  const std::string what = error_of(path);
  EXPECT_NE(what.find("is cut short: 70000 bytes of the 80044"), std::string::npos) << what;
}

// A recorder that was stopped leaves such a length at the head of the file.
TEST_F(AudioTest, ALengthThatNobodyFilledInIsNone) {
  const std::string path = tone("unfinished.wav", 8000, 1, SF_FORMAT_WAV | SF_FORMAT_PCM_16, 100);
  const auto length_says = [&](uint32_t bytes) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4);
    for (int i = 0; i < 4; ++i) file.put(char(bytes >> 8 * i));
  };
  const auto whole = static_cast<uint32_t>(fs::file_size(path)) - 8;
  for (const uint32_t bytes : {0u, whole - 1, whole, 0xFFFFFFF7u, 0xFFFFFFFFu}) {
    length_says(bytes);
    EXPECT_EQ(error_of(path), "") << bytes;
  }
  for (const uint32_t bytes : {whole + 1, 0xFFFFFFF6u}) {
    length_says(bytes);
    EXPECT_NE(error_of(path).find("is cut short"), std::string::npos) << bytes;
  }
}

// Of a file of holes, whose header alone is read.
TEST_F(AudioTest, SoundsOfTooManySamplesAreRefused) {
  const int64_t most = int64_t{1} << 28;
  for (const int64_t samples : {most, most + 2}) {
    const std::string path = tone("long.wav", 8000, 1, SF_FORMAT_WAV | SF_FORMAT_PCM_U8, 2);
    const auto head = static_cast<int64_t>(fs::file_size(path)) - 2;
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto put = [&](int64_t at, int64_t bytes) {
      file.seekp(at);
      for (int i = 0; i < 4; ++i) file.put(char(bytes >> 8 * i));
    };
    put(4, head + samples - 8), put(head - 4, samples);
    file.close();
    fs::resize_file(path, static_cast<uintmax_t>(head + samples));
    if (samples == most) {
      EXPECT_EQ(inspect_audio(path).samples, most);
    } else {
      EXPECT_NE(error_of(path).find("is too long"), std::string::npos) << error_of(path);
    }
  }
}

TEST_F(AudioTest, ChannelsAndRatesHaveBounds) {
  const auto said = [&](int rate, int channels) {
    return error_of(tone("a.wav", rate, channels, SF_FORMAT_WAV | SF_FORMAT_PCM_16, 10));
  };
  EXPECT_EQ(said(8000, 64), "");
  EXPECT_NE(said(8000, 65).find("has 65 channels"), std::string::npos);
  EXPECT_EQ(said(1000, 1), "");
  EXPECT_NE(said(999, 1).find("has 999 samples a second"), std::string::npos);
  EXPECT_EQ(said(768'000, 1), "");
  EXPECT_NE(said(768'001, 1).find("has 768001 samples a second"), std::string::npos);
}

TEST_F(AudioTest, RefusesWhatIsNoNumber) {
  const std::string path = tone("nan.wav", 8000, 1, SF_FORMAT_WAV | SF_FORMAT_FLOAT, 100);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-40, std::ios::end);
  const uint32_t nan = 0x7FC00000;
  file.write(reinterpret_cast<const char*>(&nan), 4);
  file.close();
  EXPECT_NE(error_of(path).find("no numbers"), std::string::npos);
}

// A tone keeps its pitch, loudness and phase; what the lower rate cannot hold is gone.
TEST(Resample, KeepsTonesBelowTheLowerNyquist) {
  for (const auto& [from, to] : {std::pair(8000, 16000), std::pair(44100, 16000),
                                 std::pair(16000, 8000), std::pair(7919, 8000), std::pair(9, 10)}) {
    const int64_t n = 4000;
    for (const double share : {0.1, 0.35, 0.7}) {  // of the lower rate's Nyquist
      const double frequency = share * std::min(from, to) / 2;
      std::vector<float> x;
      for (int64_t i = 0; i < n; ++i) {
        x.push_back(float(std::sin(2 * std::numbers::pi * frequency * double(i) / from)));
      }
      const std::vector<float> y = resample(x, from, to);
      ASSERT_EQ(int64_t(y.size()), resampled_length(n, from, to));
      for (size_t i = y.size() / 4; i < y.size() * 3 / 4; ++i) {
        ASSERT_NEAR(y[i], std::sin(2 * std::numbers::pi * frequency * double(i) / to), 5e-3)
            << from << " to " << to << ", " << frequency << " Hz, at " << i;
      }
    }
  }
  std::vector<float> high;
  for (int i = 0; i < 4000; ++i) high.push_back(float(std::sin(2 * std::numbers::pi * 0.4 * i)));
  const std::vector<float> down = resample(high, 16000, 8000);
  for (size_t i = 500; i < 1500; ++i) ASSERT_NEAR(down[i], 0, 5e-3);
}

TEST(Resample, OfTheSameRateIsACopy) {
  const std::vector<float> x{1, -2, 3};
  EXPECT_EQ(resample(x, 5, 5), x);
  EXPECT_EQ(resample(std::vector<float>{}, 5, 7).size(), 0u);
}

}  // namespace
}  // namespace pal
