// From Compiled::traffic and Compiled::dynamic.
#include "train/report/traffic_report.h"

#include "core/text.h"
#include "train/config/wording.h"

namespace pal {

std::vector<std::pair<std::string, double>> traffic_figures(const Compiled& c) {
  if (!c.traffic) return {};
  const Traffic& t = *c.traffic;
  std::vector<std::pair<std::string, double>> out{{"offloads", double(t.offloads)},
                                                  {"reloads", double(t.reloads)},
                                                  {"recomputes", double(t.recomputes)},
                                                  {"moved_bytes", double(t.moved_bytes)},
                                                  {"host_bytes", double(t.host_bytes)},
                                                  {"stall_ms", t.stall_ms},
                                                  {"overlap", t.overlap()}};
  if (!c.dynamic) return out;
  const DynamicStats& d = *c.dynamic;
  out.insert(out.end(), {{"evictions", double(d.evictions)},
                         {"prefetches", double(d.prefetches)},
                         {"prefetch_hits", double(d.prefetch_hits)},
                         {"compactions", double(d.compactions)},
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
