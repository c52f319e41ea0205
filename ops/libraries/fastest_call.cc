// Rounds of all calls by turns, so that a clock that falls meanwhile falls for all of them. Calls
// are recorded and replayed: one by one the host may take longer to queue a short one than the
// device to do it. Long ones are called once a round, and those that are far behind no more.
#include "ops/libraries/fastest_call.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace pal {
namespace {

constexpr int kRounds = 4;                  // that are timed
constexpr int kMostCalls = 16;              // a round
constexpr int64_t kRoundNs = 5'000'000;     // that calls of a round may take, if it is not one
constexpr double kAsFast = 1.03, kFar = 2;  // times the fastest
constexpr int64_t kLeftOut = INT64_MAX;

// Of all candidates.
class Trial {
 public:
  Trial(Accelerator& device, size_t count, const std::function<void(size_t)>& call)
      : device_(device), call_(call), graphs_(count), ns_(count, kLeftOut - 1) {}

  std::optional<size_t> fastest() {
    device_.synchronize();
    // The first call loads what it needs, the second says how many there may be.
    for (int n = 0; n < 2; ++n) {
      each([&](size_t i) { ns_[i] = timed([&] { call_(i); }); });
    }
    if (least() == kLeftOut) return {};
    calls_ = int(std::clamp<int64_t>(kRoundNs / std::max<int64_t>(least(), 1), 1, kMostCalls));
    drop_those_behind();
    each([&](size_t i) {
      graphs_[i] = recorded(i);
      ns_[i] = kLeftOut - 1;
    });
    for (int round = 0; round < kRounds; ++round) {
      each([&](size_t i) {
        ns_[i] = std::min(ns_[i],
                          timed([&] { graphs_[i] ? device_.replay(graphs_[i]) : queue_calls(i); }));
      });
    }
    const int64_t best = least();
    if (best == kLeftOut) return {};
    const auto is_as_fast = [&](int64_t ns) { return double(ns) <= kAsFast * double(best); };
    return size_t(std::find_if(ns_.begin(), ns_.end(), is_as_fast) - ns_.begin());
  }

 private:
  // Of those that are left; one that fails is left out.
  void each(const std::function<void(size_t)>& f) {
    for (size_t i = 0; i < ns_.size(); ++i) {
      if (ns_[i] == kLeftOut) continue;
      try {
        f(i);
      } catch (const DeviceError&) {
        ns_[i] = kLeftOut;
      }
    }
  }
  int64_t least() const { return *std::min_element(ns_.begin(), ns_.end()); }
  void drop_those_behind() {
    const double most = kFar * double(least());
    for (int64_t& ns : ns_) {
      if (double(ns) > most) ns = kLeftOut;
    }
  }
  void queue_calls(size_t i) {
    for (int n = 0; n < calls_; ++n) call_(i);
  }
  int64_t timed(const std::function<void()>& work) {
    device_.record(from_, kComputeQueue);
    work();
    device_.record(to_, kComputeQueue);
    device_.wait(to_);
    return device_.ns_between(from_, to_);
  }
  // Null: the device does not record it.
  Accelerator::Graph recorded(size_t i) {
    device_.begin_recording();
    try {
      queue_calls(i);
      return device_.end_recording();
    } catch (const RecordingRefused&) {
      device_.abandon_recording();
      return nullptr;
    } catch (...) {
      device_.abandon_recording();
      throw;
    }
  }

  Accelerator& device_;
  const std::function<void(size_t)>& call_;
  const Accelerator::Event from_ = device_.make_timed_event(), to_ = device_.make_timed_event();
  std::vector<Accelerator::Graph> graphs_;
  std::vector<int64_t> ns_;  // of a call, then the least of a round
  int calls_ = 1;            // a round
};

}  // namespace

std::optional<size_t> fastest_call(Accelerator& device, size_t count,
                                   const std::function<void(size_t)>& call) {
  return Trial(device, count, call).fastest();
}

void fill_with_numbers(Accelerator& device, std::byte* to, int64_t bytes) {
  std::vector<uint16_t> some(1 << 16);
  for (uint32_t i = 0; i < some.size(); ++i) {
    some[i] = uint16_t(0x3F00u | (i * 0x9E3779B9u >> 16 & 0x80FFu));
  }
  int64_t there = std::min(bytes, int64_t(some.size() * sizeof some[0]));
  device.copy(kComputeQueue, to, some.data(), there);
  device.synchronize();  // of pageable memory
  for (; there < bytes; there *= 2) {
    device.copy(kComputeQueue, to + there, to, std::min(there, bytes - there));
  }
}

}  // namespace pal
