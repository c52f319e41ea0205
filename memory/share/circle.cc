// Arcs of time, and first fit among them.
#include "memory/share/circle.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include "core/error.h"
#include "core/spec.h"

namespace pal {
namespace {

// Half-open, within one period: an arc over the circle's end is two of them.
struct Stretch {
  int64_t begin, end;
};

struct Item {
  size_t job, program, buffer;
  int64_t bytes;
  Lifetime life;                   // within its job's step
  std::vector<Stretch> stretches;  // in order
};

std::vector<Stretch> stretches_of(const Circle& circle, const JobOnCircle& job, size_t program,
                                  const Lifetime& life) {
  std::vector<Stretch> out;
  const int64_t period = circle.period;
  for (int i = 0; i < job.steps; ++i) {
    const int64_t from = job.time(i, life.begin, program);
    const int64_t length = job.time(i, life.end, program) - from;
    const int64_t begin = from % period, end = begin + length;
    if (end > period) out.push_back({0, end - period});
    out.push_back({begin, std::min(end, period)});
  }
  std::sort(out.begin(), out.end(),
            [](const Stretch& a, const Stretch& b) { return a.begin < b.begin; });
  return out;
}

std::vector<Item> items_of(const Circle& circle) {
  std::vector<Item> items;
  for (size_t j = 0; j < circle.jobs.size(); ++j) {
    const JobOnCircle& job = circle.jobs[j];
    for (size_t p = 0; p < job.programs(); ++p) {
      const auto& buffers = job.program(p).buffers;
      for (size_t i = 0; i < buffers.size(); ++i) {
        const SharableBuffer& b = buffers[i];
        items.push_back({j, p, i, b.bytes, b.life, stretches_of(circle, job, p, b.life)});
      }
    }
  }
  return items;
}

// Steps of one job follow one another, so that what it holds is compared within a step, which is of
// one program.
bool alive_together(const Item& a, const Item& b) {
  if (a.job == b.job) return a.program == b.program && a.life.overlaps(b.life);
  auto i = a.stretches.begin();
  auto j = b.stretches.begin();
  while (i != a.stretches.end() && j != b.stretches.end()) {
    if (i->begin < j->end && j->begin < i->end) return true;
    i->end <= j->end ? ++i : ++j;
  }
  return false;
}

int64_t duration(const Item& item) {
  int64_t sum = 0;
  for (const Stretch& s : item.stretches) sum += s.end - s.begin;
  return sum;
}

class Fitter {
 public:
  explicit Fitter(const std::vector<Item>& items) : items_(items), offset_(items.size()) {}

  // The height; gives up, with the largest number, at `stop_at`.
  int64_t run(std::span<const size_t> order, int64_t stop_at) {
    placed_.clear();
    int64_t height = 0;
    for (size_t i : order) {
      const int64_t at = lowest(items_[i]);
      if (at + items_[i].bytes >= stop_at) return std::numeric_limits<int64_t>::max();
      offset_[i] = at;
      height = std::max(height, at + items_[i].bytes);
      placed_.insert(std::upper_bound(placed_.begin(), placed_.end(), i,
                                      [&](size_t a, size_t b) { return offset_[a] < offset_[b]; }),
                     i);
    }
    return height;
  }
  const std::vector<int64_t>& offset() const { return offset_; }

 private:
  int64_t lowest(const Item& item) const {
    int64_t end = 0;
    for (size_t p : placed_) {
      const Item& other = items_[p];
      if (offset_[p] >= end + item.bytes) break;
      if (offset_[p] + other.bytes > end && alive_together(item, other)) {
        end = offset_[p] + other.bytes;
      }
    }
    return end;
  }

  const std::vector<Item>& items_;
  std::vector<int64_t> offset_;
  std::vector<size_t> placed_;  // by offset
};

// The stretch of the circle over which most bytes may be alive: a time in it.
struct Hottest {
  int64_t time = 0, bytes = 0;
};

Hottest hottest_of(const std::vector<Item>& items) {
  struct Change {
    int64_t time, bytes;
    size_t job, program;
  };
  std::vector<Change> changes;
  std::vector<std::vector<int64_t>> held;  // by job, by program
  for (const Item& item : items) {
    held.resize(std::max(held.size(), item.job + 1));
    held[item.job].resize(std::max(held[item.job].size(), item.program + 1), 0);
    for (const Stretch& s : item.stretches) {
      changes.push_back({s.begin, item.bytes, item.job, item.program});
      changes.push_back({s.end, -item.bytes, item.job, item.program});
    }
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return a.time != b.time ? a.time < b.time : a.bytes < b.bytes;
  });
  Hottest most;
  int64_t alive = 0;
  for (const Change& change : changes) {
    // Of a job's programs one runs: the one that holds most.
    std::vector<int64_t>& programs = held[change.job];
    alive -= *std::max_element(programs.begin(), programs.end());
    programs[change.program] += change.bytes;
    alive += *std::max_element(programs.begin(), programs.end());
    if (alive > most.bytes) most = {change.time, alive};
  }
  return most;
}

PoolPlacement taken_apart(const Circle& circle, const std::vector<Item>& items,
                          const std::vector<int64_t>& offset, int64_t height, int64_t bound) {
  PoolPlacement out{.height = height, .lower_bound = bound};
  for (const JobOnCircle& job : circle.jobs) {
    out.offset.emplace_back(job.shape->buffers.size());
    auto& others = out.others.emplace_back();
    for (const StepShape* other : job.others) others.emplace_back(other->buffers.size());
  }
  for (size_t i = 0; i < items.size(); ++i) {
    const auto [job, program, buffer] = std::tuple(items[i].job, items[i].program, items[i].buffer);
    (program == 0 ? out.offset[job] : out.others[job][program - 1])[buffer] = offset[i];
  }
  return out;
}

}  // namespace

