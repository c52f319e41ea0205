// Rooflines, node by node.
#include "memory/price/predict.h"

#include <algorithm>
#include <cmath>

#include "core/outside_plans.h"
#include "memory/price/node_times.h"
#include "memory/storages/storages.h"

namespace pal {
namespace {

constexpr double kMs = 1e3;  // a second's

// What a share of the units does of a rate of which all do `all` and one does `one`.
double rate_at(double all, double one, double units, double share) {
  if (share >= 1 || all <= 0) return all;
  const bool known = one > 0 && units > 1;
  return all * std::pow(share, known ? std::log(std::max(1.0, all / one)) / std::log(units) : 1);
}

double product_rate(const Work& work, const DeviceProfile& device) {
  return peak_rate(work, device) * device.matmul_efficiency * occupancy(work, device);
}

// The type of the operands of a product: 16 bits where two operands have them, or the only one that
// there is. The sum that a product adds to, and its result, may be wider.
DType type_of(SpecSpan in) {
  int bf16 = 0, f16 = 0, f32 = 0;
  for (const TensorSpec& spec : in) {
    if (spec.shape.rank() == 0) continue;  // absent
    bf16 += spec.dtype == DType::bf16;
    f16 += spec.dtype == DType::f16;
    f32 += spec.dtype == DType::f32;
  }
  const int enough = std::min(f32 + bf16 + f16, 2);
  if (enough == 0) return DType::f32;
  return bf16 >= enough ? DType::bf16 : f16 >= enough ? DType::f16 : DType::f32;
}

class Worker {
 public:
  Worker(const Program& program, const Storages* storages)
      : program_(program), storages_(storages) {}

  Work work(NodeId n) {
    const Node& node = program_.node(n);
    const SpecSpan in = in_.of(program_, node.in), out = out_.of(program_, node.out);
    const Cost cost = cost_of(*node.op, in, out, node.attrs);
    Work work{.flops = cost.flops, .bytes = cost.bytes, .type = type_of(in)};
    for (const TensorSpec& spec : out) work.results = std::max(work.results, double(spec.numel()));
    if (node.op->windows && cost.flops == 0) {
      const int64_t copied = copied_bytes(n);
      work.bytes = 2 * double(copied);
      work.runs = copied > 0;
    }
    for (const auto* side : {&node.in, &node.out}) {
      for (ValueId v : present(*side)) {
        const Value& value = program_.value(v);
        if (value.space == Space::host) work.host_bytes += double(value.spec.bytes());
      }
    }
    // A lookup reads little of its table.
    const double touched = work.bytes / double(sizeof(float));
    work.elements = work.results;
    for (const TensorSpec& spec : in) {
      work.elements = std::max(work.elements, std::min(double(spec.numel()), touched));
    }
    work.bytes = std::max(0.0, work.bytes - work.host_bytes);
    work.link_bytes = cost.link, work.inside = cost.inside, work.between = cost.between;
    work.to_each = cost.to_each;
    if (cost.link > 0) work.exchanged = std::max(bytes_of(in), bytes_of(out));
    return work;
  }

 private:
  static double bytes_of(SpecSpan specs) {
    double bytes = 0;
    for (const TensorSpec& spec : specs) bytes += double(spec.bytes());
    return bytes;
  }

  int64_t copied_bytes(NodeId n) const {
    if (!storages_) return 0;
    const Node& node = program_.node(n);
    const std::vector<int64_t> in_place = bytes_in_place(program_, *storages_, n);
    int64_t copied = 0;
    for (size_t i = 0; i < node.out.size(); ++i) {
      if (node.out[i] == kNone) continue;
      copied += std::max<int64_t>(0, program_.value(node.out[i]).spec.bytes() - in_place[i]);
    }
    return copied;
  }

