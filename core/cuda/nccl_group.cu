// Exchanges as NCCL's calls. Pieces that are all of one size travel by the collective of that name;
// others, by messages of their own, or by a sum for each rank. docs/ranks.md.
#include <cstring>
#include <memory>

#include "core/cuda/nccl_group.h"

namespace pal {
namespace {

std::string text_of(const Nccl& library, NcclStatus status) {
  return std::string(library.error_string(status)) + " (" + std::to_string(int(status)) + ")";
}

bool is_being_recorded(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &status) != cudaSuccess) return cudaGetLastError(), true;
  return status != cudaStreamCaptureStatusNone;
}

bool is_even(const Divided& d, int ranks) { return d.whole == d.piece * ranks; }

__global__ void begin_exchange_kernel(volatile ExchangeMarks* marks, uint64_t number) {
  if (threadIdx.x > 0) return;
  marks->last = number;
  __threadfence_system();
  marks->begun = marks->begun + 1;
}
__global__ void end_exchange_kernel(volatile ExchangeMarks* marks) {
  if (threadIdx.x == 0) marks->ended = marks->ended + 1;
}

// Device memory for as long as it lives.
struct TryBytes {
  std::byte* data = nullptr;
  explicit TryBytes(int64_t bytes) {
    check_cuda(cudaMalloc(reinterpret_cast<void**>(&data), size_t(bytes)));
  }
  ~TryBytes() { cudaFree(data); }
  TryBytes(const TryBytes&) = delete;
  TryBytes& operator=(const TryBytes&) = delete;
};

}  // namespace

std::shared_ptr<DeviceGroup> join_devices(const Device& device, const DeviceGroupOptions& options) {
  return std::make_shared<NcclGroup>(device, options);
}

NcclGroup::NcclGroup(const Device& device, const DeviceGroupOptions& options)
    : library_(nccl_library()), accelerator_(device.accelerator), group_(device.group) {
  if (group_) rank_ = group_->rank(), size_ = group_->size();
  marks_ =
      reinterpret_cast<ExchangeMarks*>(accelerator_->allocate(Space::host, sizeof(ExchangeMarks)));
  watcher_ = std::make_unique<NcclWatcher>(
      NcclWatcher::Watched{library_, marks_, [this] { return last_exchange(); }, options.timeout},
      lost_, options.lost);
  try {
    join();
  } catch (...) {
    watcher_->stop();
    if (comm_ && !lost_->is_set()) library_.abort(comm_);
    gpu().heed(nullptr);
    accelerator_->release(Space::host, reinterpret_cast<std::byte*>(marks_));
    throw;
  }
}

// Of other versions, ranks may not understand each other.
void NcclGroup::check_versions() const {
  if (!group_) return;
  int code = 0;
  library_.version(&code);
  const std::vector<int> all = share_among(*group_, code);
  for (size_t q = 1; q < all.size(); ++q) {
    if (all[q] == all[0]) continue;
    throw UsageError("ranks: rank 0 has NCCL " + nccl_version_text(all[0]) + " and rank " +
                     std::to_string(q) + " has " + nccl_version_text(all[q]) +
                     "; all need the same");
  }
}

void NcclGroup::join() {
  check_versions();
  NcclId id{};
  if (rank_ == 0) {
    const NcclStatus made = library_.unique_id(&id);
    if (made != NcclStatus::success) {
      throw RankError("NCCL cannot begin: " + text_of(library_, made));
    }
  }
  if (group_) id = share_among(*group_, id)[0];
  const int64_t before = accelerator_->free_bytes();
  watcher_->waits_in("the start of NCCL");
  const NcclStatus status = library_.init_rank(&comm_, size_, id, rank_);
  if (status != NcclStatus::success) {
    throw RankError("NCCL did not bring the ranks together: " + text_of(library_, status) +
                    " (NCCL_DEBUG=INFO says more)");
  }
  watcher_->watch(comm_);
  watcher_->waits_in("");
  gpu().heed(lost_);
  try_all();
  device_bytes_ = std::max<int64_t>(0, before - accelerator_->free_bytes());
}

