// Rooflines, launch by launch.
#include "memory/price/kernel_times.h"

#include <algorithm>

namespace pal {
namespace {

using Kind = LaunchCount::Kind;

double launch_cost(const DeviceProfile& device, bool graph) {
  const double cost = graph ? device.graph_kernel : device.stream_kernel;
  return cost > 0 ? cost : device.launch;
}

// flop/s of products of the node's operands.
double product_rate(const Work& work, const LaunchCount& launch, const DeviceProfile& device) {
  Work product = work;
  product.flops = launch.product_flops, product.bytes = launch.read + launch.written;
  if (launch.kind == Kind::library && !is_product(product)) return device.vector;
  product.bytes = 0;  // tensor cores, whatever they are given
  const double filled = launch.kind == Kind::library
                            ? occupancy(product, device)
                            : std::min(1.0, double(launch.blocks) / device.units);
  return peak_rate(product, device) * device.matmul_efficiency * filled;
}

double bandwidth(const LaunchCount& launch, const DeviceProfile& device) {
  double part = 1;
  if (launch.kind == Kind::kernel) {
    part = double(launch.blocks) * double(launch.threads) / (device.units * kBusyThreads);
  }
  return device.memory * device.memory_efficiency * std::min(1.0, part);
}

}  // namespace

std::vector<double> launch_times(const Work& work, std::span<const LaunchCount> launches,
                                 const DeviceProfile& device, bool graph) {
  // Flops outside of products, and who does them: of a library its epilogue.
  double others = work.flops, moved = 0;
  for (const LaunchCount& l : launches) {
    others = l.kind == Kind::library ? 0 : others - l.product_flops;
    if (l.kind == Kind::kernel) moved += l.read + l.written;
  }
  std::vector<double> ms;
  for (const LaunchCount& l : launches) {
    const double bytes = l.read + l.written;
    double seconds = bytes / bandwidth(l, device);
    if (l.product_flops > 0) {
      seconds = std::max(seconds, l.product_flops / product_rate(work, l, device));
    }
    if (l.kind == Kind::kernel && others > 0 && moved > 0) {
      const double filled = std::min(1.0, double(l.blocks) / device.units);
      seconds = std::max(seconds, others * (bytes / moved) / (device.vector * filled));
    }
    ms.push_back(1e3 * (seconds + launch_cost(device, graph)));
  }
  return ms;
}

NodeDemand demand_of_launches(const Work& work, std::span<const LaunchCount> launches,
                              const DeviceProfile& device, bool graph) {
  NodeDemand out;
  const double cost = 1e3 * launch_cost(device, graph);
  const std::vector<double> ms = launch_times(work, launches, device, graph);
  for (size_t i = 0; i < launches.size(); ++i) {
    const LaunchCount& l = launches[i];
    const double works = ms[i] - cost;
    out.launch_ms += cost, out.work_ms += works;
    out.memory += 1e3 * (l.read + l.written) / (device.memory * device.memory_efficiency);
    double units = 1;
    if (l.kind == Kind::kernel) units = std::min(1.0, double(l.blocks) / device.units);
    if (l.kind == Kind::library) {
      Work product = work;
      product.flops = l.product_flops, product.bytes = l.read + l.written;
      units = std::min(1.0, pieces_of(product, device) / device.units);
    }
    out.units += works * units;
  }
  if (out.work_ms <= 0) return {.launch_ms = out.launch_ms};
  out.memory = std::min(1.0, out.memory / out.work_ms), out.units /= out.work_ms;
  return out;
}

double least_ms(const Work& work, bool launches, const DeviceProfile& device, bool graph) {
  if (!launches) return 0;
  DeviceProfile alone = device;
  alone.launch = launch_cost(device, graph);
  return time_ms(work, alone);
}

}  // namespace pal
