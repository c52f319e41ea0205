// Reads and writes safetensors files.
#include "train/run_files/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/error.h"
#include "data/atomic_file.h"
#include "train/config/wording.h"

namespace pal {
namespace {

using nlohmann::json;
static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr uint64_t kMostHeaderBytes = 100'000'000;  // the limit of the reference implementation
constexpr uint64_t kMostElements = std::numeric_limits<int64_t>::max();
constexpr const char* kMetadata = "__metadata__";
constexpr const char* kChecksums = "crc32";
constexpr const char* kHeaderChecksum = "crc32_header";
constexpr size_t kPiece = size_t{1} << 22;  // bytes that are read at once

// Eight hexadecimal digits, whatever the value: a header's length does not depend on it.
std::string digits(uLong checksum) {
  std::string out(8, '0');
  for (size_t i = out.size(); i-- > 0; checksum >>= 4) out[i] = "0123456789abcdef"[checksum & 15];
  return out;
}

std::string checksum_of(std::string_view bytes) {
  return digits(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// Bytes an element, or 0 for a dtype that we do not read.
size_t element_bytes(std::string_view dtype) {
  if (dtype == "I64") return 8;
  if (dtype == "F32" || dtype == "I32") return 4;
  if (dtype == "F16" || dtype == "BF16") return 2;
  return dtype == "U8" ? 1 : 0;
}

// Bytes of such a tensor; false when a dimension is negative or the product overflows.
bool tensor_bytes(std::span<const int64_t> shape, size_t element, uint64_t& bytes) {
  bytes = element;
  bool fits = true;
  for (const int64_t dim : shape) {
    if (dim < 0) return false;
    uint64_t product = 0;
    fits = !__builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &product) && fits;
    bytes = product;
  }
  return fits && bytes <= kMostElements;
}

std::string in_quotes(const std::string& name) { return "'" + name + "'"; }

void check_to_save(std::span<const TensorView> tensors) {
  std::set<std::string_view> names;
  for (const TensorView& each : tensors) {
    const auto fail = [&](const std::string& what) {
      throw ProgramError("[save] tensor " + in_quotes(each.name) + " " + what);
    };
    if (each.name == kMetadata) fail("has the name that the format keeps for itself");
    if (!names.insert(each.name).second) fail("is given twice");
    const size_t element = element_bytes(each.dtype);
    if (element == 0) fail("has dtype " + each.dtype + ", which cannot be saved");
    uint64_t bytes = 0;
    if (!tensor_bytes(each.shape, element, bytes) || bytes != each.bytes) {
      fail("has " + std::to_string(each.bytes) + " bytes, which do not match its shape");
    }
  }
}

// A header entry as the file has it; offsets count from the first byte after the header.
struct HeaderEntry {
  std::string name, dtype;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;
};

// Turns a header into entries, refusing whatever the format forbids.
class HeaderReader {
 public:
  explicit HeaderReader(const std::string& path) : path_(path) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw UsageError("[safetensors] " + path_ + ": " + what +
                     "; the file is damaged or of another kind: give another one");
  }

  json parse(std::string_view text) const {
    // nlohmann keeps the last of two equal keys; the format forbids them, and so do we.
    std::vector<std::set<std::string>> keys;
    const auto watch = [&](int, json::parse_event_t event, json& parsed) {
      if (event == json::parse_event_t::object_start) keys.emplace_back();
      if (event == json::parse_event_t::object_end) keys.pop_back();
      if (event == json::parse_event_t::key) {
        const auto& key = parsed.get_ref<const std::string&>();
        if (!keys.back().insert(key).second) fail("the header names " + in_quotes(key) + " twice");
      }
      return true;
    };
    if (text.empty() || text[0] != '{') fail("the header does not begin with '{'");
    // nlohmann takes it for the end.
    if (text.find('\0') != std::string_view::npos)
      fail("the header is not valid JSON (a zero byte)");
    json header;
    try {
      header = json::parse(text.begin(), text.end(), watch);
    } catch (const json::exception& error) {
      fail(std::string("the header is not valid JSON (") + one_line(error.what()).substr(0, 200) +
           ")");
    }
    return header;
  }

  std::map<std::string, std::string> metadata(const json& value) const {
    std::map<std::string, std::string> map;
    if (!value.is_object()) fail("__metadata__ is not an object");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) fail("__metadata__ " + in_quotes(key) + " is not a string");
      map.emplace(key, text.get<std::string>());
    }
    return map;
  }

  // Takes the checksums out of the metadata, and holds the header's against `header`.
  std::map<std::string, std::string> checksums(json header,
                                               std::map<std::string, std::string>& metadata) const {
    const auto own = metadata.extract(kHeaderChecksum), tensors = metadata.extract(kChecksums);
    if (own.empty() && tensors.empty()) return {};
    if (own.empty() || tensors.empty()) fail("one of its two kinds of checksums is missing");
    header[kMetadata].erase(kHeaderChecksum);
    if (checksum_of(header.dump()) != own.mapped())
      fail("the header is not the one that was saved");
    const json sums = parse(tensors.mapped());
    for (const auto& [name, value] : header.items()) {
      if (name != kMetadata && !sums.contains(name)) {
        fail("tensor " + in_quotes(name) + " has no checksum");
      }
    }
    std::map<std::string, std::string> out;
    for (const auto& [name, value] : sums.items()) {
      if (!value.is_string()) fail("the checksum of " + in_quotes(name) + " is not a string");
      out.emplace(name, value.get<std::string>());
    }
    return out;
  }

