// The ranks of a run on GPUs: NCCL's communicator, one for all that they exchange, and who watches
// it.
#pragma once
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/cuda/device.h"
#include "core/cuda/nccl.h"
#include "core/ranks/device_group.h"
#include "core/ranks/lost_ranks.h"

namespace pal {

// How far exchanges have come: written by the device in the order of their queue, also where they
// are replayed, read by the watcher.
struct ExchangeMarks {
  uint64_t begun, ended;
  uint64_t last;  // the number of the one that began last
};

// Gives up exchanges that fail or do not end: a thread that looks at the communicator and at the
// marks. docs/decisions/nccl-declarations.md says why it is needed.
class NcclWatcher {
 public:
  struct Watched {
    const Nccl& nccl;
    const volatile ExchangeMarks* marks;
    std::function<std::string()> exchange;  // what began last, and what the ranks are doing
    double timeout;                         // seconds
    // Seconds for who waits for the device, to wake up and end the ranks with the error that it is
    // told.
    double wake = 5;
  };
  NcclWatcher(Watched watched, std::shared_ptr<LostRanks> lost,
              std::function<void(const std::string&)> tell);
  ~NcclWatcher() { stop(); }
  NcclWatcher(const NcclWatcher&) = delete;
  NcclWatcher& operator=(const NcclWatcher&) = delete;

  // From here on until the next call: the host waits in NCCL for the other ranks. Empty: it does
  // not.
  void waits_in(std::string call);
  // The communicator that it looks at and gives up; null: there is none any more. False: it has
  // given it up already.
  bool watch(NcclComm comm);
  // Of calls on the communicator, which is not given up between them.
  std::timed_mutex& calls() { return calls_; }
  void stop();

 private:
  void run();
  std::string look();  // what is wrong; empty: nothing

  Watched watched_;
  std::shared_ptr<LostRanks> lost_;
  std::function<void(const std::string&)> tell_;
  std::timed_mutex calls_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  bool stopped_ = false;
  NcclComm comm_ = nullptr;
  std::string waits_in_;
  uint64_t begun_ = 0, ended_ = 0;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  std::thread thread_;  // the last: it uses the others
};

class NcclGroup final : public DeviceGroup {
 public:
  NcclGroup(const Device& device, const DeviceGroupOptions& options);
  ~NcclGroup() override;
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string description() const override;
  int64_t device_bytes() const override { return device_bytes_; }

  using DeviceGroup::all_to_all;
  void all_to_all(std::span<const Exchanged> tensors, const Peers& peers,
                  const Queue& queue) override;
  void all_gather(std::span<const Exchanged> tensors, const Queue& queue) override;
  void all_reduce(std::span<const Reduced> tensors, const Queue& queue) override;
  void reduce_scatter(std::span<const Reduced> tensors, const Queue& queue) override;

 private:
  // The first call of several that did not succeed.
  struct FirstFailure {
    NcclStatus status = NcclStatus::success;
    void add(NcclStatus next) {
      if (status == NcclStatus::success) status = next;
    }
  };

  CudaDevice& gpu() { return static_cast<CudaDevice&>(*accelerator_); }
  void check_versions() const;
  void join();
  void try_all();
  void check_lost() const;
  template <class F> void call(const char* name, int64_t bytes, const Queue& queue, F f);
  void send(const std::byte* from, int64_t bytes, int peer, cudaStream_t stream,
            FirstFailure& failure);
  void receive(std::byte* to, int64_t bytes, int peer, cudaStream_t stream, FirstFailure& failure);
  uint64_t number_of(const char* name, int64_t bytes);
  std::string last_exchange();

  const Nccl& library_;
  std::shared_ptr<Accelerator> accelerator_;
  std::shared_ptr<Group> group_;  // null: one rank alone
  int rank_ = 0, size_ = 1;
  int exceptions_ = std::uncaught_exceptions();  // under way when it was made
  NcclComm comm_ = nullptr;
  int64_t device_bytes_ = 0;
  std::mutex mutex_;  // of what the watcher asks for
  std::map<std::pair<std::string, int64_t>, uint64_t> numbers_;
  std::vector<std::string> names_;  // of exchanges, by number
  ExchangeMarks* marks_ = nullptr;  // in pinned memory
  std::shared_ptr<LostRanks> lost_ = std::make_shared<LostRanks>();
  std::unique_ptr<NcclWatcher> watcher_;
};

}  // namespace pal
