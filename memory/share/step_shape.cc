// Lifetimes, and the compute queue's clock.
#include "memory/share/step_shape.h"

#include <algorithm>
#include <cmath>

#include "memory/price/predict.h"
#include "memory/storages/storages.h"

namespace pal {

namespace {

ByStorage<Role> roles_of(const Program& program, const Storages& storages) {
  ByStorage<Role> role(storages.list.size(), Role::workspace);
  ByStorage<char> is_known(storages.list.size(), 0);
  for (ValueId v : program.values.ids()) {
    const StorageId s = storages.of[v];
    if (s == kNone || is_known[s]) continue;
    role[s] = program.value(v).role, is_known[s] = 1;
  }
  return role;
}

}  // namespace

StepShape step_shape(const std::string& name, const Program& program, const Storages& storages,
                     const Plan& plan, const DeviceProfile& device) {
  StepShape shape;
  shape.name = name;
  const ByStorage<Lifetime> lifetimes = lifetimes_of(program, storages);
  const ByStorage<Role> role = roles_of(program, storages);
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
    shape.buffers.push_back(
        {{life.begin / 2 * 2, std::min(life.end / 2 * 2 + 1, end)}, bytes, s, role[s]});
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
    shape.work.push_back(work_of(program, n, &storages));
    NodeDemand demand = demand_of(shape.work.back(), device);
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

StepShape with_share(const StepShape& shape, const DeviceProfile& device, double share,
                     const std::vector<int64_t>& node_ns) {
  const DeviceProfile part = part_of(device, share);
  const double of_memory = device.memory > 0 ? part.memory / device.memory : 1;
  StepShape out = shape;
  out.tick.clear();
  out.alone_ms = 0;
  int64_t now = 0;
  size_t i = 0;
  const auto ns = [](double ms) { return int64_t(std::llround(ms * 1e6)); };
  for (NodeId n = 0; n < NodeId(shape.moments() / 2); ++n) {
    if (i == shape.node.size() || shape.node[i] != n) {
      out.tick.insert(out.tick.end(), 2, now);
      continue;
    }
    const NodeDemand& all = shape.nodes[i];
    const double alone = all.launch_ms + all.work_ms;
    NodeDemand& demand = out.nodes[i] = demand_of(shape.work[i], part);
    ++i;
    demand.idle_ms = all.idle_ms;
    // The threads are the job's, memory is everybody's.
    demand.flops *= share, demand.units *= share, demand.memory *= of_memory;
    const double predicted = demand.launch_ms + demand.work_ms;
    const double factor =
        node_ns.empty() || predicted <= 0 ? 1 : double(node_ns[size_t(n)]) * 1e-6 / predicted;
    demand.launch_ms *= factor, demand.work_ms *= factor;
    out.alone_ms += demand.idle_ms + alone * factor;
    out.tick.push_back(now += ns(demand.idle_ms));
    out.tick.push_back(now += std::max<int64_t>(1, ns(demand.launch_ms + demand.work_ms)));
  }
  out.tick.push_back(now);
  return out;
}

}  // namespace pal