  HeaderEntry entry(const std::string& name, const json& value) const {
    const auto bad = [&](const std::string& what) {
      fail("tensor " + in_quotes(name) + " " + what);
    };
    if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
        !value.contains("shape") || !value.contains("data_offsets")) {
      bad("has not exactly dtype, shape and data_offsets");
    }
    const json& dtype = value["dtype"];
    const json& shape = value["shape"];
    const json& offsets = value["data_offsets"];
    if (!dtype.is_string()) bad("has a dtype that is not a string");
    HeaderEntry entry{name, dtype.get<std::string>(), {}, 0, 0};
    const size_t element = element_bytes(entry.dtype);
    if (element == 0) bad("has the unsupported dtype " + in_quotes(entry.dtype));
    if (!shape.is_array()) bad("has a shape that is not a list");
    for (const json& dim : shape) {
      const uint64_t size = dim.is_number_unsigned() ? dim.get<uint64_t>() : ~uint64_t{0};
      if (size > kMostElements) bad("has an impossible dimension");
      entry.shape.push_back(static_cast<int64_t>(size));
    }
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned()) {
      bad("has data_offsets that are not two offsets");
    }
    entry.begin = offsets[0].get<uint64_t>();
    entry.end = offsets[1].get<uint64_t>();
    uint64_t bytes = 0;
    if (!tensor_bytes(entry.shape, element, bytes)) bad("has a shape whose size overflows");
    if (entry.end < entry.begin || entry.end - entry.begin != bytes) {
      bad("has offsets that do not span the " + std::to_string(bytes) + " bytes of its shape");
    }
    return entry;
  }

  // The tensors must cover the data exactly: no gap, no overlap, nothing beyond.
  void check_cover(std::vector<HeaderEntry> entries, uint64_t data_bytes) const {
    std::sort(entries.begin(), entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    uint64_t at = 0;
    for (const HeaderEntry& each : entries) {
      if (each.begin < at) fail("tensor " + in_quotes(each.name) + " overlaps another");
      if (each.begin > at) fail("there is a gap before tensor " + in_quotes(each.name));
      at = each.end;
    }
    if (at > data_bytes) {
      fail("it is truncated: the tensors need " + std::to_string(at) + " bytes, and " +
           std::to_string(data_bytes) + " are there");
    }
    if (at < data_bytes) fail("it has " + std::to_string(data_bytes - at) + " bytes too many");
  }

 private:
  const std::string& path_;
};

[[noreturn]] void fail_to_open(const std::string& path, const std::string& why) {
  throw UsageError("[safetensors] " + path + ": " + why + "; give the path of a safetensors file");
}

}  // namespace

void save_safetensors(const std::string& path, std::span<const TensorView> tensors,
                      const std::map<std::string, std::string>& metadata) {
  save_safetensors(path, tensors, metadata, [](const TensorView& each, const WriteBytes& write) {
    write(each.data, each.bytes);
  });
}

