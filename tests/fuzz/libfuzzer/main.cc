// One fuzz target under libFuzzer. PAL_FUZZ_TARGET names it: fuzz_config, fuzz_text, ... Started
// with
// "--seeds FOLDER DICTIONARY" it only writes the target's seeds and its scraps there, for
// scripts/fuzz.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "tests/fuzz/fuzz.h"

namespace {

const pal::FuzzTarget& target() {
  static const pal::FuzzTarget made = pal::PAL_FUZZ_TARGET();
  return made;
}

void write(const std::string& folder, const std::string& dictionary) {
  int number = 0;
  for (const std::string& seed : target().seeds) {
    std::ofstream(folder + "/seed" + std::to_string(number++), std::ios::binary) << seed;
  }
  constexpr size_t kLongest = 64;  // libFuzzer's own limit of an entry
  std::ofstream out(dictionary);
  for (const std::string& scrap : target().scraps) {
    if (scrap.empty() || scrap.size() > kLongest) continue;
    out << '"';
    for (const unsigned char c : scrap) {
      char hex[8];
      std::snprintf(hex, sizeof hex, "\\x%02x", unsigned{c});
      out << hex;
    }
    out << "\"\n";
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (*argc == 4 && (*argv)[1] == std::string_view("--seeds")) {
    write((*argv)[2], (*argv)[3]);
    std::exit(0);
  }
  target();  // made before anything is measured
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  target().body({reinterpret_cast<const char*>(data), size});
  return 0;
}
