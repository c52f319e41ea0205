// The free bytes of a block of memory while buffers come and go: first fit by address.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

namespace pal {

class Gaps {
 public:
  // All of [begin, end) is free.
  explicit Gaps(int64_t begin = 0, int64_t end = INT64_MAX);

  // The lowest gap that is large enough gives its lower part; -1: there is none.
  int64_t take(int64_t size);
  void give_back(int64_t begin, int64_t end);

 private:
  using Map = std::map<int64_t, int64_t>;
  static constexpr size_t kClasses = 64;

  void add(int64_t begin, int64_t end);
  void remove(Map::iterator gap);

  Map end_;                                           // by begin
  std::array<std::set<int64_t>, kClasses> by_class_;  // where gaps of a size, within 2, begin
};

}  // namespace pal
