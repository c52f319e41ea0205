// Keys, and the orders that they make.
#include "memory/place/orders.h"

#include <algorithm>
#include <vector>

#include "memory/place/buffers/load.h"
#include "memory/place/first_fit.h"

namespace pal {
namespace {

// Each order is a key, largest first. `nest`: what is alive at the hottest moment comes before, by
// its start or its end, and so makes a stack without a gap there, which shrinks from above towards
// one side.
enum class Nest { kNo, kByStart, kByEnd };

int64_t duration(const Buffer& b) { return b.upper - b.lower; }
double by_size(const Buffer& b) { return double(b.size); }
double by_area(const Buffer& b) { return double(b.size) * double(duration(b)); }
double by_start(const Buffer& b) { return -double(b.lower); }
double by_duration(const Buffer& b) { return double(duration(b)); }
double by_end(const Buffer& b) { return double(b.upper); }

struct Order {
  const char* name;
  double (*key)(const Buffer&);
  Nest nest = Nest::kNo;
};
constexpr Order kOrders[] = {{"size", by_size},
                             {"nested by start", by_area, Nest::kByStart},
                             {"nested by end", by_area, Nest::kByEnd},
                             {"area", by_area},
                             {"start", by_start},
                             {"duration", by_duration},
                             {"end", by_end}};

// Orders of the buffers that `frozen` leaves to place.
class Orders {
 public:
  Orders(std::span<const Buffer> buffers, std::span<const int64_t> frozen)
      : buffers_(buffers),
        frozen_(frozen),
        hottest_(hottest_moment(buffers).time),
        keys_(buffers.size()) {}

  const std::vector<int32_t>& make(const Order& by) {
    order_.clear();
    size_t stacked = 0;
    for (size_t i = 0; i < buffers_.size(); ++i) {
      const Buffer& b = buffers_[i];
      keys_[i] = by.key(b);
      if (!frozen_.empty() && frozen_[i] >= 0) continue;
      order_.push_back(int32_t(i));
      if (by.nest == Nest::kNo || b.lower > hottest_ || b.upper <= hottest_) continue;
      keys_[i] = by.nest == Nest::kByStart ? by_start(b) : by_end(b);
      std::swap(order_[stacked++], order_.back());
    }
    const auto before = [this](int32_t i, int32_t j) { return is_before(i, j); };
    std::sort(order_.begin(), order_.begin() + long(stacked), before);
    std::sort(order_.begin() + long(stacked), order_.end(), before);
    return order_;
  }

 private:
  // Ties by size, then duration, then start, then number.
  bool is_before(int32_t i, int32_t j) const {
    const Buffer &a = buffers_[i], &b = buffers_[j];
    const double ka = keys_[i], kb = keys_[j];
    if (ka != kb) return ka > kb;
    if (a.size != b.size) return a.size > b.size;
    if (duration(a) != duration(b)) return duration(a) > duration(b);
    return a.lower != b.lower ? a.lower < b.lower : i < j;
  }

  std::span<const Buffer> buffers_;
  std::span<const int64_t> frozen_;
  int64_t hottest_;
  std::vector<double> keys_;
  std::vector<int32_t> order_;
};

}  // namespace

void try_orders(std::span<const Buffer> buffers, int64_t enough, std::span<const int64_t> frozen,
                const Deadline& deadline, Placement& best) {
  constexpr size_t kMany = 100'000;  // the quick order first: it may be the only one
  Clock::duration sorting{};         // what sorting so many takes, about
  const auto is_over = [&] {
    if (best.height <= enough) return true;
    return best.height < INT64_MAX && deadline && Clock::now() + 2 * sorting >= *deadline;
  };
  if (buffers.size() > kMany && frozen.empty()) {
    const auto start = Clock::now();
    Placement p = place_by_start(buffers);
    if (p.height < best.height) best = std::move(p), best.order = "start";
    sorting = Clock::now() - start;
  }
  if (is_over()) return;
  FirstFit fit(buffers);
  Orders orders(buffers, frozen);
  for (const Order& order : kOrders) {
    if (is_over()) return;
    const Deadline late = best.height < INT64_MAX ? deadline : Deadline();
    Placement p = fit.run(orders.make(order), best.height, frozen, late);
    if (p.height < best.height) best = std::move(p), best.order = order.name;
  }
}

}  // namespace pal
