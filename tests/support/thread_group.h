// Ranks as threads of a test: what a group promises, without MPI. A rank that throws, or that makes
// another call than the others, ends the waiting of all.
#pragma once
#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/ranks/group.h"

namespace pal::test {

// Where ranks meet: each brings a pointer, and sees those of all others until all leave.
class MeetingPlace {
 public:
  explicit MeetingPlace(int ranks) : brought_(size_t(ranks)), calls_(size_t(ranks)) {}

  // Calls use(brought) between two meetings of all ranks. RankError where one failed, or `call` is
  // not what the others call.
  template <class F> void meet(int rank, const std::string& call, const void* mine, F use) {
    {
      const std::lock_guard lock(mutex_);
      brought_[size_t(rank)] = mine, calls_[size_t(rank)] = call;
    }
    wait();
    for (const std::string& other : calls_) {
      if (other != call) fail("rank " + std::to_string(rank) + ": " + call + " meets " + other);
    }
    use(brought_);
    wait();
  }
  void fail(const std::string& why) {
    {
      const std::lock_guard lock(mutex_);
      if (failed_.empty()) failed_ = why;
    }
    changed_.notify_all();
    throw RankError(why);
  }
  void give_up() {
    const std::lock_guard lock(mutex_);
    if (failed_.empty()) failed_ = "a rank has failed";
    changed_.notify_all();
  }

 private:
  void wait() {
    std::unique_lock lock(mutex_);
    const size_t round = round_;
    if (++here_ == brought_.size()) {
      here_ = 0, ++round_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return round_ > round || !failed_.empty(); });
    if (!failed_.empty()) throw RankError(failed_);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<const void*> brought_;
  std::vector<std::string> calls_;
  size_t here_ = 0, round_ = 0;
  std::string failed_;
};

class ThreadGroup final : public Group {
 public:
  ThreadGroup(std::shared_ptr<MeetingPlace> place, int rank, int size, int per_node)
      : place_(std::move(place)), rank_(rank), size_(size), per_node_(per_node) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_size() const override { return per_node_; }
  int local_rank() const override { return rank_ % per_node_; }
  int machine() const override { return rank_ / per_node_ * per_node_; }
  int per_node() const override { return per_node_; }
  std::string description() const override { return "threads"; }

  using Group::all_to_all;
  void all_to_all(std::span<const Exchanged> tensors, const Peers& peers) override {
    const int own = peers.number(rank_);
    each_peer("all_to_all", tensors, [&](const Exchanged& mine, const Exchanged& theirs, int peer) {
      const int i = peers.number(peer);
      if (i < 0 || i >= peers.count || peers.rank(i) != peer) return;
      std::memcpy(mine.to + i * mine.row_bytes(), theirs.from_of(own), size_t(mine.bytes_of(own)));
      if (peer != rank_) count_sent(mine.bytes_of(i));
    });
  }
  void all_gather(std::span<const Exchanged> tensors) override {
    each_peer("all_gather", tensors, [&](const Exchanged& mine, const Exchanged& theirs, int peer) {
      const Divided& d = mine.divided;
      std::memmove(mine.to + d.begin(peer), theirs.from, size_t(d.bytes(peer)));
      if (peer != rank_) count_sent(d.bytes(rank_));
    });
  }
  // From the last rank to the first, so that nobody takes its order for the tree's.
  void all_reduce(std::span<const Reduced> tensors) override { reduce(tensors, false); }
  void reduce_scatter(std::span<const Reduced> tensors) override { reduce(tensors, true); }
  void share(const void* mine, void* all, int64_t bytes) override {
    place_->meet(rank_, "share " + std::to_string(bytes), mine, [&](const auto& brought) {
      for (int q = 0; q < size_; ++q) {
        std::memcpy(static_cast<std::byte*>(all) + q * bytes, brought[size_t(q)], size_t(bytes));
      }
    });
  }
  void bring(void* data, int64_t bytes, int from) override {
    place_->meet(rank_, "bring " + std::to_string(from), data, [&](const auto& brought) {
      if (rank_ == 0) std::memcpy(data, brought[size_t(from)], size_t(bytes));
    });
  }
  void set_timeout(double) override {}

 private:
  void end_all(int) override { place_->give_up(); }

  template <class T> static std::string name(const std::string& call, std::span<const T> tensors) {
    std::string out = call;
    for (const T& x : tensors) out += " " + std::to_string(x.divided.whole);
    return out;
  }
  template <class F>
  void each_peer(const std::string& call, std::span<const Exchanged> tensors, F f) {
    place_->meet(rank_, name(call, tensors), tensors.data(), [&](const auto& brought) {
      for (size_t i = 0; i < tensors.size(); ++i) {
        for (int q = 0; q < size_; ++q) {
          f(tensors[i], static_cast<const Exchanged*>(brought[size_t(q)])[i], q);
        }
      }
    });
  }
  void reduce(std::span<const Reduced> tensors, bool piece) {
    const std::string call = piece ? "reduce_scatter" : "all_reduce";
    std::vector<std::vector<float>> sums;
    place_->meet(rank_, name(call, tensors), tensors.data(), [&](const auto& brought) {
      for (size_t i = 0; i < tensors.size(); ++i) {
        const Divided& d = tensors[i].divided;
        const int64_t begin = piece ? d.begin(rank_) / 4 : 0;
        const int64_t count = (piece ? d.bytes(rank_) : d.whole) / 4;
        std::vector<float>& sum = sums.emplace_back(size_t(count), 0.0f);
        for (int q = size_; q-- > 0;) {
          const float* theirs = static_cast<const Reduced*>(brought[size_t(q)])[i].from + begin;
          for (int64_t k = 0; k < count; ++k) sum[size_t(k)] += theirs[k];
        }
      }
    });
    for (size_t i = 0; i < tensors.size(); ++i) {  // which may be where `from` was
      if (!sums[i].empty()) {
        std::memcpy(tensors[i].to, sums[i].data(), sums[i].size() * sizeof(float));
      }
      count_sent((piece ? 1 : 2) * (tensors[i].divided.whole - tensors[i].divided.bytes(rank_)));
    }
  }

  std::shared_ptr<MeetingPlace> place_;
  int rank_, size_, per_node_;
};

// Calls run(group) on a thread for every rank; with one rank the group is null. What the first rank
// to fail threw is thrown here.
// `per_node`: of them stand for the ranks of one machine; 0: all.
inline void as_ranks(int ranks, const std::function<void(std::shared_ptr<Group>)>& run,
                     int per_node = 0) {
  if (ranks == 1) return run(nullptr);
  const auto place = std::make_shared<MeetingPlace>(ranks);
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      try {
        run(std::make_shared<ThreadGroup>(place, r, ranks, per_node > 0 ? per_node : ranks));
      } catch (...) {
        {
          const std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
        }
        place->give_up();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace pal::test
