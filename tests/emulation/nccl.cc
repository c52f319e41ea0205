// libnccl.so.2 for ranks on emulated GPUs: processes of one machine, which find each other by the
// name of a piece of shared memory and send bytes through rings in it. Opened as the library is, so
// that finding it and what it lacks are tried too. Work is queued on streams, begins after a random
// while, and takes what its peers bring as it comes; a peer that brings something else is an error
// here, where the library would wait or mix it up. Sums go from the last rank to the first, so that
// nobody takes their order for the tree's.
//
// PAL_EMULATED_NCCL has what is to go wrong, with commas between: error=N:R, where rank R's Nth
// piece of work fails; hang=N:R, where it never ends; version=C:R, what rank R says of itself;
// refuse_recording.
#include "core/cuda/nccl.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/emulation/nccl_end.h"

using pal::NcclComm;
using pal::NcclId;
using pal::NcclStatus;
using pal::NcclSum;
using pal::NcclType;

#ifndef PAL_NCCL_CODE
#define PAL_NCCL_CODE 22809
#endif

namespace {

constexpr int kMostRanks = 8;
constexpr size_t kRing = size_t(1) << 16;
constexpr size_t kTaken = size_t(3) << 20;  // bytes of a device's memory, for each rank

enum class Kind : uint32_t { message, all_gather, all_reduce, reduce_scatter, reduce };

struct Channel {  // from one rank to another
  std::atomic<uint64_t> written, read;
  char ring[kRing];
};
struct Shared {
  std::atomic<int> joined, failed;
  Channel channels[kMostRanks][kMostRanks];  // from, to
};

// "error=30:1" of a word: 30 where this is rank 1; -1: nothing of it.
int64_t told(const std::string& word, int rank) {
  const char* all = std::getenv("PAL_EMULATED_NCCL");
  const std::string text = all ? "," + std::string(all) + "," : "";
  const size_t at = text.find("," + word + "=");
  if (at == std::string::npos) return -1;
  const size_t begin = at + word.size() + 2, colon = text.find(':', begin);
  return std::stoi(text.substr(colon + 1)) == rank ? std::stoll(text.substr(begin)) : -1;
}
bool refuses_recording() {
  const char* all = std::getenv("PAL_EMULATED_NCCL");
  return all && std::string(all).find("refuse_recording") != std::string::npos;
}

}  // namespace

struct pal::NcclCommunicator {
  Shared* shared = nullptr;
  int rank = 0, ranks = 1;
  void* taken = nullptr;
  std::atomic<bool> given_up{false};
  std::atomic<NcclStatus> status{NcclStatus::success};
  int64_t works = 0;  // done so far
  std::mt19937 random{std::random_device()()};
};

namespace {

struct Head {
  Kind kind;
  uint32_t from;
  uint64_t bytes;
};
struct Transfer {
  bool sends;
  int peer;
  std::byte* data;
  size_t bytes;
  Kind kind;
  size_t done = 0;  // of the head and then of the data
};
struct Sum {  // of all ranks' numbers, own ones included
  std::vector<const float*> of;
  float* to;
  size_t count;
};
struct Call {
  Kind kind;
  const std::byte* from;
  std::byte* to;
  size_t bytes;  // of a message, a piece, or all
  int peer = 0;  // or the root
  bool sends = false;
};

// Moves what the ring has room for, or has.
size_t push(Channel& c, const std::byte* data, size_t bytes) {
  const uint64_t written = c.written.load(), free = kRing - (written - c.read.load());
  const size_t n = std::min<size_t>(bytes, free);
  for (size_t i = 0; i < n; ++i) c.ring[(written + i) % kRing] = char(data[i]);
  c.written.store(written + n);
  return n;
}
size_t pull(Channel& c, std::byte* data, size_t bytes) {
  const uint64_t read = c.read.load(), ready = c.written.load() - read;
  const size_t n = std::min<size_t>(bytes, ready);
  for (size_t i = 0; i < n; ++i) data[i] = std::byte(c.ring[(read + i) % kRing]);
  c.read.store(read + n);
  return n;
}

// One group of calls on a stream, as the device does it.
class WorkOfGroup {
 public:
  WorkOfGroup(NcclComm comm, const std::vector<Call>& calls) : comm_(*comm) {
    for (const Call& call : calls) add(call);
  }
  void run() {
    if (comm_.given_up) return;
    usleep(unsigned(comm_.random() % 200));
    const int64_t number = comm_.works++;
    if (number == told("error", comm_.rank)) {
      comm_.status = NcclStatus::unhandled_cuda_error;
      comm_.shared->failed = 1;
      return wait_for_end();
    }
    if (number == told("hang", comm_.rank)) return wait_for_end();
    while (!move()) {
      if (comm_.given_up) return;
    }
    for (const Sum& sum : sums_) add_up(sum);
  }

