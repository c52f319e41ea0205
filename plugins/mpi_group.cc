// The ranks of a run over MPI: libpal_mpi.so, opened only where a launcher has started several
// processes (core/ranks/launch.h), so that nobody else needs MPI.
//
// Bytes go from rank to rank in messages of their own: who does not answer has a name. Waiting
// polls, so that a rank that hangs is found out, and leaves the processor to others in between.
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>

#include "core/ranks/group.h"

namespace pal {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMostBytes = int64_t(1) << 30;  // of a message: MPI counts in int
constexpr int64_t kSmall = 64 << 10;              // of a tensor's part; larger ones travel alone
constexpr int kSpins = 2000;                      // polls before a waiting rank sleeps

void check(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw RankError(std::string(call) + ": " + std::string(text, size_t(length)));
}

// Messages under way, and whom each is for. Kept from one exchange to the next, so that a step
// allocates nothing but MPI's types of what is small, which goes to a rank in one message: both
// sides name it in one order.
class Messages {
 public:
  Messages() = default;
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  void receive(std::byte* to, int64_t bytes, int from) {
    if (bytes < kSmall) return received_.add(from, to, bytes);
    const std::lock_guard alone(*calls_);
    each_part(bytes, [&](int64_t begin, int count) {
      check(MPI_Irecv(to + begin, count, MPI_BYTE, from, 0, comm_, add(from)), "MPI_Irecv");
    });
  }
  void send(const std::byte* from, int64_t bytes, int to) {
    if (bytes < kSmall) return sent_.add(to, from, bytes);
    const std::lock_guard alone(*calls_);
    each_part(bytes, [&](int64_t begin, int count) {
      check(MPI_Isend(from + begin, count, MPI_BYTE, to, 0, comm_, add(to)), "MPI_Isend");
    });
  }
  // Another collective of MPI's: `call` is given its request.
  template <class F> void begin(const char* name, int peer, F call) {
    const std::lock_guard alone(*calls_);
    check(call(comm_, add(peer)), name);
  }
  // `calls`: held during each call of MPI.
  void open(MPI_Comm comm, int rank, int size, std::timed_mutex& calls) {
    comm_ = comm, rank_ = rank, calls_ = &calls;
    for (Small* each : {&received_, &sent_}) each->of_rank.resize(size_t(size));
  }
  void close() { MPI_Comm_free(&comm_); }
  Messages& start() {
    requests_.clear(), peers_.clear();
    received_.clear(), sent_.clear();
    return *this;
  }
  // Until all have arrived.
  void finish(double seconds, const char* call, const Group& group) {
    begin_small();
    const Clock::time_point begin = Clock::now();
    for (int polls = 0;; ++polls) {
      int done = 0;
      {
        const std::lock_guard alone(*calls_);
        check(MPI_Testall(int(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE),
              call);
      }
      if (done) return;
      if (polls < kSpins) {
        sched_yield();
        continue;
      }
      usleep(50);
      if (polls % 256) continue;
      const double waited = std::chrono::duration<double>(Clock::now() - begin).count();
      if (waited > seconds) give_up(waited, call, group.activity());
    }
  }

 private:
  // By rank, what travels together.
  struct Small {
    struct Blocks {
      std::vector<int> bytes;
      std::vector<MPI_Aint> at;
    };
    std::vector<Blocks> of_rank;
    std::vector<int> ranks;  // that have some

    void add(int rank, const void* at, int64_t bytes) {
      if (bytes == 0) return;
      Blocks& blocks = of_rank[size_t(rank)];
      if (blocks.bytes.empty()) ranks.push_back(rank);
      blocks.bytes.push_back(int(bytes));
      MPI_Get_address(at, &blocks.at.emplace_back());
    }
    void clear() {
      for (const int rank : ranks)
        of_rank[size_t(rank)].bytes.clear(), of_rank[size_t(rank)].at.clear();
      ranks.clear();
    }
  };
  void begin_small() {
    const std::lock_guard alone(*calls_);
    const auto each = [&](const Small& small, auto call) {
      for (const int rank : small.ranks) {
        const Small::Blocks& blocks = small.of_rank[size_t(rank)];
        MPI_Datatype type = MPI_DATATYPE_NULL;
        check(MPI_Type_create_hindexed(int(blocks.at.size()), blocks.bytes.data(), blocks.at.data(),
                                       MPI_BYTE, &type),
              "MPI_Type_create_hindexed");
        check(MPI_Type_commit(&type), "MPI_Type_commit");
        call(type, rank);
        MPI_Type_free(&type);  // once the message is there
      }
    };
    each(received_, [&](MPI_Datatype type, int rank) {
      check(MPI_Irecv(MPI_BOTTOM, 1, type, rank, 0, comm_, add(rank)), "MPI_Irecv");
    });
    each(sent_, [&](MPI_Datatype type, int rank) {
      check(MPI_Isend(MPI_BOTTOM, 1, type, rank, 0, comm_, add(rank)), "MPI_Isend");
    });
  }
  template <class F> static void each_part(int64_t bytes, F f) {
    for (int64_t at = 0; at < bytes; at += kMostBytes) {
      f(at, int(std::min(kMostBytes, bytes - at)));
    }
  }
  MPI_Request* add(int peer) {
    peers_.push_back(peer);
    return &requests_.emplace_back(MPI_REQUEST_NULL);
  }
  [[noreturn]] void give_up(double waited, const char* call, const std::string& activity) {
    // MPI_Testall has left all as they were: which have come?
    std::vector<int> come(requests_.size());
    int count = 0;
    const std::lock_guard alone(*calls_);
    check(MPI_Testsome(int(requests_.size()), requests_.data(), &count, come.data(),
                       MPI_STATUSES_IGNORE),
          call);
    std::set<int> missing;
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] != MPI_REQUEST_NULL && peers_[i] != rank_) missing.insert(peers_[i]);
    }
    std::string who;
    for (const int peer : missing) who += (who.empty() ? "" : ", ") + std::to_string(peer);
    // Of a library's sum it is not to be told.
    throw RankError((who.empty() ? "some rank" : "rank " + who) + " did not answer for " +
                    std::to_string(int64_t(waited)) + " s, in " + call + " at " + activity +
                    kGoOnFromCheckpoint + kRaiseTimeout);
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  std::timed_mutex* calls_ = nullptr;
  std::vector<MPI_Request> requests_;
  std::vector<int> peers_;
  Small received_, sent_;
};

