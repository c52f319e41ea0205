// Whether the ranks of a run are lost, told by the thread that found it out to those that wait for
// work of theirs, which then ends without having done anything.
#pragma once
#include <atomic>
#include <string>
#include <utility>

namespace pal {

class LostRanks {
 public:
  // Once, before the work is given up.
  void set(std::string why) {
    why_ = std::move(why);
    lost_.store(true, std::memory_order_release);
  }
  bool is_set() const { return lost_.load(std::memory_order_acquire); }
  const std::string& why() const { return why_; }  // once it is set

 private:
  std::atomic<bool> lost_{false};
  std::string why_;  // written before lost_, and never again
};

}  // namespace pal