 private:
  void wait_for_end() const {
    while (!comm_.given_up) usleep(1000);
  }
  void send(int peer, const std::byte* data, size_t bytes, Kind kind) {
    transfers_[{peer, true}].push_back({true, peer, const_cast<std::byte*>(data), bytes, kind});
  }
  void receive(int peer, std::byte* data, size_t bytes, Kind kind) {
    transfers_[{peer, false}].push_back({false, peer, data, bytes, kind});
  }
  float* bring(int peer, size_t bytes, Kind kind) {
    others_.push_back(std::make_unique<float[]>(bytes / sizeof(float)));
    receive(peer, reinterpret_cast<std::byte*>(others_.back().get()), bytes, kind);
    return others_.back().get();
  }
  void add(const Call& call) {
    const auto floats = [](const std::byte* data) { return reinterpret_cast<const float*>(data); };
    const auto each_peer = [&](auto f) {
      for (int q = 0; q < comm_.ranks; ++q) {
        if (q != comm_.rank) f(q);
      }
    };
    // Sums: what all have brought, of this rank's own from here on.
    const auto sum_of = [&](const std::byte* own) {
      std::vector<const float*> of;
      for (int q = 0; q < comm_.ranks; ++q) {
        of.push_back(q == comm_.rank ? floats(own) : bring(q, call.bytes, call.kind));
      }
      sums_.push_back({of, reinterpret_cast<float*>(call.to), call.bytes / sizeof(float)});
    };
    switch (call.kind) {
      case Kind::message:
        if (call.sends) return send(call.peer, call.from, call.bytes, call.kind);
        return receive(call.peer, call.to, call.bytes, call.kind);
      case Kind::all_gather: {
        each_peer([&](int q) {
          send(q, call.from, call.bytes, call.kind);
          receive(q, call.to + size_t(q) * call.bytes, call.bytes, call.kind);
        });
        std::byte* const own = call.to + size_t(comm_.rank) * call.bytes;
        if (own != call.from) std::memmove(own, call.from, call.bytes);
        return;
      }
      case Kind::all_reduce:
        each_peer([&](int q) { send(q, call.from, call.bytes, call.kind); });
        return sum_of(call.from);
      case Kind::reduce_scatter:
        each_peer(
            [&](int q) { send(q, call.from + size_t(q) * call.bytes, call.bytes, call.kind); });
        return sum_of(call.from + size_t(comm_.rank) * call.bytes);
      case Kind::reduce:
        if (call.peer == comm_.rank) return sum_of(call.from);
        return send(call.peer, call.from, call.bytes, call.kind);
    }
  }
  // True: all is done.
  bool move() {
    bool all = true, any = false;
    for (auto& [whom, queue] : transfers_) {
      while (!queue.empty()) {
        const size_t before = queue.front().done;
        const bool done = move(queue.front());
        any |= queue.front().done > before;
        if (!done) break;
        queue.pop_front();
      }
      all &= queue.empty();
    }
    if (!any && !all) usleep(30);
    return all;
  }
  bool move(Transfer& t) {
    Channel& c = t.sends ? comm_.shared->channels[comm_.rank][t.peer]
                         : comm_.shared->channels[t.peer][comm_.rank];
    if (t.sends) {
      const Head head{t.kind, uint32_t(comm_.rank), t.bytes};
      if (t.done < sizeof head) {
        t.done += push(c, reinterpret_cast<const std::byte*>(&head) + t.done, sizeof head - t.done);
      }
      if (t.done >= sizeof head) {
        const size_t at = t.done - sizeof head;
        t.done += push(c, t.data + at, t.bytes - at);
      }
    } else {
      if (t.done < sizeof(Head)) {
        t.done +=
            pull(c, reinterpret_cast<std::byte*>(&head_[t.peer]) + t.done, sizeof(Head) - t.done);
        if (t.done == sizeof(Head)) check(t, head_[t.peer]);
      }
      if (t.done >= sizeof(Head)) {
        const size_t at = t.done - sizeof(Head);
        t.done += pull(c, t.data + at, t.bytes - at);
      }
    }
    return t.done == sizeof(Head) + t.bytes;
  }
  void check(const Transfer& t, const Head& head) const {
    if (head.kind == t.kind && head.bytes == t.bytes && int(head.from) == t.peer) return;
    throw std::runtime_error("emulation: NCCL: rank " + std::to_string(comm_.rank) + " waits for " +
                             std::to_string(t.bytes) + " bytes of call " +
                             std::to_string(int(t.kind)) + ", rank " + std::to_string(head.from) +
                             " sends " + std::to_string(head.bytes) + " of call " +
                             std::to_string(int(head.kind)));
  }
  static void add_up(const Sum& sum) {
    std::vector<float> all(sum.count, 0.0f);
    for (size_t q = sum.of.size(); q-- > 0;) {
      for (size_t i = 0; i < sum.count; ++i) all[i] += sum.of[q][i];
    }
    std::copy(all.begin(), all.end(), sum.to);
  }

