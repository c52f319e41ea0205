// Work without an order that the ranks of a run deal out: the batches of a validation. Each does
// its own, then all have what came of all, so that what is added up is so in the items' order.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/ranks/group.h"

namespace pal {

// What complete() throws, on all ranks, where one of them was told to stop.
struct Interrupted : Error {
  Interrupted() : Error(kExitInterrupted, "interrupted") {}
};

class Dealt {
 public:
  // All of it is done here.
  Dealt() = default;
  // `stop`: asked before each item, null: never; once it says so, no other item is begun here.
  explicit Dealt(std::shared_ptr<Group> group, std::function<bool()> stop = {})
      : group_(std::move(group)), stop_(std::move(stop)) {}

  int64_t first() const { return group_ ? group_->rank() : 0; }
  int64_t stride() const { return group_ ? group_->size() : 1; }
  // Whether item number i is this rank's, and to be done.
  bool owns(int64_t i) const {
    if (i % stride() != first()) return false;
    stopped_ = stopped_ || (stop_ && stop_());
    return !stopped_;
  }

  // What came of each item: from its owner, on every rank. All ranks call it for as many.
  template <class T> void complete(std::vector<T>& items) const {
    static_assert(std::is_trivially_copyable_v<T>);
    check_stopped();
    if (!group_) return;
    std::vector<T> all(items.size() * size_t(stride()));
    group_->share(items.data(), all.data(), int64_t(items.size() * sizeof(T)));
    for (size_t i = 0; i < items.size(); ++i) {
      items[i] = all[(i % size_t(stride())) * items.size() + i];
    }
  }
  // Texts of which one rank has each, and the others have nothing in its place.
  void complete(std::vector<std::string>& texts) const;
  // Of what each rank has counted.
  int64_t total(int64_t own) const;

 private:
  void check_stopped() const;

  std::shared_ptr<Group> group_;
  std::function<bool()> stop_;
  mutable bool stopped_ = false;
};

}  // namespace pal
