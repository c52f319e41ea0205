// Parts of peaks, from the same roofline that times the node.
#include "memory/price/demand.h"

#include <algorithm>
#include <cmath>

namespace pal {

NodeDemand demand_of(const Work& work, const DeviceProfile& device) {
  NodeDemand demand;
  if (!work.runs) return demand;
  constexpr double kMs = 1e3;
  demand.launch_ms = device.launch * kMs;
  demand.work_ms = std::max(0.0, time_ms(work, device) - demand.launch_ms);
  if (demand.work_ms <= 0) return demand;
  const double seconds = demand.work_ms / kMs;
  const double peak = peak_rate(work, device);
  if (peak > 0) demand.flops = std::min(1.0, work.flops / (peak * seconds));
  const double near = work.bytes + (device.link > 0 ? 0 : work.host_bytes);
  const bool cached = device.cache > 0 && near <= double(device.cache_bytes);
  if (device.memory > 0 && !cached) demand.memory = std::min(1.0, near / (device.memory * seconds));
  const double pieces = pieces_of(work, device);
  demand.units = device.units > 0 ? std::min(1.0, pieces / device.units) : 1;
  return demand;
}

}  // namespace pal
