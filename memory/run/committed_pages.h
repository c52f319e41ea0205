// A range of the processor's addresses of which a part has memory: what is given up goes back to
// the system at once, and whoever touches it is killed by the system.
#pragma once
#include <cstddef>
#include <cstdint>

namespace pal {

class CommittedPages {
 public:
  CommittedPages() = default;
  ~CommittedPages();
  CommittedPages(const CommittedPages&) = delete;
  CommittedPages& operator=(const CommittedPages&) = delete;

  // The first `bytes` are there from now on, those behind them no longer. What stays keeps its
  // bytes; new ones are zero, and take no memory until they are written. `addresses`: how many to
  // set aside, the first time, so that they can grow at the same place. Beyond that they move.
  // BudgetError where the system has not so many.
  void commit(int64_t bytes, int64_t addresses = 0);

  std::byte* base() const { return base_; }
  int64_t bytes() const { return bytes_; }
  // How many of them take memory now.
  int64_t resident() const;

 private:
  std::byte* base_ = nullptr;
  size_t reserved_ = 0, open_ = 0;  // in whole pages
  int64_t bytes_ = 0;
};

}  // namespace pal