// Every call once, so that what NCCL takes of the device's memory is taken now, and counted.
void NcclGroup::try_all() {
  constexpr int64_t kElements = 4096;  // of a piece
  const Divided divided{4 * kElements * size_, 4 * kElements};
  const TryBytes from(divided.whole), to(divided.whole + divided.piece);
  const auto* const floats = reinterpret_cast<const float*>(from.data);
  auto* const sums = reinterpret_cast<float*>(to.data);
  const Queue queue{.stream = accelerator_->stream(kComputeQueue)};
  const Exchanged exchanged[] = {{from.data, to.data, divided}};
  const Reduced reduced[] = {{floats, sums, divided}};
  const Divided uneven{divided.whole - 4, divided.piece};
  const Reduced pieces[] = {{floats, sums, divided}, {floats, sums + kElements, uneven}};
  accelerator_->fill(kComputeQueue, from.data, 0, divided.whole);
  all_to_all(exchanged, queue);
  all_gather(exchanged, queue);
  all_reduce(reduced, queue);
  reduce_scatter(pieces, queue);
  accelerator_->synchronize();
}

NcclGroup::~NcclGroup() {
  // A failure here has no one left to tell, but the watcher still gives up what does not end. After
  // an error of this rank's own the others are elsewhere, and will not end with it.
  const bool fails = std::uncaught_exceptions() > exceptions_;
  try {
    if (!fails) accelerator_->synchronize();
  } catch (const Error&) {
  }
  watcher_->waits_in("the end of NCCL");
  if (watcher_->watch(nullptr)) fails ? library_.abort(comm_) : library_.destroy(comm_);
  watcher_->stop();
  gpu().heed(nullptr);
  accelerator_->release(Space::host, reinterpret_cast<std::byte*>(marks_));
}

std::string NcclGroup::description() const {
  int code = 0;
  library_.version(&code);
  return "NCCL " + nccl_version_text(code);
}

uint64_t NcclGroup::number_of(const char* name, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto [known, added] = numbers_.try_emplace({name, bytes}, names_.size());
  if (added) names_.push_back(std::string(name) + " of " + std::to_string(bytes) + " bytes");
  return known->second;
}

// The host is ahead of the device by two runs at most, so the step may be one before.
std::string NcclGroup::last_exchange() {
  const std::lock_guard lock(mutex_);
  const uint64_t number = static_cast<const volatile ExchangeMarks*>(marks_)->last;
  return (number < names_.size() ? names_[number] : "an exchange") +
         (group_ ? ", at " + group_->activity() + " or shortly before" : "");
}

void NcclGroup::check_lost() const {
  if (lost_->is_set()) throw RankError(lost_->why());
}

template <class F> void NcclGroup::call(const char* name, int64_t bytes, const Queue& queue, F f) {
  check_lost();
  const auto stream = static_cast<cudaStream_t>(queue.stream);
  launch(begin_exchange_kernel, Grid(1), kWarp, 0, stream, marks_, number_of(name, bytes));
  FirstFailure failure;
  {
    const std::lock_guard lock(watcher_->calls());
    check_lost();
    failure.add(library_.group_start());
    f(stream, failure);
    failure.add(library_.group_end());
  }
  if (failure.status != NcclStatus::success) {
    const std::string text = "NCCL: " + text_of(library_, failure.status) + ", in " + name;
    if (is_being_recorded(stream)) throw RecordingRefused(text);
    throw DeviceError(text + " (NCCL_DEBUG=INFO says more)");
  }
  launch(end_exchange_kernel, Grid(1), kWarp, 0, stream, marks_);
}

namespace {

template <class T> int64_t all_bytes(std::span<const T> tensors) {
  int64_t bytes = 0;
  for (const T& x : tensors) bytes += x.divided.whole;
  return bytes;
}

}  // namespace

void NcclGroup::send(const std::byte* from, int64_t bytes, int peer, cudaStream_t stream,
                     FirstFailure& failure) {
  if (bytes == 0) return;
  failure.add(library_.send(from, size_t(bytes), NcclType::bytes, peer, comm_, stream));
}
void NcclGroup::receive(std::byte* to, int64_t bytes, int peer, cudaStream_t stream,
                        FirstFailure& failure) {
  if (bytes == 0) return;
  failure.add(library_.receive(to, size_t(bytes), NcclType::bytes, peer, comm_, stream));
}

