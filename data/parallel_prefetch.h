// Makes numbered items on several threads ahead of the consumer, who gets them in order. Items
// travel by swap, so that their buffers circulate and a steady run allocates nothing
// (data/prefetch.h is the same for a producer that must go step by step).
#pragma once
#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace pal {

// T is default-constructible and swappable. `produce(i, item)` fills `item`, which holds an earlier
// one's buffers, with item i; several threads call it at once. The sequence has no end.
template <typename T> class ParallelPrefetch {
 public:
  // The first item to be given is number `first`. As many items wait as there are workers, and one
  // more.
  ParallelPrefetch(std::function<void(int64_t, T&)> produce, int64_t first, int workers)
      : produce_(std::move(produce)),
        slots_(static_cast<size_t>(std::max(workers, 1)) + 1),
        next_to_make_(first),
        next_to_give_(first) {
    for (int w = 0; w < std::max(workers, 1); ++w) threads_.emplace_back([this] { run(); });
  }

  // Waits for the items in the making, and forgets those that wait.
  ~ParallelPrefetch() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  ParallelPrefetch(const ParallelPrefetch&) = delete;
  ParallelPrefetch& operator=(const ParallelPrefetch&) = delete;

  // Swaps the next item into `item`. What making it threw is thrown here, now and on every further
  // call.
  void next(T& item) {
    std::unique_lock lock(mutex_);
    Slot& slot = slot_of(next_to_give_);
    changed_.wait(lock, [&] { return slot.ready; });
    if (slot.failure) std::rethrow_exception(slot.failure);
    using std::swap;
    swap(item, slot.item);
    slot.ready = false;
    ++next_to_give_;
    lock.unlock();
    changed_.notify_all();
  }

 private:
  struct Slot {
    T item{};
    bool ready = false;
    std::exception_ptr failure;
  };

  Slot& slot_of(int64_t i) { return slots_[static_cast<size_t>(i) % slots_.size()]; }

  void run() {
    for (;;) {
      int64_t i = 0;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] {
          return stop_ || next_to_make_ - next_to_give_ < static_cast<int64_t>(slots_.size());
        });
        if (stop_) return;
        i = next_to_make_++;
      }
      Slot& slot = slot_of(i);  // free, and this thread's until it is ready
      std::exception_ptr failure;
      try {
        produce_(i, slot.item);
      } catch (...) {
        failure = std::current_exception();
      }
      {
        const std::lock_guard lock(mutex_);
        slot.failure = failure;
        slot.ready = true;
      }
      changed_.notify_all();
    }
  }

  std::function<void(int64_t, T&)> produce_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> slots_;  // item i is made in slot i modulo their number
  int64_t next_to_make_, next_to_give_;
  bool stop_ = false;
  std::vector<std::thread> threads_;  // last: they start when everything above stands
};

}  // namespace pal
