// The ranks of a run: processes that train one model together and exchange bytes. Who carries the
// bytes (MPI, NCCL) is not said here; core/ranks/launch.h finds one.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"

namespace pal {

// An exchange that failed: what went wrong, with which rank. All ranks are lost then.
struct RankError : Error {
  explicit RankError(const std::string& what) : Error(kExitFailed, what) {}
};

// What errors say where ranks are lost, and where one did not answer in time.
inline constexpr const char* kGoOnFromCheckpoint =
    "; resume from the last checkpoint if there is one";
inline constexpr const char* kRaiseTimeout =
    " (where a rank plans or saves for longer, raise train.rank_timeout)";

// How the bytes of a tensor are divided among ranks: rank q's piece begins at q times `piece`. What
// would be beyond the end of `whole` is no part of it, so that the last pieces may be short or
// empty.
struct Divided {
  int64_t whole = 0, piece = 0;

  int64_t begin(int rank) const { return std::min(whole, rank * piece); }
  int64_t bytes(int rank) const { return begin(rank + 1) - begin(rank); }
};

// A tensor that is exchanged: bytes are read at `from` and written at `to`.
struct Exchanged {
  const std::byte* from;
  std::byte* to;
  Divided divided;
  // Of all_to_all: the piece of the first of those that exchange, how many pieces behind it that of
  // the next is, and bytes from one row of `to` to the next, 0: a piece. With `rows` `from` has a
  // row of a piece for each of them too, and is not the whole.
  int first = 0, step = 1;
  int64_t row = 0;
  bool rows = false;

  int64_t row_bytes() const { return row > 0 ? row : divided.piece; }
  int64_t bytes_of(int number) const { return divided.bytes(first + number * step); }
  const std::byte* from_of(int number) const {
    return from + (rows ? number * divided.piece : divided.begin(first + number * step));
  }
};

// Ranks that exchange among themselves: `count` of them, each so many behind the one before.
struct Peers {
  int first = 0, step = 1, count = 0;

  int rank(int number) const { return first + number * step; }
  int number(int rank) const { return (rank - first) / step; }
};

// f32 numbers that are added up over ranks, in an order that the carrier chooses.
struct Reduced {
  const float* from;  // all of them
  float* to;          // all of them, or this rank's piece
  Divided divided;    // in bytes
};

// All ranks make the same calls in the same order; each returns when this rank's part is done. Not
// to be called by two threads at a time. RankError where a rank does not answer in time.
class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int local_size() const = 0;  // ranks of the same machine
  virtual int local_rank() const = 0;  // its number among them
  virtual int machine() const = 0;     // the lowest rank of the same machine
  // Where every machine has as many ranks, those of one behind those of another: how many. Else
  // size(): levels are not told apart.
  virtual int per_node() const = 0;
  virtual std::string description() const = 0;  // "Open MPI 4.1.4"

  // Of tensors that each of the peers has whole: `to` gets a row of a piece for each of them, row i
  // what the i-th has of this rank's piece.
  virtual void all_to_all(std::span<const Exchanged> tensors, const Peers& peers) = 0;
  void all_to_all(std::span<const Exchanged> tensors) { all_to_all(tensors, {.count = size()}); }
  // Of tensors of which every rank has its piece: `to` gets the whole. `from` may be its place
  // there.
  virtual void all_gather(std::span<const Exchanged> tensors) = 0;
  virtual void all_reduce(std::span<const Reduced> tensors) = 0;
  virtual void reduce_scatter(std::span<const Reduced> tensors) = 0;

  // A few bytes of the host's between steps: `all` gets size() rows, row q is rank q's.
  virtual void share(const void* mine, void* all, int64_t bytes) = 0;
  // Of another rank, to rank 0; the ranks that are neither do nothing.
  virtual void bring(void* data, int64_t bytes, int from) = 0;
  // Ends all ranks, where this one cannot go on. To be called once its own error is told.
  [[noreturn]] void abandon(int exit_code) {
    end_all(exit_code);
    std::_Exit(exit_code);
  }

  // After how many seconds a rank that does not answer is given up.
  virtual void set_timeout(double seconds) = 0;
  // What the ranks are doing, for errors: "step 12". Any thread may ask.
  void set_activity(std::string activity) {
    const std::lock_guard lock(mutex_);
    activity_ = std::move(activity);
  }
  std::string activity() const {
    const std::lock_guard lock(mutex_);
    return activity_;
  }
  // Bytes that this rank has sent to others in collective calls (share() and bring() apart).
  int64_t sent_bytes() const { return sent_bytes_; }

 protected:
  virtual void end_all(int exit_code) = 0;
  void count_sent(int64_t bytes) { sent_bytes_ += bytes; }

 private:
  mutable std::mutex mutex_;
  std::string activity_ = "the start";
  int64_t sent_bytes_ = 0;
};

// One value of every rank's, by rank.
template <class T> std::vector<T> share_among(Group& group, const T& mine) {
  std::vector<T> all(size_t(group.size()));
  group.share(&mine, all.data(), int64_t(sizeof(T)));
  return all;
}

}  // namespace pal
