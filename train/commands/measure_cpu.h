// Measures this machine's processor for a device profile.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/device.h"
#include "memory/price/predict.h"

namespace pal {

struct CpuMeasurement {
  struct Product {
    int64_t m, n, k;
    double flops_per_s;
  };
  struct Stream {
    int64_t bytes;  // touched in a pass: two operands read, one result written
    double bytes_per_s;
  };
  DeviceProfile profile;
  std::vector<Product> products;
  std::vector<Stream> streams;
  bool busy = false;  // all threads were slower than one, so others had them
};

// Times the kernels that training runs: matmul at several sizes, add from cache to main memory,
// tanh, and a program of nodes with next to no work, each for about `seconds`; then the same with
// one thread. Figures differ by some percent from run to run, and by more on a machine that does
// other work.
CpuMeasurement measure_cpu(const Device& device, double seconds = 0.2);

// The measurement as lines for the head of the profile's file.
std::vector<std::string> describe(const CpuMeasurement& measurement);

}  // namespace pal
