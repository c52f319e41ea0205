// Looking at the communicator and the marks, twenty times a second.
#include <utility>

#include "core/cuda/nccl_group.h"

namespace pal {
namespace {

using namespace std::chrono_literals;

constexpr auto kLook = 50ms;
// For a call that is being made, which may itself be what hangs.
constexpr auto kCall = 1s;

}  // namespace

NcclWatcher::NcclWatcher(Watched watched, std::shared_ptr<LostRanks> lost,
                         std::function<void(const std::string&)> tell)
    : watched_(std::move(watched)),
      lost_(std::move(lost)),
      tell_(std::move(tell)),
      thread_([this] { run(); }) {}

void NcclWatcher::waits_in(std::string call) {
  const std::lock_guard lock(mutex_);
  waits_in_ = std::move(call);
  since_ = std::chrono::steady_clock::now();
}

bool NcclWatcher::watch(NcclComm comm) {
  const std::lock_guard lock(mutex_);
  if (!comm && lost_->is_set()) return false;
  comm_ = comm;
  return true;
}

void NcclWatcher::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void NcclWatcher::run() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kLook, [&] { return stopped_; })) {
    const std::string why = look();
    if (why.empty()) continue;
    lost_->set(why);
    const NcclComm comm = std::exchange(comm_, nullptr);
    lock.unlock();
    if (comm) {
      const bool alone = calls_.try_lock_for(kCall);
      watched_.nccl.abort(comm);
      if (alone) calls_.unlock();
    }
    lock.lock();
    const std::chrono::duration<double> wake(watched_.wake);
    if (changed_.wait_for(lock, wake, [&] { return stopped_; })) return;
    lock.unlock();
    if (tell_) tell_(why);
    return;
  }
}

std::string NcclWatcher::look() {
  NcclStatus status = NcclStatus::success;
  if (comm_) watched_.nccl.async_error(comm_, &status);
  if (status != NcclStatus::success && status != NcclStatus::in_progress) {
    return "NCCL: " + std::string(watched_.nccl.error_string(status)) + ", in or before " +
           watched_.exchange() + kGoOnFromCheckpoint;
  }
  // The device writes the end behind the beginning, so an old end only looks longer.
  const uint64_t ended = watched_.marks->ended, begun = watched_.marks->begun;
  const auto now = std::chrono::steady_clock::now();
  const bool waits = !waits_in_.empty() || begun != ended;
  if (!waits || begun != begun_ || ended != ended_) since_ = now, begun_ = begun, ended_ = ended;
  const double seconds = std::chrono::duration<double>(now - since_).count();
  if (seconds < watched_.timeout) return "";
  return "some rank did not answer for " + std::to_string(int64_t(seconds)) + " s, in " +
         (waits_in_.empty() ? watched_.exchange() : waits_in_) + kGoOnFromCheckpoint +
         kRaiseTimeout;
}

}  // namespace pal
