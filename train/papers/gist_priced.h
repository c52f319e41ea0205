// What Gist's figures 15 and 16 are made of: predicted times of steps whose maps are swapped or
// encoded.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "memory/price/predict.h"
#include "ops/encodings/dpr.h"
#include "train/papers/reproduce_gist.h"

namespace pal {

// Milliseconds of a step; of the program's nodes in their order.
struct SwapTimes {
  double plain = 0;  // nothing is swapped
  // By memory.swap (memory/swap/swap.h). planned: within the bytes that vdnn_all takes.
  double naive = 0, vdnn_conv = 0, vdnn_all = 0, planned = 0;
};
SwapTimes swap_times(const Program& program, const DeviceProfile& device);

// Milliseconds of the step with Binarize and, where there is a format, rounded maps: predicted of
// the nodes of the pass for every eligible map. What SSDC is meant for is not rounded by nodes but
// priced as csr of this density (its values in the format), as bytes read and written twice.
// `measured`: densities by map in place of that one; a map without stays as it is.
double encoded_ms(const Program& program, const GistFootprint& footprint, std::optional<Dpr> format,
                  double density, const DeviceProfile& device,
                  const std::map<ValueId, double>* measured = nullptr);

// The smallest format of figure 12 that trains the network.
Dpr smallest_dpr(const std::string& network);

// The largest batch whose maps, at so many bytes a sample, fit beside `fixed` bytes; 0: none.
int64_t batch_that_fits(int64_t capacity, int64_t fixed, double bytes_per_sample);

// Figure 16's tables for CIFAR's ResNets of these depths, within the device's capacity; `paper`:
// what it says of the depth, or "-". `density`: of what csr stores, assumed.
struct DeepNetwork {
  int64_t depth;
  const char* paper;
};
std::vector<ReproducedTable> deeper_tables(std::span<const DeepNetwork> depths,
                                           const DeviceProfile& device,
                                           double density = kGistDensity);

}  // namespace pal
