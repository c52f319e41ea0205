// Two sizes, the median of many times.
#include "train/commands/measure_link.h"

#include <algorithm>

#include "core/clock.h"

namespace pal {
namespace {

constexpr int64_t kFew = 64;        // bytes of a rank's piece
constexpr int64_t kMany = 8 << 20;  // likewise: of the order of a bucket's
constexpr int kLeastCalls = 5;

// Seconds of the mean of both exchanges of a tensor, each the median of its calls, of the slowest
// rank.
double time_exchanges(Group& group, int64_t piece, double seconds) {
  const Divided divided{.whole = group.size() * piece, .piece = piece};
  std::vector<std::byte> whole(size_t(divided.whole)), rows(size_t(divided.whole));
  const Exchanged to_all{whole.data(), rows.data(), divided};
  const Exchanged gather{rows.data(), whole.data(), divided};
  std::vector<double> sums, gathers;
  const Clock::time_point begin = Clock::now();
  const auto timed = [&](auto call, std::vector<double>& times) {
    const Clock::time_point from = Clock::now();
    call();
    times.push_back(seconds_since(from));
  };
  for (bool more = true; more;) {
    for (int i = 0; i < kLeastCalls; ++i) {
      timed([&] { group.all_to_all(std::span(&to_all, 1)); }, sums);
      timed([&] { group.all_gather(std::span(&gather, 1)); }, gathers);
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

}  // namespace

Link measure_link(Group& group, double seconds) {
  const double few = time_exchanges(group, kFew, seconds / 2);
  const double many = time_exchanges(group, kMany, seconds / 2);
  const double others = group.size() - 1;
  Link link{.name = group.description() + ", " + std::to_string(group.size()) + " ranks"};
  link.latency = few / others;
  link.rate = others * double(kMany - kFew) / std::max(many - few, 1e-9);
  return link;
}

}  // namespace pal
