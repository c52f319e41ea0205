// One fuzz target under libFuzzer. PAL_FUZZ_TARGET names it: fuzz_config, fuzz_text, ... An empty
// corpus folder on the command line is given the target's seeds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/fuzz/fuzz.h"

namespace {

const pal::FuzzTarget& target() {
  static const pal::FuzzTarget made = pal::PAL_FUZZ_TARGET();
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  namespace fs = std::filesystem;
  for (int i = 1; i < *argc; ++i) {
    const fs::path folder = (*argv)[i];
    if (!fs::is_directory(folder) || !fs::is_empty(folder)) continue;
    int number = 0;
    for (const std::string& seed : target().seeds) {
      std::ofstream(folder / ("seed" + std::to_string(number++)), std::ios::binary) << seed;
    }
    break;  // the first folder is the corpus; others are only read
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  target().body({reinterpret_cast<const char*>(data), size});
  return 0;
}
