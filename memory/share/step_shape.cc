// Lifetimes, and the compute queue's clock.
#include "memory/share/step_shape.h"

#include <algorithm>
#include <cmath>

#include "memory/price/predict.h"
#include "memory/storages/storages.h"

namespace pal {

StepShape step_shape(const std::string& name, const Program& program, const Storages& storages,
                     const Plan& plan, const DeviceProfile& device) {
  StepShape shape;
  shape.name = name;
  const ByStorage<Lifetime> lifetimes = lifetimes_of(program, storages);
  const Region& region = plan.device();
  shape.own_bytes = region.transients_begin();
  for (StorageId s : storages.list.ids()) {
    const Storage& storage = storages[s];
    if (storage.space != Space::device || !storage.is_transient() || !storage.counted) continue;
    const int64_t bytes = align_up(storage.bytes);
    if (storage.output) shape.own_bytes += bytes;
    if (storage.output || bytes == 0 || lifetimes[s].begin >= lifetimes[s].end) continue;
    const Lifetime& life = lifetimes[s];
    const int64_t end = start_of(program.node_count());
    shape.buffers.push_back({{life.begin / 2 * 2, std::min(life.end / 2 * 2 + 1, end)}, bytes, s});
  }
  // What the pool must hold for the job alone lies behind what is its own.
  int64_t height = 0;
  for (const SharableBuffer& b : shape.buffers) {
    height = std::max(height, plan.offset[b.storage] - region.transients_begin() + b.bytes);
  }
  shape.alone_bytes = shape.own_bytes + height;

  const Prediction prediction = predict(program, device, &storages);
  int64_t now = 0;
  for (NodeId n : program.nodes.ids()) {
    if (program.node(n).queue != kComputeQueue) {
      shape.tick.insert(shape.tick.end(), 2, now);
      continue;
    }
    NodeDemand demand = demand_of(work_of(program, n, &storages), device);
    const auto end = int64_t(std::llround(prediction.end_ms[n] * 1e6));
    const int64_t begin = std::max(now, end - int64_t(std::llround(prediction.node_ms[n] * 1e6)));
    shape.tick.push_back(begin);
    shape.tick.push_back(now = std::max(end, begin + 1));
    demand.idle_ms = double(begin - (shape.tick.size() > 2 ? *(shape.tick.end() - 3) : 0)) * 1e-6;
    shape.nodes.push_back(demand), shape.node.push_back(n);
  }
  shape.tick.push_back(now);
  return shape;
}

}  // namespace pal
