// A job's step as Zico sees it (Lim et al. 2021, section 6.2): feature maps, which live over the
// peak, fill regions in the order in which they are made; all else is local to the job.
#pragma once
#include <cstdint>
#include <vector>

#include "memory/share/gate.h"
#include "memory/share/step_shape.h"

namespace pal {

struct ZicoJob {
  int64_t local_bytes = 0;
  int64_t region_bytes = 0;
  RegionProgram regions;  // of feature maps, numbered in the order in which they are taken

  int64_t count() const;  // of regions
  int64_t bytes() const { return local_bytes + count() * region_bytes; }
};
// Whether a storage is a feature map as Zico tells them: alive over the moment when most bytes are
// (section 6.2). By buffer.
std::vector<char> feature_maps(const StepShape& shape);
ZicoJob zico_job(const StepShape& shape, int64_t region_bytes = int64_t(64) << 20);

}  // namespace pal
