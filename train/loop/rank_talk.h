// What the ranks of a run say to each other between steps, so that all do the same. A run that is
// alone says nothing.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/ranks/group.h"
#include "data/batch_share.h"
#include "train/loop/dealt.h"
#include "train/loop/micro_batch.h"
#include "train/loop/task.h"

namespace pal {

class RankTalk {
 public:
  // `group`: null where the run is alone.
  explicit RankTalk(std::shared_ptr<Group> group) : group_(std::move(group)) {}

  bool is_alone() const { return !group_; }
  int rank() const { return group_ ? group_->rank() : 0; }
  // Files, metrics and the log are rank 0's.
  bool writes() const { return rank() == 0; }
  // A rank's micro-batches of an update: a block of neighbours.
  BatchShare share(const Update& update) const;
  // Batches of which each rank runs some, in no order. `stop`: as Dealt's.
  Dealt dealt(std::function<bool()> stop = {}) const { return Dealt(group_, std::move(stop)); }

  // What the micro-batches of an update count, of all ranks: added up in their order.
  struct Counts {
    double normalizer = 0;
    int64_t samples = 0, tokens = 0;
  };
  Counts count(const std::vector<BatchInfo>& own) const;
  // The ranks that say yes, and whether any does.
  std::vector<int> who(bool own) const;
  bool any(bool own) const { return group_ ? !who(own).empty() : own; }
  // What rank 0 finds, on all of them: what lies in a folder, for instance.
  std::string of_first(const std::function<std::string()>& find) const;
  bool of_first(const std::function<bool()>& find) const;
  // Until all ranks are here.
  void meet() const { any(false); }
  // For errors: what comes now.
  void now(const std::string& activity) const {
    if (group_) group_->set_activity(activity);
  }
  // UsageError on every rank, which names ranks and what differs, unless all ranks give the same
  // for every name. All give as many facts.
  void require_alike(const std::vector<std::pair<std::string, std::string>>& facts) const;

 private:
  std::shared_ptr<Group> group_;
};

}  // namespace pal
