// Free bytes in pieces: best fit, and neighbours are one piece.
#pragma once
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>

namespace pal {

class Pieces {
 public:
  explicit Pieces(int64_t bytes = 0) : bytes_(bytes), free_(bytes) {
    if (bytes > 0) add(0, bytes);
  }

  // The smallest free piece that is large enough gives its lower part; -1: there is none. In time
  // logarithmic in the number of pieces, like give_back.
  int64_t take(int64_t bytes) {
    const auto fit = by_size_.lower_bound({bytes, 0});
    if (fit == by_size_.end()) return -1;
    const auto [size, at] = *fit;
    remove(by_place_.find(at));
    if (size > bytes) add(at + bytes, size - bytes);
    free_ -= bytes, highest_ = highest_ > at + bytes ? highest_ : at + bytes;
    return at;
  }
  // These very bytes, which are free.
  void take_at(int64_t at, int64_t bytes) {
    const auto piece = std::prev(by_place_.upper_bound(at));
    const auto [begin, size] = *piece;
    remove(piece);
    if (begin < at) add(begin, at - begin);
    if (at + bytes < begin + size) add(at + bytes, begin + size - at - bytes);
    free_ -= bytes, highest_ = highest_ > at + bytes ? highest_ : at + bytes;
  }
  void give_back(int64_t at, int64_t bytes) {
    free_ += bytes;
    const auto next = by_place_.lower_bound(at);
    if (next != by_place_.end() && next->first == at + bytes) {
      bytes += next->second;
      remove(next);
    }
    const auto after = by_place_.lower_bound(at);
    if (after != by_place_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == at) {
        at = before->first, bytes += before->second;
        remove(before);
      }
    }
    add(at, bytes);
  }

  int64_t bytes() const { return bytes_; }
  int64_t free_bytes() const { return free_; }
  int64_t largest() const { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }
  int64_t highest() const { return highest_; }  // end of all that was ever taken
  const std::map<int64_t, int64_t>& pieces() const { return by_place_; }  // free: where, how many

 private:
  void add(int64_t at, int64_t bytes) {
    by_place_[at] = bytes;
    by_size_.insert({bytes, at});
  }
  void remove(std::map<int64_t, int64_t>::iterator piece) {
    by_size_.erase({piece->second, piece->first});
    by_place_.erase(piece);
  }

  int64_t bytes_ = 0, free_ = 0, highest_ = 0;
  std::map<int64_t, int64_t> by_place_;
  std::set<std::pair<int64_t, int64_t>> by_size_;  // (bytes, where)
};

}  // namespace pal
