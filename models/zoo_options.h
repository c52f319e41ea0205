// What can be chosen of the networks of the zoo.
#pragma once
#include <cstdint>
#include <optional>

namespace pal {

struct ZooOptions {
  int64_t classes = 1000;
  double width = 1;  // factor of every layer's channels (rounded down, at least one), for tests
  std::optional<float> dropout = {};  // absent: the network's own
};

}  // namespace pal
