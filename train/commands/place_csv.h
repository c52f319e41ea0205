// Files of placement problems: id,lower,upper,size, one buffer a line, with a header.
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "memory/place/place.h"

namespace pal {

struct PlaceTable {
  std::string header;              // as it stands in the file
  std::vector<std::string> lines;  // one a buffer, likewise
  std::vector<Buffer> buffers;
};

// Columns may stand in any order among others, which are kept; a header buffer,start,end,size means
// the same. UsageError names file and line of what is missing, malformed, negative, given twice, or
// too large to add up in 64 bits.
PlaceTable read_place_csv(const std::filesystem::path& file);
PlaceTable parse_place_csv(const std::string& text, const std::string& name);  // name: for errors

// The table with one column more, named offset.
std::string place_csv(const PlaceTable& table, std::span<const int64_t> offset);

}  // namespace pal
