// The bytes on the device in which storages come and go, and the link over which they do: who gets
// which bytes, who leaves for that, and when copies are done.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "memory/dynamic/decisions.h"
#include "memory/dynamic/facts.h"
#include "memory/dynamic/ledger.h"
#include "memory/dynamic/options.h"
#include "memory/dynamic/pieces.h"
#include "memory/dynamic/scores.h"

namespace pal {

class Slab {
 public:
  // Actions are appended to `out`; sizes as of decide().
  Slab(const StepFacts& facts, const DynamicOptions& options, Ledger& ledger, int64_t bytes,
       int64_t host_bytes, Decisions& out);

  double clock = 0;  // milliseconds, of the compute queue

  // Bytes for a storage, releasing others as needed. BudgetError where nothing helps.
  void take(StorageId s);
  // Bytes, and a copy back from the host's memory.
  void reload(StorageId s);
  // On its way out, and needed again.
  void stay(StorageId s);
  // It has been used until now.
  void used(StorageId s);
  // Nobody has it any more; `remakable`: it may be made again for others.
  void forget(StorageId s, bool remakable);
  void drop_copy(StorageId s);
  // It is no longer waited for in the host's memory.
  void no_longer_away(StorageId s) { away_.erase({at_[s].next_use, s}); }

  // The lowest by its score leaves. False: none can.
  bool release_one();
  // Bytes whose copies are done by now are free.
  void settle();
  // Milliseconds until a copy that is asked for now would be there.
  double ms_of_reload(StorageId s) const {
    return std::max(in_clock_ - clock, 0.0) + f_.copy_ms(s);
  }

  int64_t bytes() const { return pieces_.bytes(); }
  int64_t used_bytes() const { return used_; }  // without those on their way out
  int64_t largest() const { return pieces_.largest(); }
  // In the host's memory alone: the one that is used next; kNone: there is none.
  StorageId next_away() const { return away_.empty() ? StorageId(kNone) : away_.begin()->second; }
  // When compute and all copies are done.
  double end_ms() const { return std::max({clock, out_clock_, in_clock_}); }
  // To the end of the last bytes that were taken.
  int64_t highest() const { return pieces_.highest(); }
  int64_t host_highest() const { return host_.highest(); }

 private:
  using Moves = std::vector<std::pair<StorageId, int64_t>>;  // which storage goes where

  // False is DELTA's offload_pinned.
  bool can_offload(StorageId s) const {
    return delta_ && (at_[s].copied || host_.largest() >= f_.bytes[s]);
  }
  double ms_of_offload(StorageId s) const { return at_[s].copied ? 0 : f_.copy_ms(s); }
  bool is_candidate(StorageId s) const;
  bool is_evicted_rather(StorageId s) const;
  double cost_of_release(StorageId s);
  void give_back(StorageId s);
  void make_room(StorageId s);
  void wait();
  bool wait_for_leaving(int64_t bytes);
  void release(StorageId s);
  void put_away(StorageId s);
  bool release_window(int64_t bytes);
  bool compact(int64_t bytes);
  int64_t moves_aside(int64_t begin, int64_t end, Moves& moves) const;
  void move(StorageId s, int64_t place);
  bool compact_through_host();
  [[noreturn]] void refuse(StorageId s) const;

  const StepFacts& f_;
  const bool delta_;
  Ledger& at_;
  Decisions& out_;
  Pieces pieces_, host_;
  Scores scores_;
  std::map<int64_t, StorageId> there_;              // by place: on the device, or leaving
  std::set<std::pair<double, StorageId>> leaving_;  // by when the copy is done
  std::set<std::pair<NodeId, StorageId>> away_;     // by the next use
  int64_t used_ = 0, leaving_bytes_ = 0;
  double out_clock_ = 0, in_clock_ = 0;  // milliseconds, of the copy queues
};

}  // namespace pal
