// Rounds of all calls by turns, so that a clock that falls meanwhile falls for all of them. Calls
// are recorded and replayed: one by one the host may take longer to queue a short one than the
// device to do it.
#include "ops/libraries/fastest_call.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace pal {
namespace {

constexpr int kRounds = 5;  // the first of which loads and warms
constexpr int kCalls = 16;  // a round
constexpr double kAsFast = 1.03;
constexpr int64_t kLeftOut = INT64_MAX;

void queue_calls(const std::function<void(size_t)>& call, size_t i) {
  for (int n = 0; n < kCalls; ++n) call(i);
}

// Null: the device does not record it.
Accelerator::Graph recorded(Accelerator& device, const std::function<void(size_t)>& call,
                            size_t i) {
  device.begin_recording();
  try {
    queue_calls(call, i);
    return device.end_recording();
  } catch (const RecordingRefused&) {
    device.abandon_recording();
    return nullptr;
  } catch (...) {
    device.abandon_recording();
    throw;
  }
}

}  // namespace

std::optional<size_t> fastest_call(Accelerator& device, size_t count,
                                   const std::function<void(size_t)>& call) {
  const Accelerator::Event from = device.make_timed_event(), to = device.make_timed_event();
  std::vector<Accelerator::Graph> graphs(count);
  std::vector<int64_t> least(count, kLeftOut - 1);
  device.synchronize();
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < count; ++i) {
      if (least[i] == kLeftOut) continue;
      try {
        if (round == 1) graphs[i] = recorded(device, call, i);  // it has run once
        device.record(from, kComputeQueue);
        graphs[i] ? device.replay(graphs[i]) : queue_calls(call, i);
        device.record(to, kComputeQueue);
      } catch (const DeviceError&) {
        least[i] = kLeftOut;
        continue;
      }
      device.wait(to);
      if (round > 0) least[i] = std::min(least[i], device.ns_between(from, to));
    }
  }
  const int64_t best = *std::min_element(least.begin(), least.end());
  if (best == kLeftOut) return {};
  const auto is_as_fast = [&](int64_t ns) { return double(ns) <= kAsFast * double(best); };
  return size_t(std::find_if(least.begin(), least.end(), is_as_fast) - least.begin());
}

}  // namespace pal
