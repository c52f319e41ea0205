// Predictions of exchanges, put together.
#include "train/report/device_facts.h"

#include "core/text.h"
#include "memory/price/exchange_times.h"
#include "ops/exchange/exchange.h"
#include "train/config/links.h"
#include "train/config/wording.h"

namespace pal {
namespace {

// Not measured. By NCCL's defaults a connection has buffers of some 9 MiB (4 for long messages, 4.7
// and 0.5 for shorter ones), and about as many connections as fill this.
constexpr int64_t kNcclBytes = int64_t(512) << 20;

// What the step would take on a device by itself: without exchanges, and without adding up what
// ranks sent.
double alone_step_ms(const Program& program, const Prediction& times) {
  ByNode<double> ms = times.node_ms;
  for (NodeId n : program.nodes.ids()) {
    const OpDef* op = program.node(n).op;
    if (op->collective || op == &pairwise_sum_op || op == &own_piece_op) ms[n] = 0;
  }
  return step_ms_of(program, ms);
}

}  // namespace

std::optional<double> joules_of(const DeviceProfile& device, int64_t ranks, double step_ms,
                                double waiting_ms) {
  if (device.busy <= 0 || device.idle <= 0) return {};
  const double watt_ms = device.busy * (step_ms - waiting_ms) + device.idle * waiting_ms;
  return double(ranks) * watt_ms * 1e-3;
}

DeviceFacts device_facts(const Compiled& step, const DeviceProfile& device) {
  const Links& links = *device.links;
  const Prediction times = predict(step.program, device, &step.storages);
  const ExchangeTimes exchanges = exchange_times(step.program, times);
  DeviceFacts out{.ranks = links.ranks, .per_node = links.per_node, .link = to_string(links)};
  out.communication_ms = exchanges.ms, out.exposed_ms = exchanges.exposed_ms;
  out.link_bytes = times.link_bytes;
  out.bytes_per_rank = step.plan.device().bytes;
  // Not on processors, which have no link to a host.
  if (links.ranks > 1 && device.link > 0) out.nccl_bytes = kNcclBytes;
  const double copies_ms = step.traffic ? step.traffic->stall_ms : 0;
  out.joules = joules_of(device, links.ranks, times.step_ms, exchanges.exposed_ms + copies_ms);
  const double alone = alone_step_ms(step.program, times);
  if (times.step_ms > 0) out.speedup = double(links.ranks) * alone / times.step_ms;
  return out;
}

std::string line_of(const DeviceFacts& f) {
  std::string line = "devices (predicted): " + thousands(f.ranks) + " ranks, " +
                     thousands(f.per_node) + " a node over " + f.link + ": each sends " +
                     format_bytes(int64_t(f.link_bytes)) +
                     printed(" in %.3g ms, of which %.3g exposed, speedup %.4g", f.communication_ms,
                             f.exposed_ms, f.speedup);
  if (f.joules) line += printed(", %.4g J a step", *f.joules);
  if (f.nccl_bytes > 0) line += "; NCCL takes " + format_bytes(f.nccl_bytes) + " more (assumed)";
  return line;
}

}  // namespace pal