  pal::NcclCommunicator& comm_;
  std::map<std::pair<int, bool>, std::deque<Transfer>> transfers_;  // by peer, and whether it sends
  std::vector<std::unique_ptr<float[]>> others_;
  std::vector<Sum> sums_;
  Head head_[kMostRanks] = {};
};

// Calls between ncclGroupStart and ncclGroupEnd, of this thread.
thread_local int depth = 0;
thread_local std::map<std::pair<NcclComm, cudaStream_t>, std::vector<Call>> grouped;

NcclStatus queue_group() {
  NcclStatus status = NcclStatus::success;
  for (auto& [where, calls] : grouped) {
    const auto [comm, stream] = where;
    if (comm->given_up) throw std::runtime_error("emulation: NCCL: the communicator is gone");
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    cudaStreamIsCapturing(stream, &capture);
    if (capture != cudaStreamCaptureStatusNone && refuses_recording()) {
      status = NcclStatus::invalid_usage;
      continue;
    }
    pal::emulation::enqueue(stream,
                            [comm = comm, calls = calls] { WorkOfGroup(comm, calls).run(); });
  }
  grouped.clear();
  return status;
}

NcclStatus make_call(const Call& call, NcclComm comm, cudaStream_t stream) {
  grouped[{comm, stream}].push_back(call);
  return depth == 0 ? queue_group() : NcclStatus::success;
}
size_t bytes_of(size_t count, NcclType type) { return count * (type == NcclType::f32 ? 4 : 1); }
const std::byte* as_bytes(const void* p) { return static_cast<const std::byte*>(p); }
std::byte* as_bytes(void* p) { return static_cast<std::byte*>(p); }

Shared* open_shared(const char* name, int flags) {
  const int file = shm_open(name, flags, 0600);
  if (file < 0) return nullptr;
  if ((flags & O_CREAT) && ftruncate(file, sizeof(Shared)) != 0) return close(file), nullptr;
  void* const at = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return at == MAP_FAILED ? nullptr : static_cast<Shared*>(at);
}

}  // namespace