  const Program& program_;
  const Storages* storages_;
  SpecList in_, out_;
};

}  // namespace

int64_t DeviceProfile::room() const { return link > 0 ? room_for_plans(capacity) : capacity; }

DeviceProfile part_of(const DeviceProfile& device, double share) {
  DeviceProfile part = device;
  part.f32 = rate_at(device.f32, device.thread_f32, device.units, share);
  for (double DeviceProfile::*rate :
       {&DeviceProfile::tf32, &DeviceProfile::f16, &DeviceProfile::bf16}) {
    if (device.f32 > 0) part.*rate *= part.f32 / device.f32;
  }
  part.vector = rate_at(device.vector, device.thread_vector, device.units, share);
  part.memory = rate_at(device.memory, device.thread_memory, device.units, share);
  part.cache = rate_at(device.cache, device.thread_cache, device.units, share);
  part.units = std::max(1.0, device.units * share);
  if (part.units <= 1) part.fork = 0;
  return part;
}

DeviceProfile part_of_ranks(const DeviceProfile& device, int64_t ranks) {
  if (device.thread_f32 <= 0) return device;
  const auto count = double(ranks);
  DeviceProfile part = part_of(device, 1 / count);
  for (double DeviceProfile::*rate :
       {&DeviceProfile::f32, &DeviceProfile::tf32, &DeviceProfile::f16, &DeviceProfile::bf16,
        &DeviceProfile::vector, &DeviceProfile::memory, &DeviceProfile::cache}) {
    part.*rate = std::min(part.*rate, device.*rate / count);
  }
  return part;
}

Work work_of(const Program& program, NodeId node, const Storages* storages) {
  return Worker(program, storages).work(node);
}

bool is_product(const Work& work) {
  return work.flops >= kProductIntensity * (work.bytes + work.host_bytes);
}

double peak_rate(const Work& work, const DeviceProfile& device) {
  if (!is_product(work)) return device.vector;
  if (work.type == DType::f16 && device.f16 > 0) return device.f16;
  if (work.type == DType::bf16 && device.bf16 > 0) return device.bf16;
  return device.tf32 > 0 ? device.tf32 : device.f32;
}

double pieces_of(const Work& work, const DeviceProfile& device) {
  if (!is_product(work)) return std::max(1.0, std::ceil(work.elements / device.piece));
  if (work.results <= 0) return 1;
  const double sum = work.flops / (2 * work.results);
  return std::ceil(work.results / device.tile) * std::max(1.0, std::floor(sum / kSumPiece));
}

double occupancy(const Work& work, const DeviceProfile& device) {
  if (work.results <= 0 || device.units <= 0 || device.tile <= 0) return 1;
  const double pieces = pieces_of(work, device);
  return pieces / (device.units * std::ceil(pieces / device.units));
}

double time_ms(const Work& work, const DeviceProfile& device) {
  if (!work.runs) return 0;
  double seconds = 0;
  auto at_least = [&](double amount, double rate) {
    if (amount > 0 && rate > 0) seconds = std::max(seconds, amount / rate);
  };
  const bool product = is_product(work);
  const double pieces = pieces_of(work, device);
  const bool few = !product && device.thread_memory > 0 && pieces < device.units;
  const auto of_pieces = [&](double all, double one) {
    return few ? rate_at(all, one, device.units, pieces / device.units) : all;
  };
  at_least(work.flops,
           product ? product_rate(work, device) : of_pieces(device.vector, device.thread_vector));
  const bool linked = device.link > 0;
  const double near = work.bytes + (linked ? 0 : work.host_bytes);
  const bool cached = device.cache > 0 && near <= double(device.cache_bytes);
  at_least(near, cached
                     ? of_pieces(device.cache, device.thread_cache)
                     : of_pieces(device.memory, device.thread_memory) * device.memory_efficiency);
  if (linked) at_least(work.host_bytes, device.link * device.link_efficiency);
  if (device.links) {
    const Links links = among(*device.links, work.inside, work.between);
    seconds =
        std::max(seconds, work.to_each ? seconds_to_each(work.link_bytes, links)
                                       : exchange_seconds(work.link_bytes, work.exchanged, links));
  }
  return kMs * (seconds + device.launch + (pieces > 1 ? device.fork : 0));
}

namespace {

// When nodes end if copies that are under way at once run at `part` of their speed: from one end of
// a node to the next.
void share_link(const Program& program, double part, Prediction& out) {
  struct Lane {
    std::vector<NodeId> nodes;
    size_t next = 0;
    double left = -1;  // milliseconds of work; negative: nothing runs
    bool copies = false;
  };
  std::vector<Lane> lanes;
  for (NodeId n : program.nodes.ids()) {
    const Node& node = program.node(n);
    if (lanes.size() <= node.queue) lanes.resize(size_t(node.queue) + 1);
    lanes[node.queue].nodes.push_back(n);
  }
  ByNode<char> done(program.nodes.size(), 0);
  double now = 0;
  while (true) {
    int copies = 0;
    bool any = false;
    for (Lane& lane : lanes) {
      if (lane.left < 0 && lane.next < lane.nodes.size()) {
        const Node& node = program.node(lane.nodes[lane.next]);
        if (std::all_of(node.waits.begin(), node.waits.end(), [&](NodeId w) { return done[w]; })) {
          lane.left = out.node_ms[lane.nodes[lane.next]];
          lane.copies = node.phase == Phase::offload || node.phase == Phase::reload;
        }
      }
      any |= lane.left >= 0, copies += lane.left > 0 && lane.copies;
    }
    if (!any) break;
    const auto speed = [&](const Lane& lane) { return lane.copies && copies > 1 ? part : 1.0; };
    double step = -1;
    for (const Lane& lane : lanes) {
      if (lane.left >= 0 && (step < 0 || lane.left / speed(lane) < step)) {
        step = lane.left / speed(lane);
      }
    }
    now += step;
    for (Lane& lane : lanes) {
      if (lane.left < 0) continue;
      const bool ends = lane.left / speed(lane) <= step;
      lane.left -= step * speed(lane);
      if (!ends) continue;
      lane.left = -1;
      const NodeId n = lane.nodes[lane.next++];
      done[n] = 1, out.end_ms[n] = now;
    }
  }
  out.step_ms = now;
}

// Every queue in order; returns how many there are.
size_t run_queues(const Program& program, const ByNode<double>& node_ms, ByNode<double>& end_ms,
                  double& step_ms) {
  end_ms.resize(program.nodes.size());
  std::vector<double> clock;  // by queue
  for (NodeId n : program.nodes.ids()) {
    const Node& node = program.node(n);
    if (clock.size() <= node.queue) clock.resize(size_t(node.queue) + 1, 0);
    double& now = clock[node.queue];
    for (NodeId other : node.waits) now = std::max(now, end_ms[other]);
    end_ms[n] = now += node_ms[n];
    step_ms = std::max(step_ms, now);
  }
  return clock.size();
}

}  // namespace

double step_ms_of(const Program& program, const ByNode<double>& node_ms) {
  ByNode<double> end_ms;
  double step_ms = 0;
  run_queues(program, node_ms, end_ms, step_ms);
  return step_ms;
}

Prediction predict(const Program& program, const DeviceProfile& device, const Storages* storages) {
  Prediction out;
  out.node_ms.resize(program.nodes.size());
  Worker worker(program, storages);
  for (NodeId n : program.nodes.ids()) {
    const Node& node = program.node(n);
    const Work work = worker.work(n);
    double ms = time_ms(work, device);
    const bool on_the_way = work.link_bytes > 0;  // nobody has measured that here
    if (device.times && work.runs && !on_the_way) ms = device.times->of(program, n, ms);
    out.node_ms[n] = ms;
    out.by_phase[size_t(node.phase)] += ms;
    out.flops += work.flops, out.bytes += work.bytes, out.host_bytes += work.host_bytes;
    out.link_bytes += work.link_bytes;
  }
  const size_t queues = run_queues(program, out.node_ms, out.end_ms, out.step_ms);
  const double part = device.link > 0 ? device.link_both / (2 * device.link) : 0;
  if (part > 0 && part < 1 && queues > 2) share_link(program, part, out);
  return out;
}

}  // namespace pal
