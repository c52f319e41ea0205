// Where every storage is while a step is decided, and what it would take to have it again.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "memory/dynamic/facts.h"
#include "memory/dynamic/options.h"

namespace pal {

enum class Where : uint8_t {
  nowhere,  // not made yet, or to be made again
  device,
  leaving,  // on the device, until its copy out is done
  host,     // in the host's memory alone
};

constexpr int64_t kNotThere = -1;

struct Whereabouts {
  Where where = Where::nowhere;
  bool copied = false;      // the host's memory has what it holds
  bool prefetched = false;  // and not used since
  bool orphan = false;      // what it was made of is gone for good
  bool banished = false;    // gone for good
  // So many reruns under way need it. While any does, delta may copy it out, but not evict it.
  int wanted = 0;
  int pins = 0, returns = 0, remakes = 0;
  int64_t offload = kNotThere;  // the action that copied it out, if nothing has come back since
  size_t written = 0;           // writers that have run
  size_t made = 0;              // of those, on the bytes that it has now
  int64_t place = 0, host_place = 0;
  NodeId next_use = kNone;  // while it is away
  double used_ms = 0, copied_ms = 0, arrives_ms = 0;
};

class Ledger {
 public:
  Ledger(const StepFacts& facts, const DynamicOptions& options)
      : f_(facts), o_(options), list_(facts.bytes.size()), seen_(facts.bytes.size(), 0) {}

  Whereabouts& operator[](StorageId s) { return list_[s]; }
  const Whereabouts& operator[](StorageId s) const { return list_[s]; }

  NodeId now = 0;  // the node at hand

  bool is_evicted(StorageId s) const {
    return list_[s].where == Where::nowhere && list_[s].written > 0;
  }
  // Someone of the step itself reads it, now or later.
  bool is_alive(StorageId s) const { return f_.last_use[s] >= now; }
  // False is DELTA's evict_pinned. False also while only some of its writers have run again:
  // readers could not tell half-made bytes from whole ones.
  bool can_remake(StorageId s) const;
  // delta: made again so often that it had better be copied out.
  bool is_worn(StorageId s) const;
  // c_r: milliseconds until it would be there again, with all that would have to be made for it.
  // Counted until they are more than `enough`.
  double ms_again(StorageId s, double enough) const;

  // Notes that it comes back for a node. (What is prefetched may leave again unused, at most once
  // for each node and each of memory.prefetch.) BudgetError where that is too often.
  void count_return(StorageId s);
  // BudgetError: what the manager does too often, and which storages came back most often.
  [[noreturn]] void thrash(const std::string& what) const;
  std::string manager() const { return "memory.manager: " + name_of(o_.manager); }

 private:
  const StepFacts& f_;
  const DynamicOptions& o_;
  ByStorage<Whereabouts> list_;
  mutable ByStorage<int32_t> seen_;
  mutable int32_t stamp_ = 0;
};

}  // namespace pal