extern "C" {

NcclStatus ncclGetVersion(int* code) {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const int64_t other = told("version", rank ? std::atoi(rank) : 0);
  *code = other > 0 ? int(other) : PAL_NCCL_CODE;
  return NcclStatus::success;
}
const char* ncclGetErrorString(NcclStatus status) {
  switch (status) {
    case NcclStatus::success: return "no error";
    case NcclStatus::unhandled_cuda_error: return "unhandled cuda error";
    case NcclStatus::invalid_usage: return "invalid usage";
    case NcclStatus::remote_error: return "remote process exited or there was a network error";
    default: return "an error";
  }
}
NcclStatus ncclGetUniqueId(NcclId* id) {
  static std::atomic<int> number{0};
  std::snprintf(id->bytes, sizeof id->bytes, "/pal-nccl-%d-%d", int(getpid()), number++);
  Shared* const made = open_shared(id->bytes, O_CREAT | O_EXCL | O_RDWR);
  if (!made) return NcclStatus::system_error;
  munmap(made, sizeof(Shared));
  return NcclStatus::success;
}
NcclStatus ncclCommInitRank(NcclComm* comm, int ranks, NcclId id, int rank) {
  if (ranks > kMostRanks) return NcclStatus::invalid_argument;
  auto made = std::make_unique<pal::NcclCommunicator>();
  made->shared = open_shared(id.bytes, O_RDWR), made->rank = rank, made->ranks = ranks;
  if (!made->shared) return NcclStatus::system_error;
  ++made->shared->joined;
  while (made->shared->joined < ranks) usleep(100);  // for ever, as the library would
  if (rank == 0) shm_unlink(id.bytes);
  if (cudaMalloc(&made->taken, kTaken * size_t(ranks)) != cudaSuccess) {
    return NcclStatus::unhandled_cuda_error;
  }
  *comm = made.release();
  return NcclStatus::success;
}
NcclStatus ncclCommDestroy(NcclComm comm) {
  if (pal::emulation::at_nccl_end) pal::emulation::at_nccl_end();
  cudaFree(comm->taken);
  munmap(comm->shared, sizeof(Shared));
  delete comm;
  return NcclStatus::success;
}
// What is queued may still look at it.
NcclStatus ncclCommAbort(NcclComm comm) {
  comm->given_up = true;
  if (pal::emulation::at_nccl_end) pal::emulation::at_nccl_end();
  cudaFree(comm->taken);
  return NcclStatus::success;
}
NcclStatus ncclCommGetAsyncError(NcclComm comm, NcclStatus* found) {
  if (comm->given_up) throw std::runtime_error("emulation: NCCL: the communicator is gone");
  *found = comm->status;
  if (*found == NcclStatus::success && comm->shared->failed) *found = NcclStatus::remote_error;
  return NcclStatus::success;
}
NcclStatus ncclGroupStart() {
  ++depth;
  return NcclStatus::success;
}
NcclStatus ncclGroupEnd() { return --depth == 0 ? queue_group() : NcclStatus::success; }
#ifndef PAL_NCCL_LACKS
NcclStatus ncclSend(const void* from, size_t count, NcclType type, int peer, NcclComm comm,
                    cudaStream_t stream) {
  return make_call({Kind::message, as_bytes(from), nullptr, bytes_of(count, type), peer, true},
                   comm, stream);
}
NcclStatus ncclReduceScatter(const void* whole, void* piece, size_t of_piece, NcclType type,
                             NcclSum, NcclComm comm, cudaStream_t stream) {
  return make_call(
      {Kind::reduce_scatter, as_bytes(whole), as_bytes(piece), bytes_of(of_piece, type)}, comm,
      stream);
}
#endif
NcclStatus ncclRecv(void* to, size_t count, NcclType type, int peer, NcclComm comm,
                    cudaStream_t stream) {
  return make_call({Kind::message, nullptr, as_bytes(to), bytes_of(count, type), peer}, comm,
                   stream);
}
NcclStatus ncclAllGather(const void* piece, void* whole, size_t of_piece, NcclType type,
                         NcclComm comm, cudaStream_t stream) {
  return make_call({Kind::all_gather, as_bytes(piece), as_bytes(whole), bytes_of(of_piece, type)},
                   comm, stream);
}
NcclStatus ncclAllReduce(const void* from, void* to, size_t count, NcclType type, NcclSum,
                         NcclComm comm, cudaStream_t stream) {
  return make_call({Kind::all_reduce, as_bytes(from), as_bytes(to), bytes_of(count, type)}, comm,
                   stream);
}
NcclStatus ncclReduce(const void* from, void* to, size_t count, NcclType type, NcclSum, int root,
                      NcclComm comm, cudaStream_t stream) {
  return make_call({Kind::reduce, as_bytes(from), as_bytes(to), bytes_of(count, type), root}, comm,
                   stream);
}

}  // extern "C"