void NcclGroup::all_to_all(std::span<const Exchanged> tensors, const Peers& peers,
                           const Queue& queue) {
  int64_t sent = 0;
  for (const Exchanged& x : tensors) {
    for (int i = 0; i < peers.count; ++i) sent += x.bytes_of(i);
  }
  call("all_to_all", sent, queue, [&](cudaStream_t stream, FirstFailure& failure) {
    for (const Exchanged& x : tensors) {
      const int64_t own = x.bytes_of(peers.number(rank_));
      for (int i = 0; i < peers.count; ++i) {
        send(x.from_of(i), x.bytes_of(i), peers.rank(i), stream, failure);
        receive(x.to + i * x.row_bytes(), own, peers.rank(i), stream, failure);
      }
    }
  });
}

// Uneven pieces by levels, as MPI's are (plugins/mpi_group.cc): between machines first, where a
// rank sends its own to those that stand at its place, then all that it has inside of its machine.
void NcclGroup::all_gather(std::span<const Exchanged> tensors, const Queue& queue) {
  const int here = group_ ? group_->per_node() : size_, machines = size_ / here;
  const bool two_levels = here > 1 && machines > 1;
  const Peers between{rank_ % here, here, machines}, inside{rank_ / here * here, 1, here};
  bool uneven = false;
  call("all_gather", all_bytes(tensors), queue, [&](cudaStream_t stream, FirstFailure& failure) {
    for (const Exchanged& x : tensors) {
      const auto own = size_t(x.divided.bytes(rank_));
      if (is_even(x.divided, size_)) {
        failure.add(library_.all_gather(x.from, x.to, own, NcclType::bytes, comm_, stream));
        continue;
      }
      uneven = true;
      const Peers peers = two_levels ? between : Peers{.count = size_};
      for (int i = 0; i < peers.count; ++i) {
        const int peer = peers.rank(i);
        std::byte* const place = x.to + x.divided.begin(peer);
        if (peer == rank_ && place == x.from) continue;
        send(x.from, x.divided.bytes(rank_), peer, stream, failure);
        receive(place, x.divided.bytes(peer), peer, stream, failure);
      }
    }
  });
  if (!two_levels || !uneven) return;
  call("all_gather inside", all_bytes(tensors), queue,
       [&](cudaStream_t stream, FirstFailure& failure) {
         for (const Exchanged& x : tensors) {
           if (is_even(x.divided, size_)) continue;
           for (int i = 0; i < inside.count; ++i) {
             const int peer = inside.rank(i);
             if (peer == rank_) continue;
             for (int k = 0; k < between.count; ++k) {
               const int mine = between.rank(k), theirs = mine + peer - rank_;
               send(x.to + x.divided.begin(mine), x.divided.bytes(mine), peer, stream, failure);
               receive(x.to + x.divided.begin(theirs), x.divided.bytes(theirs), peer, stream,
                       failure);
             }
           }
         }
       });
}

void NcclGroup::all_reduce(std::span<const Reduced> tensors, const Queue& queue) {
  call("all_reduce", all_bytes(tensors), queue, [&](cudaStream_t stream, FirstFailure& failure) {
    for (const Reduced& x : tensors) {
      failure.add(library_.all_reduce(x.from, x.to, size_t(x.divided.whole) / sizeof(float),
                                      NcclType::f32, NcclSum::sum, comm_, stream));
    }
  });
}

void NcclGroup::reduce_scatter(std::span<const Reduced> tensors, const Queue& queue) {
  const auto floats = [](int64_t bytes) { return size_t(bytes) / sizeof(float); };
  call("reduce_scatter", all_bytes(tensors), queue,
       [&](cudaStream_t stream, FirstFailure& failure) {
         for (const Reduced& x : tensors) {
           if (is_even(x.divided, size_)) {
             failure.add(library_.reduce_scatter(x.from, x.to, floats(x.divided.piece),
                                                 NcclType::f32, NcclSum::sum, comm_, stream));
             continue;
           }
           for (int root = 0; root < size_; ++root) {
             if (x.divided.bytes(root) == 0) continue;
             failure.add(library_.reduce(x.from + floats(x.divided.begin(root)), x.to,
                                         floats(x.divided.bytes(root)), NcclType::f32, NcclSum::sum,
                                         root, comm_, stream));
           }
         }
       });
}

}  // namespace pal
