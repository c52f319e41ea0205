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

// Milliseconds of ssdc_encode and ssdc_decode (csr) over the maps between ReLU or pooling and a
// convolution, on made-up maps of this density.
struct SsdcTimes {
  int64_t maps = 0;
  double encode = 0, decode = 0;
};
SsdcTimes ssdc_times(const Program& recorded, double density, int runs);

// A step's time with the plan's encodings against without, alternating, `steps` of each.
ReproducedTable encoded_step_times(std::span<const NetworkAtBatch> networks, int64_t steps,
                                   const DeviceProfile& device);
// The time of each kind of node that encodings add, where every eligible map is encoded.
ReproducedTable encoding_kernel_times(std::span<const NetworkAtBatch> networks, int64_t steps);

}  // namespace pal
