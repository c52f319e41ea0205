// Event files, read back by a decoder written from the formats' descriptions and nothing of the
// writer's: frames and their checksums bit by bit, protocol buffers field by field.
#include "train/run_files/tensorboard.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "core/error.h"
#include "tests/support/files.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

// CRC-32C one bit at a time: division by the polynomial, no table.
uint32_t slow_crc(const std::string& bytes) {
  uint32_t crc = 0xffffffffu;
  for (unsigned char byte : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const uint32_t low = (crc ^ uint32_t(byte >> bit)) & 1u;
      crc = (crc >> 1) ^ (low ? 0x82f63b78u : 0u);
    }
  }
  return crc ^ 0xffffffffu;
}
uint32_t unmasked(uint32_t masked) {
  const uint32_t rotated = masked - 0xa282ead8u;
  return rotated >> 17 | rotated << 15;
}

template <class T> T take(const std::string& text, size_t& at) {
  if (at + sizeof(T) > text.size()) throw std::runtime_error("short");
  T value;
  std::memcpy(&value, text.data() + at, sizeof(T));
  at += sizeof(T);
  return value;
}

// The events of a file: payloads of frames whose checksums hold.
std::vector<std::string> frames(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream stream;
  stream << in.rdbuf();
  const std::string text = stream.str();
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const std::string head = text.substr(at, 8);
    const auto length = take<uint64_t>(text, at);
    EXPECT_EQ(unmasked(take<uint32_t>(text, at)), slow_crc(head));
    out.push_back(text.substr(at, length));
    at += length;
    EXPECT_EQ(unmasked(take<uint32_t>(text, at)), slow_crc(out.back()));
  }
  return out;
}

// field number -> values; fixed and varint values as 64 bits, others as text.
struct Fields {
  std::map<int, std::vector<uint64_t>> numbers;
  std::map<int, std::vector<std::string>> texts;
};
uint64_t read_varint(const std::string& text, size_t& at) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = take<uint8_t>(text, at);
    value |= uint64_t(byte & 127) << shift;
    if (byte < 128) return value;
  }
}
Fields fields(const std::string& text) {
  Fields out;
  for (size_t at = 0; at < text.size();) {
    const uint64_t key = read_varint(text, at);
    const int number = int(key >> 3);
    switch (key & 7) {
      case 0: out.numbers[number].push_back(read_varint(text, at)); break;
      case 1: out.numbers[number].push_back(take<uint64_t>(text, at)); break;
      case 5: out.numbers[number].push_back(take<uint32_t>(text, at)); break;
      case 2: {
        const uint64_t length = read_varint(text, at);
        if (at + length > text.size()) throw std::runtime_error("short");
        out.texts[number].push_back(text.substr(at, length));
        at += length;
        break;
      }
      default: throw std::runtime_error("wire type");
    }
  }
  return out;
}
std::map<std::string, float> scalars(const std::string& event) {
  std::map<std::string, float> out;
  const Fields summary = fields(fields(event).texts.at(5).at(0));
  for (const std::string& value : summary.texts.at(1)) {
    const Fields one = fields(value);
    const auto bits = uint32_t(one.numbers.at(2).at(0));
    float number;
    std::memcpy(&number, &bits, sizeof number);
    out[one.texts.at(1).at(0)] = number;
  }
  return out;
}

class Events : public testing::Test {
 protected:
  const TemporaryFolder folder_;
  const fs::path dir_ = folder_.path();
};

TEST_F(Events, TheChecksumIsCastagnolis) {
  // RFC 3720, B.4, and the classic check value.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST_F(Events, AnIndependentDecoderReadsThemBack) {
  EventWriter writer(dir_, 0);
  writer.write(StepRow{.step = 300,
                       .epoch = 1.5,
                       .loss = 2.25,
                       .lr = 3e-4,
                       .grad_norm = 0.5,
                       .samples_per_s = 10,
                       .tokens_per_s = 5120,
                       .step_ms = 12.5,
                       .arena_bytes = 1 << 20,
                       .peak_bytes = 1 << 19});
  writer.write(ValidRow{.step = 300, .epoch = 1.5, .loss = 3.5, .metrics = {{"bleu", 33.125}}});
  const auto events = frames(writer.path());  // read while it is open: every row is flushed
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(fields(events[0]).texts.at(3).at(0), "brain.Event:2");
  EXPECT_EQ(fields(fields(events[1]).texts.at(7).at(0)).numbers.at(1).at(0), 1u);  // START
  EXPECT_EQ(fields(events[2]).numbers.at(2).at(0), 300u);
  double wall;
  std::memcpy(&wall, &fields(events[2]).numbers.at(1).at(0), sizeof wall);
  EXPECT_GT(wall, 1.6e9);
  const auto step = scalars(events[2]);
  EXPECT_EQ(step.at("train/loss"), 2.25f);
  EXPECT_EQ(step.at("train/lr"), 3e-4f);
  EXPECT_EQ(step.at("train/grad_norm"), 0.5f);
  EXPECT_EQ(step.at("speed/tokens_per_s"), 5120.0f);
  EXPECT_EQ(step.at("memory/arena_bytes"), 1048576.0f);
  EXPECT_EQ(scalars(events[3]),
            (std::map<std::string, float>{{"valid/loss", 3.5f}, {"valid/bleu", 33.125f}}));
}

TEST_F(Events, AResumedRunStartsAFileThatReplacesWhatIsBeyondItsStep) {
  EventWriter first(dir_, 0), second(dir_, 40);
  EXPECT_NE(first.path(), second.path());
  EXPECT_NE(second.path().filename().string().find("tfevents"), std::string::npos);
  EXPECT_EQ(fields(frames(second.path()).at(1)).numbers.at(2).at(0), 41u);
}

TEST_F(Events, AFileThatCannotBeWrittenIsNamed) {
  try {
    EventWriter writer(dir_ / "absent", 0);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("events.out.tfevents"), std::string::npos);
    EXPECT_EQ(error.exit_code, kExitFailed);
  }
}

}  // namespace
}  // namespace pal
