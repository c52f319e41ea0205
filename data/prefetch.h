// Makes items on a thread of its own while the consumer works on earlier ones. Items travel by
// swap, so that their buffers circulate and a steady run allocates nothing.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace pal {

// T is default-constructible and swappable. `produce` fills its argument (which holds an earlier
// item's buffers) and returns true, or returns false at the end; it is called by one thread only,
// and what it uses belongs to that thread until the Prefetch is gone. An item that is ready and
// not yet taken does not count for a checkpoint: keep the position inside the item (for instance
// TextBatch::resume), and save that of the last one taken.
template <typename T> class Prefetch {
 public:
  // `depth` items at most wait (at least 1).
  explicit Prefetch(std::function<bool(T&)> produce, size_t depth = 2)
      : produce_(std::move(produce)), slots_(depth < 1 ? 1 : depth), thread_([this] { run(); }) {}

  // Waits for the item in the making, and forgets those that wait.
  ~Prefetch() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  // Swaps the next item into `item`; false at the end. What the producer threw is thrown here,
  // after the items made before it, and again on every further call.
  bool next(T& item) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ready_ > 0 || ended_; });
    if (ready_ == 0) {
      if (failure_) std::rethrow_exception(failure_);
      return false;
    }
    using std::swap;
    swap(item, slots_[first_]);
    first_ = (first_ + 1) % slots_.size();
    --ready_;
    lock.unlock();
    changed_.notify_all();
    return true;
  }

 private:
  void run() {
    for (;;) {
      size_t slot = 0;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return ready_ < slots_.size() || stop_; });
        if (stop_) return;
        slot = (first_ + ready_) % slots_.size();  // free, so that no one else looks at it
      }
      bool made = false;
      std::exception_ptr failure;
      try {
        made = produce_(slots_[slot]);
      } catch (...) {
        failure = std::current_exception();
      }
      {
        const std::lock_guard lock(mutex_);
        if (made) ++ready_;
        ended_ = !made;
        failure_ = failure;
      }
      changed_.notify_all();
      if (!made) return;
    }
  }

  std::function<bool(T&)> produce_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<T> slots_;  // a ring: `ready_` items from `first_` on
  size_t first_ = 0, ready_ = 0;
  bool stop_ = false;   // the consumer leaves
  bool ended_ = false;  // the producer is done, or failed
  std::exception_ptr failure_;
  std::thread thread_;  // last: it starts when everything above stands
};

}  // namespace pal
