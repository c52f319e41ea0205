// Candidates are judged, and placed, side by side on all processors. How many there are changes
// nothing of what comes of them.
#pragma once
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "core/prepare.h"
#include "memory/front/candidate.h"

namespace pal {

class Judge {
 public:
  // All of them outlive it. Nobody asks `cache` while it judges. Without a number of workers, as
  // many as the device's processors.
  Judge(const Program& recorded, KernelCache& cache, const StateLayout& layout,
        const DeviceProfile& device, std::optional<int> workers = {});
  Judge(const Judge&) = delete;
  Judge& operator=(const Judge&) = delete;

  size_t workers() const { return caches_.size(); }
  Candidate judged(Candidate one);
  // Side by side but for those of one family, and beside other work.
  void judge(std::vector<Family>& families, std::vector<std::function<void()>> others = {});
  // Of candidates that were judged.
  std::vector<Plan> plans_of(const std::vector<Candidate>& list) const;

 private:
  const Program& recorded_;
  const StateLayout& layout_;
  const DeviceProfile& device_;
  std::mutex turn_;
  std::vector<KernelCache> caches_;  // of each worker
};

}  // namespace pal
