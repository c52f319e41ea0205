// Any bytes as a checkpoint: refused in one line that names the file, or tensors whose every byte
// is there.
#include <cstring>

#include "tests/fuzz/fuzz.h"
#include "train/run_files/safetensors.h"

namespace pal {
namespace {

bool body(std::string_view bytes) {
  const MemoryFile memory(bytes);
  return accepts(memory.path(), [&] {
    const SafetensorsFile file = SafetensorsFile::open(memory.path());
    size_t total = 0, sum = 0;
    for (const TensorView& tensor : file.tensors()) {
      require(file.find(tensor.name) == &tensor, "a tensor is found by its name");
      for (const int64_t side : tensor.shape) require(side >= 0, "no negative side");
      const auto* byte = static_cast<const unsigned char*>(tensor.data);
      for (size_t i = 0; i < tensor.bytes; ++i) sum += byte[i];
      file.check(tensor);
      total += tensor.bytes;
    }
    require(total <= bytes.size() && sum <= 255 * total, "the bytes are those of the file");
  });
}

std::string file_of(std::string header, size_t data) {
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data, 'x');
}

}  // namespace

FuzzTarget fuzz_safetensors() {
  return {{file_of(R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", 24),
           file_of(R"({"__metadata__":{"step":"3"},"a":{"dtype":"I64","shape":[1],)"
                   R"("data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[],"data_offsets":[8,10]},)"
                   R"("c":{"dtype":"U8","shape":[0,5],"data_offsets":[10,10]}})",
                   10),
           file_of(R"({"__metadata__":{"crc32":"{\"a\":\"8cdc1683\"}","crc32_header":"00000000"},)"
                   R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                   1),
           file_of("{}", 0), std::string(7, 'x')},
          json_scraps({"\"", "1e3", "\"dtype\"", "\"shape\"", "\"data_offsets\"", "\"F32\"",
                       "\"F16\"", "[4294967296,4294967296]", "\xFF", std::string(8, '\0')}),
          body};
}

}  // namespace pal
