// Which buffers that end may give way to which that begin, where no byte may be left free.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace pal {

// Of at most kMost buffers, by number.
using BufferSet = uint64_t;
constexpr size_t kMostInSet = 64;

// Equal sums.
struct Exchange {
  BufferSet out, in;
};

// Exchanges without a smaller one among them, those of few buffers first. With fine sizes there are
// few; beyond some number the others are left out. `alike`: by buffer that begins, whether it is
// like the one before it, so that of such only the first are taken.
std::vector<Exchange> find_exchanges(std::span<const int64_t> out, std::span<const int64_t> in,
                                     const std::vector<char>& alike);

}  // namespace pal
