// Event files byte by byte. The messages, with their fields' numbers, are TensorFlow's
// core/util/event.proto and core/framework/summary.proto:
//   Event { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5;
//           SessionLog session_log = 7; }
//   Summary { repeated Value value = 1; }     Value { string tag = 1; float simple_value = 2; }
//   SessionLog { SessionStatus status = 1; }  with START = 1
#include "train/run_files/tensorboard.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>

#include "train/config/wording.h"

namespace pal {
namespace {

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = c & 1 ? c >> 1 ^ 0x82F63B78u : c >> 1;
    table[i] = c;
  }
  return table;
}

// Little-endian, whatever the machine is.
template <class T> void put_fixed(std::string& out, T bits) {
  for (size_t i = 0; i < sizeof(T); ++i) out += char(uint8_t(bits >> (8 * i)));
}

void put_varint(std::string& out, uint64_t v) {
  for (; v >= 0x80; v >>= 7) out += char(uint8_t(v | 0x80));
  out += char(uint8_t(v));
}

enum Wire : uint32_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
void put_key(std::string& out, uint32_t field, Wire wire) { put_varint(out, field << 3 | wire); }
void put_bytes(std::string& out, uint32_t field, std::string_view value) {
  put_key(out, field, Wire::bytes);
  put_varint(out, value.size());
  out += value;
}
void put_float(std::string& out, uint32_t field, float value) {
  put_key(out, field, Wire::fixed32);
  put_fixed(out, std::bit_cast<uint32_t>(value));
}

// An event's first fields; the caller appends what it is about.
std::string begin_event(int64_t step) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  std::string event;
  put_key(event, 1, Wire::fixed64);
  put_fixed(event, std::bit_cast<uint64_t>(now.count()));
  put_key(event, 2, Wire::varint);
  put_varint(event, uint64_t(step));
  return event;
}

// A CRC that is stored beside what it covers would be weak if that holds CRCs itself (LevelDB's
// log format, which TFRecord took over).
uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

// A name that no file of the folder has. TensorBoard reads the files in the order of their names.
std::filesystem::path new_name(const std::filesystem::path& folder) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  for (int n = 0;; ++n) {
    const std::string name =
        printed("events.out.tfevents.%010lld.%lld.%d", static_cast<long long>(seconds),
                static_cast<long long>(getpid()), n);
    if (!std::filesystem::exists(folder / name)) return folder / name;
  }
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> table = crc_table();
  uint32_t crc = ~0u;
  for (char c : bytes) crc = crc >> 8 ^ table[(crc ^ uint8_t(c)) & 0xff];
  return ~crc;
}

EventWriter::EventWriter(const std::filesystem::path& folder, int64_t step)
    : path_(new_name(folder)), file_(path_, AppendFile::Begin::anew) {
  std::string version = begin_event(0);
  put_bytes(version, 3, "brain.Event:2");
  append(version);
  std::string start;
  put_key(start, 1, Wire::varint);
  put_varint(start, 1);
  std::string session = begin_event(step + 1);  // events of that step and later ones are forgotten
  put_bytes(session, 7, start);
  append(session);
}

void EventWriter::append(const std::string& event) {
  std::string length, frame;
  put_fixed(length, uint64_t(event.size()));
  frame = length;
  put_fixed(frame, masked_crc(length));
  frame += event;
  put_fixed(frame, masked_crc(event));
  file_.append(frame);
}

void EventWriter::scalars(int64_t step, const std::vector<std::pair<std::string, double>>& values) {
  std::string summary;
  for (const auto& [tag, value] : values) {
    std::string one;
    put_bytes(one, 1, tag);
    put_float(one, 2, float(value));
    put_bytes(summary, 1, one);
  }
  std::string event = begin_event(step);
  put_bytes(event, 5, summary);
  append(event);
}

void EventWriter::write(const StepRow& r) {
  scalars(r.step, {{"train/loss", r.loss},
                   {"train/lr", r.lr},
                   {"train/grad_norm", r.grad_norm},
                   {"train/epoch", r.epoch},
                   {"speed/samples_per_s", r.samples_per_s},
                   {"speed/tokens_per_s", r.tokens_per_s},
                   {"speed/step_ms", r.step_ms},
                   {"memory/arena_bytes", double(r.arena_bytes)},
                   {"memory/peak_bytes", double(r.peak_bytes)}});
}

void EventWriter::write(const ValidRow& r) {
  std::vector<std::pair<std::string, double>> values{{"valid/loss", r.loss}};
  for (const auto& [name, value] : r.metrics) values.emplace_back("valid/" + name, value);
  scalars(r.step, values);
}

}  // namespace pal
