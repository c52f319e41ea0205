// A communicator of one rank: every call gives what it is given, queued, recorded and replayed. On
// a machine with one GPU it is all that can be tried of NCCL (tests/gpu).
#include "tests/emulation/one_rank.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "core/accelerator.h"
#include "tests/emulation/fixture.h"

namespace pal::test {
namespace {

class OneRank : public OnGpu {
 protected:
  void prepare() override {
    device_ = cuda_device();
    group_ = one_rank(device_);
    if (!group_) GTEST_SKIP() << "there is no NCCL";
  }
  void TearDown() override {
    group_.reset(), device_ = {};
    OnGpu::TearDown();
  }

  Device device_;
  std::shared_ptr<DeviceGroup> group_;
};

constexpr int64_t kNumbers = 3000;  // of a tensor
constexpr int64_t kBytes = kNumbers * int64_t(sizeof(float));

// Tensors of the device's memory, as wide as each other.
class Tensors {
 public:
  Tensors(const Device& device, int count)
      : device_(device.accelerator),
        data_(device_->allocate(Space::device, count * kBytes)),
        count_(count) {}
  ~Tensors() { device_->release(Space::device, data_); }
  Tensors(const Tensors&) = delete;
  Tensors& operator=(const Tensors&) = delete;

  std::byte* at(int i) const { return data_ + i * kBytes; }
  float* floats(int i) const { return reinterpret_cast<float*>(at(i)); }
  void fill(int i, float first) {
    std::vector<float> numbers(kNumbers);
    std::iota(numbers.begin(), numbers.end(), first);
    device_->copy(kComputeQueue, at(i), numbers.data(), kBytes);
    device_->synchronize();
  }
  void clear() { device_->fill(kComputeQueue, data_ + kBytes, 0, (count_ - 1) * kBytes); }
  // The first number that is not first + its place; none: -1.
  int64_t first_wrong(int i, float first) const {
    std::vector<float> numbers(kNumbers);
    device_->copy(kComputeQueue, numbers.data(), at(i), kBytes);
    device_->synchronize();
    for (int64_t k = 0; k < kNumbers; ++k) {
      if (numbers[size_t(k)] != first + float(k)) return k;
    }
    return -1;
  }

 private:
  std::shared_ptr<Accelerator> device_;
  std::byte* data_;
  int count_;
};

// From tensor 0 into each of the others, by every call; pieces that are the whole, and such as
// reach beyond its end, which travel otherwise.
constexpr int kCalls = 7;
void call_all(DeviceGroup& group, const Tensors& t, const Queue& queue) {
  const Divided even{kBytes, kBytes}, wide{kBytes, kBytes + 64};
  const auto exchanged = [&](int to, Divided d) { return Exchanged{t.at(0), t.at(to), d}; };
  const auto reduced = [&](int to, Divided d) { return Reduced{t.floats(0), t.floats(to), d}; };
  const Exchanged rows[] = {exchanged(1, even), exchanged(2, wide)};
  group.all_to_all(rows, queue);
  const Exchanged pieces[] = {exchanged(3, even), exchanged(4, wide)};
  group.all_gather(pieces, queue);
  const Reduced sum[] = {reduced(5, even)};
  group.all_reduce(sum, queue);
  const Reduced parts[] = {reduced(6, even), reduced(7, wide)};
  group.reduce_scatter(parts, queue);
}

TEST_F(OneRank, GetsWhatItGives) {
  Tensors t(device_, 1 + kCalls);
  const Queue queue{.stream = device_.accelerator->stream(kComputeQueue)};
  for (const float first : {1.0f, 500.0f}) {
    t.fill(0, first), t.clear();
    call_all(*group_, t, queue);
    for (int i = 1; i <= kCalls; ++i) EXPECT_EQ(t.first_wrong(i, first), -1) << "tensor " << i;
  }
}

TEST_F(OneRank, IsRecordedAndReplayed) {
  Tensors t(device_, 1 + kCalls);
  Accelerator& gpu = *device_.accelerator;
  const Queue queue{.stream = gpu.stream(kComputeQueue)};
  gpu.begin_recording();
  call_all(*group_, t, queue);
  const Accelerator::Graph graph = gpu.end_recording();
  ASSERT_TRUE(graph);
  for (const float first : {3.0f, 70.0f, 800.0f}) {
    t.fill(0, first), t.clear();
    gpu.replay(graph);
    for (int i = 1; i <= kCalls; ++i) EXPECT_EQ(t.first_wrong(i, first), -1) << "tensor " << i;
  }
}

// What it takes of the device's memory is known, and given back.
TEST_F(OneRank, CountsItsMemory) {
  const int64_t held = group_->device_bytes();
  EXPECT_EQ(group_->size(), 1);
  EXPECT_NE(group_->description().find("NCCL 2."), std::string::npos) << group_->description();
  std::printf("%s holds %lld bytes\n", group_->description().c_str(), static_cast<long long>(held));
  RecordProperty("nccl_bytes", std::to_string(held));
  if (emulation::real()) return;
  EXPECT_EQ(held, int64_t(3) << 20);
  const int64_t free = device_.accelerator->free_bytes();
  group_.reset();
  EXPECT_EQ(device_.accelerator->free_bytes(), free + held);
}

}  // namespace
}  // namespace pal::test
