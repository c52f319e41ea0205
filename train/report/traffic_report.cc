// From Compiled::traffic and Compiled::dynamic.
#include "train/report/traffic_report.h"

#include <nlohmann/json.hpp>

#include "core/text.h"
#include "train/config/wording.h"

namespace pal {

nlohmann::ordered_json traffic_json(const Compiled& c) {
  if (!c.traffic) return {};
  const Traffic& t = *c.traffic;
  nlohmann::ordered_json out{{"offloads", t.offloads},     {"reloads", t.reloads},
                             {"recomputes", t.recomputes}, {"moved_bytes", t.moved_bytes},
                             {"host_bytes", t.host_bytes}, {"stall_ms", t.stall_ms},
                             {"overlap", t.overlap()}};
  if (!c.dynamic) return out;
  const DynamicStats& d = *c.dynamic;
  out.update({{"evictions", d.evictions},
              {"prefetches", d.prefetches},
              {"prefetch_hits", d.prefetch_hits},
              {"compactions", d.compactions},
              {"fragmentation", d.fragmentation},
              {"search_us", d.search_us}});
  return out;
}

std::vector<std::string> traffic_lines(const Compiled& c) {
  if (!c.traffic || !c.traffic->any()) return {};
  const Traffic& t = *c.traffic;
  return {"in the host's memory, pinned: " + format_bytes(c.plan.host().bytes),
          printed("copies (predicted): %s a step in %.3g ms, of which compute waits %.3g ms",
                  format_bytes(t.moved_bytes).c_str(), t.copy_ms, t.stall_ms)};
}

}  // namespace pal