int64_t JobOnCircle::time(int i, int64_t moment, size_t p) const {
  // Both terms rise, the first one strictly.
  const StepShape& step = program(p);
  const int64_t tick = step.tick[size_t(moment)];
  const double part = double(tick) / double(step.ticks());
  return begins + i * lasts + tick + int64_t(part * double(lasts - step.ticks()));
}

int64_t offset_of(const PoolPlacement& placement, size_t job, size_t program, size_t buffer) {
  return (program == 0 ? placement.offset[job] : placement.others[job][program - 1])[buffer];
}

void check_circle(const Circle& circle) {
  for (const JobOnCircle& job : circle.jobs) {
    int64_t longest = 0;
    for (size_t p = 0; p < job.programs(); ++p) {
      longest = std::max(longest, job.program(p).ticks());
    }
    if (job.lasts < longest || job.steps < 1 || job.begins < 0 ||
        job.steps * job.lasts > circle.period) {
      throw ProgramError("[share] " + std::to_string(job.steps) + " steps of " + job.shape->name +
                         ", " + std::to_string(job.lasts) + " ticks each, do not fit a period of " +
                         std::to_string(circle.period));
    }
  }
}

int64_t most_alive(const Circle& circle) { return hottest_of(items_of(circle)).bytes; }

PoolPlacement place_on(const Circle& circle, int64_t enough, const Deadline& deadline) {
  check_circle(circle);
  const std::vector<Item> items = items_of(circle);
  const Hottest hottest = hottest_of(items);
  std::vector<int64_t> duration_of;
  std::vector<char> hot;
  for (const Item& item : items) {
    duration_of.push_back(duration(item));
    hot.push_back(std::any_of(item.stretches.begin(), item.stretches.end(), [&](const Stretch& s) {
      return s.begin <= hottest.time && hottest.time < s.end;
    }));
  }
  const auto size = [&](size_t i) { return double(items[i].bytes); };
  const auto longest = [&](size_t i) { return double(duration_of[i]); };
  const auto area = [&](size_t i) { return double(items[i].bytes) * double(duration_of[i]); };
  const auto hot_first = [&](const auto& key) {
    return [&](size_t i) { return hot[i] ? key(i) + 1e30 : key(i); };
  };
  Fitter fitter(items);
  PoolPlacement best{.height = std::numeric_limits<int64_t>::max()};
  const auto consider = [&](const auto& key) {
    if (best.height <= std::max(enough, hottest.bytes)) return;
    if (best.height < std::numeric_limits<int64_t>::max() && is_past(deadline)) return;
    std::vector<double> keys;
    for (size_t i = 0; i < items.size(); ++i) keys.push_back(key(i));
    std::vector<size_t> order(items.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return keys[a] > keys[b]; });
    const int64_t height = fitter.run(order, best.height);
    if (height < best.height) {
      best = taken_apart(circle, items, fitter.offset(), height, hottest.bytes);
    }
  };
  consider(size);
  consider(area);
  consider(longest);
  consider(hot_first(area));
  consider(hot_first(size));
  consider(hot_first(longest));
  return best;
}

int64_t place_longest_first(const StepShape& shape, PoolOffsets& offset) {
  const Circle alone{shape.ticks(), {{&shape, 1, 0, shape.ticks()}}};
  const std::vector<Item> items = items_of(alone);
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return duration(items[a]) > duration(items[b]); });
  Fitter fitter(items);
  const int64_t height = fitter.run(order, std::numeric_limits<int64_t>::max());
  offset = fitter.offset();
  return height;
}

PoolPlacement place_apart(std::span<const StepShape* const> shapes, int64_t height) {
  PoolPlacement out{.height = align_up(height)};
  for (const StepShape* shape : shapes) {
    out.height = std::max(out.height, place_longest_first(*shape, out.offset.emplace_back()));
  }
  for (size_t j = 1; j < shapes.size(); j += 2) {
    for (size_t i = 0; i < out.offset[j].size(); ++i) {
      out.offset[j][i] = out.height - out.offset[j][i] - shapes[j]->buffers[i].bytes;
    }
  }
  return out;
}

void check_placement(const Circle& circle, const PoolPlacement& placement) {
  check_circle(circle);
  const std::vector<Item> items = items_of(circle);
  const auto begin = [&](const Item& item) {
    return offset_of(placement, item.job, item.program, item.buffer);
  };
  std::vector<const Item*> by_offset;
  for (const Item& item : items) {
    if (begin(item) < 0 || begin(item) + item.bytes > placement.height) {
      throw ProgramError("[share] a storage of " + circle.jobs[item.job].shape->name +
                         " lies outside the pool");
    }
    by_offset.push_back(&item);
  }
  std::sort(by_offset.begin(), by_offset.end(),
            [&](const Item* a, const Item* b) { return begin(*a) < begin(*b); });
  for (size_t a = 0; a < by_offset.size(); ++a) {
    const int64_t end = begin(*by_offset[a]) + by_offset[a]->bytes;
    for (size_t b = a + 1; b < by_offset.size() && begin(*by_offset[b]) < end; ++b) {
      if (!alive_together(*by_offset[a], *by_offset[b])) continue;
      throw ProgramError("[share] storages of " + circle.jobs[by_offset[a]->job].shape->name +
                         " and " + circle.jobs[by_offset[b]->job].shape->name +
                         " are alive together and overlap");
    }
  }
}

}  // namespace pal
