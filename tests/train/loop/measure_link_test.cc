// What joins ranks, measured over threads whose exchanges take a known time.
#include "train/loop/measure_link.h"

#include <gtest/gtest.h>

#include "tests/support/thread_group.h"

namespace pal::test {
namespace {

// Exchanges over a link of so many bytes and messages a second, beyond what the threads take.
class SlowGroup final : public Group {
 public:
  SlowGroup(std::shared_ptr<Group> group, double rate, double latency)
      : group_(std::move(group)), rate_(rate), latency_(latency) {}
  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  int local_size() const override { return group_->local_size(); }
  int local_rank() const override { return group_->local_rank(); }
  std::string description() const override { return "slow"; }
  void all_to_all(std::span<const Exchanged> tensors) override {
    group_->all_to_all(tensors), wait(tensors);
  }
  void all_gather(std::span<const Exchanged> tensors) override {
    group_->all_gather(tensors), wait(tensors);
  }
  void all_reduce(std::span<const Reduced>) override { FAIL(); }
  void reduce_scatter(std::span<const Reduced>) override { FAIL(); }
  void share(const void* mine, void* all, int64_t bytes) override {
    group_->share(mine, all, bytes);
  }
  void bring(void*, int64_t, int) override { FAIL(); }
  void set_timeout(double) override {}

 protected:
  void end_all(int) override {}

 private:
  void wait(std::span<const Exchanged> tensors) const {
    double seconds = latency_ * (size() - 1);
    for (const Exchanged& tensor : tensors) {
      seconds += double(tensor.divided.piece) * (size() - 1) / rate_;
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }
  std::shared_ptr<Group> group_;
  double rate_, latency_;
};

TEST(MeasureLink, FindsTheLatencyAndTheRate) {
  for (const int ranks : {2, 3}) {
    std::mutex mutex;
    std::vector<Link> links;
    as_ranks(ranks, [&](const std::shared_ptr<Group>& group) {
      SlowGroup slow(group, 2e8, 2e-3);
      const Link link = measure_link(slow, {.seconds = 0.1});
      const std::lock_guard lock(mutex);
      links.push_back(link);
    });
    for (const Link& link : links) {
      EXPECT_EQ(link.name, "slow, " + std::to_string(ranks) + " ranks");
      EXPECT_EQ(link.rate, links[0].rate) << "all ranks have the same";
      EXPECT_EQ(link.latency, links[0].latency);
      // Sleep and threads take longer, never less; other programs may run beside the test.
      EXPECT_GE(link.latency, 2e-3);
      EXPECT_LT(link.latency, 2e-2);
      EXPECT_LT(link.rate, 2.2e8);
      EXPECT_GT(link.rate, 2e7);
    }
  }
}

}  // namespace
}  // namespace pal::test
