// What can be made again, in how long; and when there is no use in going on.
#include "memory/dynamic/ledger.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "memory/storages/storages.h"

namespace pal {
namespace {

// A step that brings one storage back so many times more than nodes use it is not going to be of
// use. (A storage that many nodes use may have to come back for each of them where there is space
// for one node alone.)
constexpr int kMostReturns = 16;
// What was made again so often is copied out the next time (delta).
constexpr int kMostRemakes = 8;

}  // namespace

bool Ledger::is_worn(StorageId s) const {
  return o_.manager == Manager::delta && list_[s].remakes >= kMostRemakes;
}

bool Ledger::can_remake(StorageId s) const {
  const Whereabouts& at = list_[s];
  if (at.written == 0 || at.made < at.written || at.orphan) return false;
  const bool delta = o_.manager == Manager::delta;
  if (delta && (!o_.evicts || at.wanted > 0 || is_worn(s))) return false;
  NodeId until = std::max(f_.last_use[s], now);
  if (at.written < f_.writers[s].size()) until = std::min(until, f_.writers[s][at.written]);
  return f_.remakable[s][at.written - 1] >= until;
}

double Ledger::ms_again(StorageId s, double enough) const {
  ++stamp_;
  double sum = 0;
  std::vector<StorageId> todo{s};
  seen_[s] = stamp_;
  while (!todo.empty() && sum <= enough) {
    const StorageId t = todo.back();
    todo.pop_back();
    for (size_t k = 0; k < list_[t].written; ++k) {
      const NodeId w = f_.writers[t][k];
      sum += f_.ms[w];
      for (StorageId o : f_.reads[w]) {
        if (!is_evicted(o) || seen_[o] == stamp_) continue;
        seen_[o] = stamp_;
        todo.push_back(o);
      }
    }
  }
  return sum;
}

void Ledger::count_return(StorageId s) {
  // A node may need it twice: for itself, and before that for what is made again for the node.
  if (++list_[s].returns > kMostReturns + 2 * int(f_.uses[s].size())) {
    thrash("brings one storage back " + std::to_string(list_[s].returns) + " times for " +
           std::to_string(f_.uses[s].size()) + " nodes that use it");
  }
}

void Ledger::thrash(const std::string& what) const {
  std::vector<StorageId> most;
  for (StorageId s : list_.ids()) {
    if (list_[s].returns > 0) most.push_back(s);
  }
  const size_t count = std::min<size_t>(most.size(), 3);
  std::partial_sort(most.begin(), most.begin() + std::ptrdiff_t(count), most.end(),
                    [&](StorageId a, StorageId b) {
                      return std::pair(-list_[a].returns, a) < std::pair(-list_[b].returns, b);
                    });
  std::string list;
  for (size_t i = 0; i < count; ++i) {
    list += (i ? "; " : "") + name_of(f_.program, f_.storages, most[i]) + " (" +
            std::to_string(list_[most[i]].returns) + " times)";
  }
  throw BudgetError(manager() + " " + what + "; most often came back: " + list);
}

}  // namespace pal
