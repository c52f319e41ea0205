// Rooflines, node by node.
#include "memory/price/predict.h"

#include <algorithm>
#include <cmath>

#include "core/outside_plans.h"

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

}  // namespace pal
