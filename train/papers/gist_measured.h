// What Gist's figure 9 and its overheads (sections V-C2 and V-D3) are made of: steps that are run
// here with encodings and without.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "memory/price/predict.h"
#include "train/papers/paper_networks.h"
#include "train/papers/reproduce.h"

namespace pal {

struct NetworkAtBatch {
  PaperNetwork network;
  int64_t batch;
};

// Steps with the plan's encodings against one without, alternating, `steps` of each: their times,
// and how many values they encode.
std::vector<ReproducedTable> encoded_step_times(std::span<const NetworkAtBatch> networks,
                                                int64_t steps, const DeviceProfile& device);
// The time of each kind of node that encodings add, where every eligible map is encoded.
ReproducedTable encoding_kernel_times(std::span<const NetworkAtBatch> networks, int64_t steps);

}  // namespace pal
