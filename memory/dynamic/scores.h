// Who leaves first: DELTA's filter, and DTR's heuristics.
#pragma once
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <vector>

#include "memory/dynamic/facts.h"
#include "memory/dynamic/options.h"

namespace pal {

// Told what happens to storages, it keeps those that are on the device in order. Times are
// milliseconds of the predicted step.
class Scores {
 public:
  Scores(const StepFacts& facts, const DynamicOptions& options);

  void came(StorageId s, double clock);
  void used(StorageId s, double clock);
  void left(StorageId s, bool evicted);

  // The lowest among the candidates; kNone: there is none. delta: in time linear in the number of
  // different sizes, and in the number of those that are no candidates. dtr: linear in the number
  // of storages on the device, times their evicted neighbours.
  StorageId lowest(double clock, const std::function<bool(StorageId)>& is_candidate);
  double heuristic(StorageId s, double clock);  // of dtr

 private:
  struct Entry {
    bool there = false, evicted = false;
    double used_ms = 0, cost = 0;  // of the nodes that write it
    std::list<StorageId>::iterator place;
    StorageId set = kNone;  // eq: the set of evicted neighbours that it is in
  };

  StorageId lowest_of_filter(double clock, const std::function<bool(StorageId)>& is_candidate);

  double around(StorageId s, bool down);
  double of_sets(StorageId s);
  StorageId root(StorageId s);

  const StepFacts& f_;
  const DynamicOptions& o_;
  ByStorage<Entry> entries_;
  std::map<int64_t, std::list<StorageId>> by_size_;  // least recently used first
  ByStorage<int32_t> seen_;
  int32_t stamp_ = 0;
  ByStorage<StorageId> up_;  // eq: union-find
  ByStorage<double> set_cost_;
};

}  // namespace pal
