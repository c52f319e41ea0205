// Finding out what the machine offers.
#include "core/device.h"

#include <omp.h>

#include <algorithm>

#include "core/accelerator.h"

namespace pal {

Device cpu_device(int threads) {
  return {DeviceKind::cpu, threads > 0 ? threads : std::max(1, omp_get_num_procs())};
}

Device cuda_device(int number) {
  if (!open_accelerator) {
    throw UsageError(
        "device cuda: this build has no CUDA device; build with -DPAL_CUDA=ON, or set "
        "device.type to cpu");
  }
  return {.kind = DeviceKind::cuda, .accelerator = open_accelerator(number)};
}

}  // namespace pal
