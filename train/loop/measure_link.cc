// Two sizes, the median of many times.
#include "train/loop/measure_link.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "core/accelerator.h"
#include "core/clock.h"
#include "core/ranks/device_group.h"

namespace pal {
namespace {

constexpr int64_t kFew = 64;  // bytes of a rank's piece
constexpr int kLeastCalls = 5;

// One exchange of every rank's pieces, until it is done.
struct TriedExchanges {
  std::function<void()> all_to_all, all_gather;
};

// Seconds of the mean of both exchanges, each the median of its calls, of the slowest rank.
double time_exchanges(Group& group, const TriedExchanges& tried, double seconds) {
  std::vector<double> sums, gathers;
  const Clock::time_point begin = Clock::now();
  const auto timed = [&](const auto& call, std::vector<double>& times) {
    const Clock::time_point from = Clock::now();
    call();
    times.push_back(seconds_since(from));
  };
  for (bool more = true; more;) {
    for (int i = 0; i < kLeastCalls; ++i) {
      timed(tried.all_to_all, sums);
      timed(tried.all_gather, gathers);
    }
    // All ranks make as many calls: rank 0 says when it is enough.
    more = share_among(group, char(seconds_since(begin) < seconds))[0] != 0;
  }
  const auto median = [](std::vector<double>& times) {
    std::nth_element(times.begin(), times.begin() + int64_t(times.size() / 2), times.end());
    return times[times.size() / 2];
  };
  const std::vector<double> all = share_among(group, (median(sums) + median(gathers)) / 2);
  return *std::max_element(all.begin(), all.end());
}

// `time(bytes)`: seconds of exchanges of so many bytes a piece; `messages`: that they wait for.
template <class F>
Link fitted(const std::string& carrier, int64_t ranks, double messages, int64_t many_bytes,
            F time) {
  const double few = time(kFew);
  const double many = time(many_bytes);
  const auto others = double(ranks - 1);
  Link link{.name = carrier + ", " + std::to_string(ranks) + " ranks"};
  link.latency = few / messages;
  link.rate = others * double(many_bytes - kFew) / std::max(many - few, many / 10);
  return link;
}

// Bytes of a device, until the end of the scope.
class TrialBytes {
 public:
  TrialBytes(Accelerator& accelerator, int64_t bytes)
      : accelerator_(accelerator), data(accelerator.allocate(Space::device, bytes)) {
    accelerator.fill(kComputeQueue, data, 0, bytes);
  }
  TrialBytes(const TrialBytes&) = delete;
  TrialBytes& operator=(const TrialBytes&) = delete;
  ~TrialBytes() { accelerator_.release(Space::device, data); }

 private:
  Accelerator& accelerator_;

 public:
  std::byte* const data;
};

}  // namespace

Link measure_link(Group& group, LinkTrial trial) {
  // A gather goes by levels, the other exchange does not.
  const double others = group.size() - 1;
  const double by_levels = (group.per_node() - 1) + (group.size() / group.per_node() - 1);
  const double messages = (others + by_levels) / 2;
  return fitted(group.description(), group.size(), messages, trial.many, [&](int64_t piece) {
    const Divided divided{.whole = group.size() * piece, .piece = piece};
    std::vector<std::byte> whole(size_t(divided.whole)), rows(size_t(divided.whole));
    const Exchanged to_all{whole.data(), rows.data(), divided};
    const Exchanged gather{rows.data(), whole.data(), divided};
    const TriedExchanges tried{[&] { group.all_to_all(std::span(&to_all, 1)); },
                               [&] { group.all_gather(std::span(&gather, 1)); }};
    return time_exchanges(group, tried, trial.seconds / 2);
  });
}

Link measure_device_link(const Device& device, LinkTrial trial) {
  DeviceGroup& devices = *device.device_group;
  Accelerator& accelerator = *device.accelerator;
  const double messages = devices.size() - 1;
  return fitted(devices.description(), devices.size(), messages, trial.many, [&](int64_t piece) {
    const Divided divided{.whole = devices.size() * piece, .piece = piece};
    const TrialBytes whole(accelerator, divided.whole), rows(accelerator, divided.whole);
    const Exchanged to_all{whole.data, rows.data, divided};
    const Exchanged gather{rows.data, whole.data, divided};
    const Queue queue{.stream = accelerator.stream(kComputeQueue)};
    const auto until_done = [&](auto call) {
      return [&accelerator, call] { call(), accelerator.synchronize(); };
    };
    const TriedExchanges tried{
        until_done([&] { devices.all_to_all(std::span(&to_all, 1), queue); }),
        until_done([&] { devices.all_gather(std::span(&gather, 1), queue); })};
    accelerator.synchronize();
    return time_exchanges(*device.group, tried, trial.seconds / 2);
  });
}

}  // namespace pal
