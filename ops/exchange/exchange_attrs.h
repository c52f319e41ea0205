// Who exchanges, as the attributes of the operators say it.
#pragma once
#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

#include "core/attrs.h"
#include "core/spec.h"

namespace pal {

struct RanksAttrs {
  int64_t ranks = 1;
  auto fields() const { return std::tuple{field("ranks", ranks)}; }
};
// Between whom: all, or with `per_node` ranks on every machine those of a machine (inside), or
// those that have the same number on theirs (between).
enum class Level : uint8_t { all, inside, between };
constexpr auto names(Level) { return std::array{"all", "inside", "between"}; }
struct AllToAllAttrs {
  int64_t ranks = 1, per_node = 1;
  Level level = Level::all;
  std::vector<Shape> wholes = {};  // of what comes between: of which the operands are pieces
  auto fields() const {
    return std::tuple{field("ranks", ranks), field("per_node", per_node), field("level", level),
                      field("wholes", wholes)};
  }
};
struct GatherAttrs {
  int64_t ranks = 1;
  std::vector<Shape> wholes = {};
  auto fields() const { return std::tuple{field("ranks", ranks), field("wholes", wholes)}; }
};

}  // namespace pal
