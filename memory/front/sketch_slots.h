// The clones of a sketch (memory/front/sketch.h), by the node that they run before.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/ids.h"

namespace pal {

class SketchSlots {
 public:
  explicit SketchSlots(size_t positions) : clones_(positions), has_(positions, 0) {}

  bool any(size_t position) const { return has_[position] != 0; }
  // In the order of the nodes that they are of.
  const std::vector<NodeId>& operator[](size_t position) const { return clones_[position]; }

  void insert(size_t position, NodeId n) {
    std::vector<NodeId>& here = clones_[position];
    here.insert(std::lower_bound(here.begin(), here.end(), n), n);
    has_[position] = 1;
  }
  void erase(size_t position, NodeId n) {
    std::vector<NodeId>& here = clones_[position];
    here.erase(std::lower_bound(here.begin(), here.end(), n));
    has_[position] = !here.empty();
  }

 private:
  std::vector<std::vector<NodeId>> clones_;
  std::vector<char> has_;
};

}  // namespace pal
