// The safetensors format: 8 bytes of header length (little-endian), a JSON header, then the
// tensors' bytes without gaps. https://github.com/huggingface/safetensors
//
// What we save carries checksums in its metadata, where other readers pass them over: `crc32` is a
// JSON object of the CRC-32 (zlib's) of each tensor's bytes, in eight hexadecimal digits, and
// `crc32_header` the one of the header without itself (its JSON as we write it). A file without
// them is read as it is.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pal {

// A tensor in memory or in a file; the bytes belong to someone else.
struct TensorView {
  std::string name;
  std::string dtype;           // F32, F16, BF16, I32, I64, U8
  std::vector<int64_t> shape;  // row-major; empty for a scalar
  const void* data = nullptr;
  size_t bytes = 0;
};

// Writes all tensors to `path`, which is replaced as a whole or stays as it was (see AtomicFile).
// The bytes are written from where they lie. Equal input makes an equal file. ProgramError: a
// name twice (or __metadata__), an unknown dtype, bytes that do not match the shape, metadata with
// a name of the checksums'. Error with kExitFailed: the file cannot be written, for instance on a
// full disk.
void save_safetensors(const std::string& path, std::span<const TensorView> tensors,
                      const std::map<std::string, std::string>& metadata = {});
// Likewise of tensors that are in no memory as a whole: `make` is called for each, and hands its
// bytes in order to the function that it is given, in as many pieces as it likes.
using WriteBytes = std::function<void(const void* data, size_t bytes)>;
void save_safetensors(const std::string& path, std::span<const TensorView> tensors,
                      const std::map<std::string, std::string>& metadata,
                      const std::function<void(const TensorView&, const WriteBytes&)>& make);

// A file opened for reading, mapped into memory: the views' data stay valid, aligned to their
// element's size, while it lives. Everything about the header is checked on opening; the tensors'
// bytes by check().
class SafetensorsFile {
 public:
  // UsageError names the file and what is wrong: missing, truncated, foreign, inconsistent, or a
  // header that is not the one that was saved.
  static SafetensorsFile open(const std::string& path);

  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&& other) noexcept;
  ~SafetensorsFile();

  // Without the checksums.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  std::span<const TensorView> tensors() const { return tensors_; }  // sorted by name
  const TensorView* find(std::string_view name) const;              // nullptr when absent
  // Copies `bytes` of a tensor, from its byte `first` on. Unlike the views' data it leaves nothing
  // of the file in the process's memory.
  void read(const TensorView& tensor, size_t first, size_t bytes, void* to) const;
  // UsageError names the tensor whose bytes are not those that were saved. Reads all of it, like
  // read(), and returns its checksum. A file without checksums has nothing to check.
  std::string check(const TensorView& tensor) const;

 private:
  SafetensorsFile() = default;

  std::string path_;
  void* map_ = nullptr;
  size_t map_bytes_ = 0;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, std::string> checksums_;  // by tensor; empty without
  std::vector<TensorView> tensors_;
};

}  // namespace pal
