// Where training stands, as the text that a checkpoint keeps: "epoch 3 batch 17 data 00c0ffee...",
// numbers by name and the fingerprint of the data that they count.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace pal {

std::string position_text(const std::vector<std::pair<std::string, int64_t>>& numbers,
                          uint64_t fingerprint);

// The numbers of those names, none negative. UsageError when the text is another, or when the
// fingerprint shows that `data` ("[nmt]", "the training text ...") is not what it was.
std::vector<int64_t> read_position(const std::string& text, const std::vector<std::string>& names,
                                   uint64_t fingerprint, const std::string& task,
                                   const std::string& data);

}  // namespace pal
