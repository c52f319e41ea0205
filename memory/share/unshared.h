// Jobs that share a device and no memory, as under NVIDIA's MPS: each keeps all that its plan
// takes. A baseline for the simulator. Where that is more than the device has, unified memory (UVM)
// moves pages of 2 MiB between the device and the host: the page used longest ago makes room.
//
// Assumed, since NVIDIA does not document it: a page moves in when a node is about to work on it,
// whatever it holds (the driver does not know that bytes are dead); a page that makes room is
// copied out first, over the same link; faults themselves cost nothing. The last is kind to UVM.
#pragma once
#include <cstdint>
#include <list>
#include <utility>
#include <vector>

#include "memory/plan/plan.h"
#include "memory/share/simulate.h"

namespace pal {

constexpr int64_t kUvmPage = int64_t(2) << 20;

// The pages of its arena that a step touches, by node of compute, as in StepShape::nodes.
struct StepPages {
  int32_t pages = 0;
  // Half-open stretches, each page once.
  std::vector<std::vector<std::pair<int32_t, int32_t>>> touched;
};
StepPages step_pages(const Program& program, const Storages& storages, const Plan& plan,
                     int64_t page_bytes = kUvmPage);

class PagedMemory final : public NodeMemory {
 public:
  // `pages`: by job, by program, all of which must outlive this. The programs of a job have one
  // arena. `link`: bytes a second.
  PagedMemory(std::vector<std::vector<const StepPages*>> pages, int64_t capacity, double link,
              int64_t page_bytes = kUvmPage);

  double fetch_ms(JobId job, size_t program, size_t node) override;
  // Over the link, so far.
  int64_t moved_in() const { return in_ * page_bytes_; }
  int64_t moved_out() const { return out_ * page_bytes_; }

 private:
  struct Page {
    bool on_device = false, on_host = false;
    std::list<std::pair<JobId, int32_t>>::iterator place = {};  // in `used_`
  };
  int touch(JobId job, int32_t page);  // pages that moved

  std::vector<std::vector<const StepPages*>> programs_;
  std::vector<std::vector<Page>> pages_;          // by job
  std::list<std::pair<JobId, int32_t>> used_;     // on the device, the last used first
  int64_t page_bytes_, room_, in_ = 0, out_ = 0;  // room: pages
  double page_ms_;
};

}  // namespace pal
