// Short lists, one for each id of a kind, one after the other in one flat array.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.h"

namespace pal {

template <class I, class T> class Lists {
 public:
  Lists() = default;
  explicit Lists(const Indexed<I, std::vector<T>>& lists) {
    size_t total = 0;
    for (auto& list : lists) total += list.size();
    items_.reserve(total), begin_.reserve(lists.size() + 1);
    for (auto& list : lists) {
      items_.insert(items_.end(), list.begin(), list.end());
      begin_.push_back(int32_t(items_.size()));
    }
  }

  std::span<const T> operator[](I id) const {
    return {items_.data() + begin_[id], items_.data() + begin_[id + 1]};
  }
  size_t size() const { return begin_.size() - 1; }  // lists
  size_t items() const { return items_.size(); }

 private:
  Indexed<I, int32_t> begin_{0};  // into items_
  std::vector<T> items_;
};

}  // namespace pal
