// Finding out what the machine offers.
#include "core/device.h"

#include <omp.h>

#include <algorithm>

namespace pal {

Device cpu_device(int threads) {
  return {DeviceKind::cpu, threads > 0 ? threads : std::max(1, omp_get_num_procs())};
}

}  // namespace pal