void save_safetensors(const std::string& path, std::span<const TensorView> tensors,
                      const std::map<std::string, std::string>& metadata,
                      const std::function<void(const TensorView&, const WriteBytes&)>& make) {
  check_to_save(tensors);
  for (const char* kept : {kChecksums, kHeaderChecksum}) {
    if (metadata.contains(kept)) {
      throw ProgramError("[save] " + path + ": metadata cannot be named " + in_quotes(kept));
    }
  }
  // Large elements first, so that every tensor is aligned to its element without gaps.
  std::vector<const TensorView*> order;
  for (const TensorView& each : tensors) order.push_back(&each);
  std::sort(order.begin(), order.end(), [](const TensorView* a, const TensorView* b) {
    const size_t x = element_bytes(a->dtype), y = element_bytes(b->dtype);
    return x != y ? x > y : a->name < b->name;
  });
  json header = json::object();  // sorted by name
  header[kMetadata] = metadata;
  uint64_t at = 0;
  json checksums = json::object();
  for (const TensorView* each : order) {
    header[each->name] = {
        {"dtype", each->dtype}, {"shape", each->shape}, {"data_offsets", {at, at + each->bytes}}};
    at += each->bytes;
    checksums[each->name] = digits(0);
  }
  // The header stands before the bytes that it has the checksums of: it is written twice.
  const auto header_text = [&] {
    json whole = header;
    whole[kMetadata][kChecksums] = checksums.dump();
    const std::string own = checksum_of(whole.dump());
    whole[kMetadata][kHeaderChecksum] = own;
    std::string text = whole.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begin at a multiple of 8
    return text;
  };
  std::string text;
  try {
    text = header_text();
  } catch (const json::exception&) {
    throw ProgramError("[save] " + path + ": a name or a metadata text is not valid UTF-8");
  }
  const uint64_t header_bytes = text.size();
  AtomicFile file(path);
  file.write(&header_bytes, sizeof header_bytes);
  file.write(text.data(), text.size());
  for (const TensorView* each : order) {
    size_t written = 0;
    uLong checksum = 0;
    make(*each, [&](const void* data, size_t bytes) {
      file.write(data, bytes);
      checksum = crc32_z(checksum, static_cast<const Bytef*>(data), bytes);
      written += bytes;
    });
    if (written != each->bytes) {
      throw ProgramError("[save] tensor " + in_quotes(each->name) + " was given " +
                         std::to_string(written) + " bytes of " + std::to_string(each->bytes));
    }
    checksums[each->name] = digits(checksum);
  }
  text = header_text();
  file.write_again(sizeof header_bytes, text.data(), text.size());
  file.commit();
}

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail_to_open(path, errno == ENOENT ? "no such file" : std::strerror(errno));
  SafetensorsFile file;
  file.path_ = path;
  struct stat info = {};
  const bool regular = ::fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode);
  const uint64_t size = regular ? static_cast<uint64_t>(info.st_size) : 0;
  if (size >= 8) {
    void* map = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (map != MAP_FAILED) {
      file.map_ = map;
      file.map_bytes_ = size;
    }
  }
  const int error = errno;
  ::close(descriptor);
  if (!regular) fail_to_open(path, "is not a regular file");
  const HeaderReader reader(path);
  if (size < 8) reader.fail("it is truncated: " + std::to_string(size) + " bytes, no header");
  if (file.map_ == nullptr) fail_to_open(path, std::strerror(error));

  const char* bytes = static_cast<const char*>(file.map_);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes, sizeof header_bytes);
  if (header_bytes > kMostHeaderBytes) reader.fail("the header is longer than 100 MB");
  if (header_bytes > size - 8) reader.fail("it is truncated: the header goes beyond the end");
  const json header = reader.parse({bytes + 8, header_bytes});
  std::vector<HeaderEntry> entries;
  for (const auto& [name, value] : header.items()) {  // sorted by name
    if (name == kMetadata) {
      file.metadata_ = reader.metadata(value);
    } else {
      entries.push_back(reader.entry(name, value));
    }
  }
  file.checksums_ = reader.checksums(header, file.metadata_);
  reader.check_cover(entries, size - 8 - header_bytes);
  const char* data = bytes + 8 + header_bytes;
  for (const HeaderEntry& each : entries) {
    const char* place = data + each.begin;
    if (reinterpret_cast<uintptr_t>(place) % element_bytes(each.dtype) != 0) {
      reader.fail("tensor " + in_quotes(each.name) + " is not aligned to its elements");
    }
    file.tensors_.push_back({each.name, each.dtype, each.shape, place, each.end - each.begin});
  }
  return file;
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept { *this = std::move(other); }

SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&& other) noexcept {
  path_.swap(other.path_);
  std::swap(map_, other.map_);
  std::swap(map_bytes_, other.map_bytes_);
  metadata_.swap(other.metadata_);
  checksums_.swap(other.checksums_);
  tensors_.swap(other.tensors_);
  return *this;
}

SafetensorsFile::~SafetensorsFile() {
  if (map_ != nullptr) ::munmap(map_, map_bytes_);
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  const auto at = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const TensorView& each, std::string_view wanted) { return each.name < wanted; });
  return at == tensors_.end() || at->name != name ? nullptr : &*at;
}

void SafetensorsFile::read(const TensorView& tensor, size_t first, size_t bytes, void* to) const {
  constexpr size_t kPage = 4096;
  const char* from = static_cast<const char*>(tensor.data) + first;
  char* out = static_cast<char*>(to);
  for (size_t at = 0; at < bytes; at += kPiece) {
    const size_t piece = std::min(kPiece, bytes - at);
    std::memcpy(out + at, from + at, piece);
    // The pages can be read again from the file, so that they may be dropped at any time.
    const uintptr_t begin = reinterpret_cast<uintptr_t>(from + at) / kPage * kPage;
    const uintptr_t end = reinterpret_cast<uintptr_t>(from + at + piece) / kPage * kPage;
    if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
}

std::string SafetensorsFile::check(const TensorView& tensor) const {
  std::vector<Bytef> piece(std::min(kPiece, tensor.bytes));
  uLong checksum = 0;
  for (size_t at = 0; at < tensor.bytes; at += piece.size()) {
    const size_t bytes = std::min(piece.size(), tensor.bytes - at);
    read(tensor, at, bytes, piece.data());
    checksum = crc32_z(checksum, piece.data(), bytes);
  }
  std::string found = digits(checksum);
  const auto saved = checksums_.find(tensor.name);
  if (saved == checksums_.end() || found == saved->second) return found;
  HeaderReader(path_).fail("the bytes of tensor " + in_quotes(tensor.name) +
                           " are not those that were saved");
}

}  // namespace pal
