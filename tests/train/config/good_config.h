// A configuration with an option of every type, and what is said of one that is wrong.
#pragma once
#include <string>
#include <vector>

#include "tests/support/files.h"
#include "train/config/config.h"

namespace pal {

inline constexpr const char* kGood =
    "model:\n"                 // 1
    "  type: nmt\n"            // 2
    "  hidden: 64\n"           // 3
    "data:\n"                  // 4
    "  source_lang: \"no\"\n"  // 5
    "train:\n"                 // 6
    "  max_epochs: 2\n"        // 7
    "  lr: 1e-3\n"             // 8
    "memory:\n"                // 9
    "  budget: 1.5 GB\n"       // 10
    "  encode: []\n"           // 11
    "device:\n"                // 12
    "  threads: 2\n";          // 13

// What the UsageError says; empty when there is none.
inline std::string error_of(const std::string& text, const std::vector<Override>& overrides = {}) {
  return usage_error_of([&] { parse_config(text, "c.yaml", overrides); });
}

}  // namespace pal
