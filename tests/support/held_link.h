// Ranks whose exchanges take as long as a link of so many bytes and messages a second would: what
// another group does, and then a sleep.
#pragma once
#include <sys/prctl.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "core/ranks/group.h"

namespace pal::test {

class HeldLink final : public Group {
 public:
  // `rate`: bytes a second that a rank sends; `latency`: seconds a message.
  HeldLink(std::shared_ptr<Group> group, double rate, double latency)
      : group_(std::move(group)), rate_(rate), latency_(latency) {}
  // From here on it holds nobody up.
  void let_go(bool free) { free_ = free; }

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  int local_size() const override { return group_->local_size(); }
  int local_rank() const override { return group_->local_rank(); }
  int per_node() const override { return group_->per_node(); }
  int machine() const override { return group_->machine(); }
  std::string description() const override { return "held"; }
  using Group::all_to_all;
  void all_to_all(std::span<const Exchanged> tensors, const Peers& peers) override {
    group_->all_to_all(tensors, peers), wait(1, tensors);
  }
  void all_gather(std::span<const Exchanged> tensors) override {
    group_->all_gather(tensors), wait(1, tensors);
  }
  void all_reduce(std::span<const Reduced> tensors) override {
    group_->all_reduce(tensors), wait(2, tensors);
  }
  void reduce_scatter(std::span<const Reduced> tensors) override {
    group_->reduce_scatter(tensors), wait(1, tensors);
  }
  void share(const void* mine, void* all, int64_t bytes) override {
    group_->share(mine, all, bytes);
  }
  void bring(void* data, int64_t bytes, int from) override { group_->bring(data, bytes, from); }
  void set_timeout(double) override {}

 protected:
  void end_all(int) override {}

 private:
  template <class T> void wait(int times, std::span<const T> tensors) const {
    if (free_) return;
    double seconds = times * latency_ * (size() - 1);
    for (const T& tensor : tensors) {
      seconds += times * double(tensor.divided.piece) * (size() - 1) / rate_;
    }
    prctl(PR_SET_TIMERSLACK, 1000UL);  // ns, of this thread: a sleep ends up to 50 us late without
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }
  std::shared_ptr<Group> group_;
  double rate_, latency_;
  bool free_ = false;
};

}  // namespace pal::test
