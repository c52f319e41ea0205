// Composing the plan's page: tiles, pictures, what lives at the peak, layers, passes.
#include "train/report/plan_page.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "core/op.h"
#include "core/text.h"
#include "data/atomic_file.h"
#include "memory/plan/report.h"
#include "train/config/wording.h"
#include "train/report/encoding_report.h"
#include "train/report/front_page.h"
#include "train/report/html_page.h"
#include "train/report/plan_pictures.h"
#include "train/report/report_chart.h"

namespace pal {
namespace {

using Parts = std::array<int64_t, kRoles>;

struct LayerGroup {
  std::string name;
  int64_t count = 0, bytes = 0;
  Parts by_role{};
};

std::vector<LayerGroup> largest_first(const std::map<std::string, LayerGroup>& groups) {
  std::vector<LayerGroup> out;
  for (auto& [name, group] : groups) out.push_back(group), out.back().name = name;
  std::stable_sort(out.begin(), out.end(),
                   [](const LayerGroup& a, const LayerGroup& b) { return a.bytes > b.bytes; });
  return out;
}

std::string in_scope(const std::string& scope, const std::string& what) {
  return scope.empty() ? what : scope + ": " + what;
}

// Who made the value, without its time step: "decoder/attention: tanh f32[100,128,512]".
std::string origin_of(const Program& program, const Storages& storages, const Held& held) {
  if (held.value == kNone) {
    const Node& node = program.node(storages[held.storage].workspace_of);
    return in_scope(program.scopes[node.scope], std::string("workspace of ") + node.op->name);
  }
  const Value& value = program.value(held.value);
  std::string what = to_string(value.spec);
  if (value.producer != kNone) {
    what = std::string(program.node(value.producer).op->name) + " " + what;
  } else {
    for (const StateSlot& slot : program.state) {
      if (slot.start == held.value) return slot.name + ": " + what;
    }
    for (const NamedValue& input : program.inputs) {
      if (input.value == held.value) return input.name + ": " + what + ", two slots";
    }
  }
  return in_scope(program.scopes[value.scope], what);
}

std::vector<LayerGroup> alive_at_peak(const PlanView& view,
                                      const std::function<std::string(const Held&)>& name) {
  std::map<std::string, LayerGroup> groups;
  const int64_t moment = view.footprint.peak.moment;
  for (const Held& held : view.held) {
    const Storage& storage = view.c.storages[held.storage];
    if (storage.space != Space::device || moment < held.begin || moment >= held.end) continue;
    LayerGroup& group = groups[name(held)];
    const int64_t bytes = footprint(storage);
    ++group.count;
    group.bytes += bytes;
    group.by_role[size_t(role_of(view.c.program, held))] += bytes;
  }
  return largest_first(groups);
}

// A bar of a row, its length relative to the largest of the table, in the roles' colours.
std::string track(const Parts& parts, int64_t most) {
  std::string out = "<td class=\"track\"><div style=\"display:flex\">";
  for (size_t r = 0; r < kRoles; ++r) {
    if (parts[r] == 0) continue;
    out += "<div style=\"margin:0;width:" +
           fixed(100 * double(parts[r]) / double(std::max<int64_t>(1, most)), 2) +
           "%;background:" + colour(r) + "\" title=\"" + words(to_string(Role(r))) + ", " +
           format_bytes(parts[r]) + "\"></div>";
  }
  return out + "</div></td>";
}

std::string group_table(const std::vector<LayerGroup>& groups, size_t rows, bool counted) {
  std::string out = "<table>";
  const int64_t most = groups.empty() ? 1 : groups.front().bytes;
  LayerGroup rest{.name = "all the rest"};
  auto add_row = [&](const LayerGroup& group, int64_t longest) {
    out += "<tr><td class=\"name\">" + escape_html(group.name) + "</td>" +
           (counted ? "<td class=\"n\">" + std::to_string(group.count) + " &times;</td>" : "") +
           "<td class=\"n\">" + format_bytes(group.bytes) + "</td>" +
           track(group.by_role, longest) + "</tr>";
  };
  for (size_t i = 0; i < groups.size(); ++i) {
    const LayerGroup& group = groups[i];
    if (i < rows) {
      add_row(group, most);
      continue;
    }
    rest.count += group.count, rest.bytes += group.bytes;
    for (size_t r = 0; r < kRoles; ++r) rest.by_role[r] += group.by_role[r];
  }
  if (rest.count > 0) add_row(rest, std::max(most, rest.bytes));
  return out + "</table>";
}

std::string pass_table(const Compiled& c) {
  int64_t most = 1;
  for (const PassReport& pass : c.passes) most = std::max(most, pass.before_bytes);
  std::string out =
      "<table><tr><th>pass</th><th>before</th><th>after</th><th></th><th>effect</th>"
      "<th>adds to the step</th><th>took</th></tr>";
  for (const PassReport& pass : c.passes) {
    const double width = 100 * double(pass.after_bytes) / double(most);
    out += "<tr><td>" + escape_html(pass.name) + "</td><td>" + format_bytes(pass.before_bytes) +
           "</td><td>" + format_bytes(pass.after_bytes) +
           "</td><td class=\"track\" style=\"width:22%\"><div style=\"width:" + fixed(width, 2) +
           "%;background:var(--one)\"></div></td><td class=\"name\">" + escape_html(pass.note) +
           "</td><td>" + (pass.added_ms > 0 ? fixed(pass.added_ms, 2) + " ms, predicted" : "") +
           "</td><td>" + fixed(1000 * pass.seconds, 0) + " ms</td></tr>";
  }
  return out + "</table>";
}

std::string tiles(const PlanView& view) {
  const Compiled& c = view.c;
  const Region& device = c.plan.device();
  auto against = [&](int64_t bytes) {
    const double times = double(bytes) / double(std::max<int64_t>(1, device.bytes));
    return ", " + fixed(times, 2) + "\u00d7 as much";
  };
  std::string out =
      "<section class=\"tiles\">" + tile(format_bytes(device.bytes), "for a step, all included") +
      tile(fixed(100 * device.fragmentation(), 1) + " %", "lost to fragmentation") +
      tile(format_bytes(c.baselines.ours), "our own baseline" + against(c.baselines.ours)) +
      tile(format_bytes(c.baselines.framework),
           "as frameworks of the time would" + against(c.baselines.framework)) +
      tile(std::to_string(c.program.nodes.size()),
           "nodes, planned in " + fixed(c.seconds, 2) + " s");
  if (c.time) {
    out += tile(fixed(c.time->step_ms, 0) + " ms", "a step, predicted for " + c.time->profile);
  }
  return out + "</section>";
}

}  // namespace

std::string plan_html(const Compiled& c, const PlanPage& page, const PlanFacts& facts) {
  const PlanView view(c);
  const Program& program = c.program;
  std::vector<std::pair<std::string, int64_t>> roles;
  for (size_t r = 0; r < kRoles; ++r) {
    if (view.footprint.by_role[r] > 0) {
      roles.emplace_back(to_string(Role(r)), view.footprint.by_role[r]);
    }
  }
  std::sort(roles.begin(), roles.end(), [](auto& a, auto& b) { return a.second > b.second; });
  const int64_t total = c.plan.device().bytes;
  if (total > view.footprint.lower_bound) {
    roles.emplace_back("lost to packing", total - view.footprint.lower_bound);
  }
  const std::vector<LayerGroup> layers = alive_at_peak(view, [&](const Held& held) {
    const ScopeId scope = held.value == kNone
                              ? program.node(c.storages[held.storage].workspace_of).scope
                              : program.value(held.value).scope;
    return kind_of_layers(program.scopes[size_t(scope)]);
  });
  const std::vector<LayerGroup> values =
      alive_at_peak(view, [&](const Held& held) { return origin_of(program, c.storages, held); });

  std::string out = page_header(page.name, "") + "<p class=\"soft\">" + escape_html(page.what) +
                    "</p>" + tiles(view);
  out += "\n<section class=\"pictures\"><h2>Live bytes over the step</h2><div class=\"card\">" +
         live_picture(view) + role_legend(view) + "</div>\n<h2>The arena</h2><div class=\"card\">" +
         arena_picture(view) + role_legend(view) + "</div>";
  if (const std::string queues = queues_picture(view); !queues.empty()) {
    out += "\n<h2>What leaves the device</h2><div class=\"card\">" + queues + "</div>";
  }
  out += "</section>\n" + front_html(c, facts);
  out += "<section class=\"two-columns\"><div><h2>At the peak, by what it is for</h2>" +
         bytes_card(roles, total) +
         "</div><div><h2>At the peak, by layer</h2><div class=\"card\">" +
         group_table(layers, 12, false) + "</div></div></section>\n";
  out += "<h2>What lives at the peak (node " + std::to_string(view.footprint.peak.moment / 2) +
         ")</h2><div class=\"card\">" + group_table(values, 24, true) +
         "</div>\n<h2>Each pass, before and after</h2><div class=\"card\">" + pass_table(c) +
         "</div>\n" + encoding_html(c, facts);
  if (facts.pair) {
    out += "\n<h2>Two micro-batches of an update</h2><div class=\"card\">" +
           preformatted({facts.pair->line}) + "</div>";
  }
  if (!page.config.empty()) {
    out += "\n<h2>Configuration</h2><details class=\"card\"><summary>Every option</summary>" +
           preformatted({page.config}) + "</details>";
  }
  out +=
      "\n<footer>Written by Palimpsest: planned, not measured. A plan's bytes are exact; times "
      "are predicted where that is said.</footer>";
  return html_page(page.name + ", plan", out);
}

void save_plan_page(const std::filesystem::path& file, const Compiled& compiled,
                    const PlanPage& page, const PlanFacts& facts) {
  const std::string text = plan_html(compiled, page, facts);
  AtomicFile out(file.string());
  out.write(text.data(), text.size());
  out.commit();
}

}  // namespace pal