class MpiGroup final : public Group {
 public:
  MpiGroup() {
    int given = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &given), "MPI_Init_thread");
    if (given < MPI_THREAD_SERIALIZED) {
      throw UsageError("ranks: this MPI cannot be called by more than one thread");
    }
    // Tensors and the few bytes between steps do not meet.
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    for (Messages* each : {&tensors_, &words_}) {
      MPI_Comm comm = MPI_COMM_NULL;
      check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
      MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
      each->open(comm, rank_, size_, calls_);
    }
    MPI_Comm local = MPI_COMM_NULL;
    check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &local),
          "MPI_Comm_split_type");
    MPI_Comm_size(local, &local_size_);
    MPI_Comm_rank(local, &local_rank_);
    machine_ = rank_;
    MPI_Bcast(&machine_, 1, MPI_INT, 0, local);
    MPI_Comm_free(&local);
    find_levels();
  }
  ~MpiGroup() override {
    tensors_.close();
    words_.close();
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_size() const override { return local_size_; }
  int local_rank() const override { return local_rank_; }
  int per_node() const override { return per_node_; }
  int machine() const override { return machine_; }
  std::string description() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(text, &length);
    const std::string all(text, size_t(length));
    return all.substr(0, all.find_first_of(",\n"));
  }

  using Group::all_to_all;
  void all_to_all(std::span<const Exchanged> tensors, const Peers& peers) override {
    Messages& messages = tensors_.start();
    const int own = peers.number(rank_);
    for (const Exchanged& x : tensors) {
      each_peer(peers, [&](int i) {
        messages.receive(x.to + i * x.row_bytes(), x.bytes_of(own), peers.rank(i));
      });
    }
    for (const Exchanged& x : tensors) {
      each_peer(peers, [&](int i) { send(messages, x.from_of(i), x.bytes_of(i), peers.rank(i)); });
      std::memcpy(x.to + own * x.row_bytes(), x.from_of(own), size_t(x.bytes_of(own)));
    }
    messages.finish(timeout_, "all_to_all", *this);
  }

  // By levels: pieces between machines first, then all that a rank has inside of its own.
  void all_gather(std::span<const Exchanged> tensors) override {
    const int here = per_node(), nodes = size_ / here;
    for (const Exchanged& x : tensors) {
      std::byte* const own = x.to + x.divided.begin(rank_);
      if (own != x.from) std::memmove(own, x.from, size_t(x.divided.bytes(rank_)));
    }
    const Peers between{rank_ % here, here, nodes};
    if (nodes > 1) {
      Messages& messages = tensors_.start();
      gather(messages, tensors, between, {.first = rank_, .count = 1});
      messages.finish(timeout_, "all_gather", *this);
    }
    if (here == 1) return;
    Messages& messages = tensors_.start();
    gather(messages, tensors, {rank_ / here * here, 1, here}, between);
    messages.finish(timeout_, "all_gather", *this);
  }

  void all_reduce(std::span<const Reduced> tensors) override {
    Messages& messages = tensors_.start();
    for (const Reduced& x : tensors) {
      const int count = floats(x.divided.whole);
      if (x.from != x.to) std::memcpy(x.to, x.from, size_t(x.divided.whole));
      messages.begin("MPI_Iallreduce", rank_, [&](MPI_Comm comm, MPI_Request* request) {
        return MPI_Iallreduce(MPI_IN_PLACE, x.to, count, MPI_FLOAT, MPI_SUM, comm, request);
      });
      count_sent(2 * (x.divided.whole - x.divided.bytes(rank_)));
    }
    messages.finish(timeout_, "all_reduce", *this);
  }

  void reduce_scatter(std::span<const Reduced> tensors) override {
    Messages& messages = tensors_.start();
    counts_.resize(tensors.size() * size_t(size_));  // read until the end
    int* each = counts_.data();
    for (const Reduced& x : tensors) {
      for (int q = 0; q < size_; ++q) each[q] = floats(x.divided.bytes(q));
      messages.begin("MPI_Ireduce_scatter", rank_, [&](MPI_Comm comm, MPI_Request* request) {
        return MPI_Ireduce_scatter(x.from, x.to, each, MPI_FLOAT, MPI_SUM, comm, request);
      });
      count_sent(x.divided.whole - x.divided.bytes(rank_));
      each += size_;
    }
    messages.finish(timeout_, "reduce_scatter", *this);
  }

  void share(const void* mine, void* all, int64_t bytes) override {
    Messages& messages = words_.start();
    auto* const rows = static_cast<std::byte*>(all);
    const auto* const own = static_cast<const std::byte*>(mine);
    each_peer([&](int peer) { messages.receive(rows + peer * bytes, bytes, peer); });
    each_peer([&](int peer) { messages.send(own, bytes, peer); });
    std::memcpy(rows + rank_ * bytes, own, size_t(bytes));
    messages.finish(timeout_, "the talk between steps", *this);
  }
  void bring(void* data, int64_t bytes, int from) override {
    Messages& messages = words_.start();
    if (rank_ == 0) messages.receive(static_cast<std::byte*>(data), bytes, from);
    if (rank_ == from) messages.send(static_cast<std::byte*>(data), bytes, 0);
    messages.finish(timeout_, "the gathering of a checkpoint", *this);
  }
  void set_timeout(double seconds) override { timeout_ = seconds; }

 private:
  // Levels may be tried on one machine: PAL_RANKS_PER_NODE ranks stand for one.
  void find_levels() {
    if (const char* told = std::getenv("PAL_RANKS_PER_NODE")) {
      per_node_ = std::atoi(told);
      if (per_node_ >= 1 && size_ % per_node_ == 0) return;
      throw UsageError("ranks: PAL_RANKS_PER_NODE is " + std::string(told) + ", and " +
                       std::to_string(size_) + " ranks are not so many machines of that");
    }
    std::vector<int> machines(static_cast<size_t>(size_));
    check(MPI_Allgather(&machine_, 1, MPI_INT, machines.data(), 1, MPI_INT, MPI_COMM_WORLD),
          "MPI_Allgather");
    bool even = size_ % local_size_ == 0;
    for (int q = 0; q < size_; ++q) even &= machines[size_t(q)] == q / local_size_ * local_size_;
    per_node_ = even ? local_size_ : size_;
  }
  // By any thread, while another may be waiting here for the ranks. One that hangs inside MPI is
  // not waited for: the launcher ends the others once this process has ended.
  void end_all(int exit_code) override {
    const std::unique_lock alone(calls_, std::chrono::seconds(1));
    if (alone) MPI_Abort(MPI_COMM_WORLD, exit_code);
  }
  template <class F> void each_peer(F f) const { each_peer({.count = size_}, f); }
  // Their numbers, the next rank first, so that none is flooded.
  template <class F> void each_peer(const Peers& peers, F f) const {
    for (int i = 1; i < peers.count; ++i) f((peers.number(rank_) + i) % peers.count);
  }
  // Of every peer the pieces that it has: those of the ranks that stand to it as `has` to this one.
  void gather(Messages& messages, std::span<const Exchanged> tensors, const Peers& peers,
              const Peers& has) {
    const auto each = [&](int peer, const Exchanged& x, auto f) {
      for (int k = 0; k < has.count; ++k) {
        const int piece = has.rank(k) + peer - rank_;
        f(x.to + x.divided.begin(piece), x.divided.bytes(piece));
      }
    };
    for (const Exchanged& x : tensors) {
      each_peer(peers, [&](int i) {
        const int peer = peers.rank(i);
        each(peer, x, [&](std::byte* at, int64_t bytes) { messages.receive(at, bytes, peer); });
      });
    }
    for (const Exchanged& x : tensors) {
      each_peer(peers, [&](int i) {
        each(rank_, x,
             [&](std::byte* at, int64_t bytes) { send(messages, at, bytes, peers.rank(i)); });
      });
    }
  }
  void send(Messages& messages, const std::byte* from, int64_t bytes, int peer) {
    messages.send(from, bytes, peer);
    count_sent(bytes);
  }
  static int floats(int64_t bytes) {
    const int64_t count = bytes / int64_t(sizeof(float));
    if (count > INT32_MAX) {
      throw UsageError("ranks: a tensor of " + std::to_string(count) +
                       " numbers is too large for MPI to add up; use train.reduction: ordered");
    }
    return int(count);
  }

  std::timed_mutex calls_;  // of MPI, which takes one at a time
  Messages tensors_, words_;
  std::vector<int> counts_;
  int rank_ = 0, size_ = 1, local_size_ = 1, local_rank_ = 0, machine_ = 0, per_node_ = 1;
  double timeout_ = 300;
};

}  // namespace
}  // namespace pal

extern "C" pal::Group* PAL_OPEN_GROUP() { return new pal::MpiGroup(); }
