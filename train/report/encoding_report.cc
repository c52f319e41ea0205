// The forms of all maps, grouped for each of the three.
#include "train/report/encoding_report.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "core/text.h"
#include "memory/passes/map_forms.h"
#include "train/config/wording.h"
#include "train/report/html_page.h"

namespace pal {
namespace {

constexpr size_t kRows = 60;  // of the page's table

struct Sum {
  int64_t maps = 0, dense_bytes = 0, bytes = 0;

  void add(const Sum& more) {
    maps += more.maps, dense_bytes += more.dense_bytes, bytes += more.bytes;
  }
};

Sum sum_of(const MapForm& map) { return {1, map.dense_bytes, map.bytes}; }

// By kind of form, those that save most first.
std::vector<std::pair<std::string, Sum>> by_form(const std::vector<MapForm>& maps) {
  std::map<std::string, Sum> sums;
  for (const MapForm& map : maps) sums[kind_of(map.form)].add(sum_of(map));
  std::vector<std::pair<std::string, Sum>> out(sums.begin(), sums.end());
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return a.second.dense_bytes - a.second.bytes > b.second.dense_bytes - b.second.bytes;
  });
  return out;
}

// "encoder/rnn t=3 sigmoid" -> "encoder/rnn sigmoid": the time steps of a layer together.
std::string without_step(const std::string& layer) {
  const size_t at = layer.find(" t=");
  if (at == std::string::npos) return layer;
  const size_t end = layer.find(' ', at + 1);
  return layer.substr(0, at) + (end == std::string::npos ? "" : layer.substr(end));
}

// A row of the page's table: maps of one layer and kind.
struct Row {
  std::string layer, form, reason;
  Sum sum;
};
// In the order of production of their first maps.
std::vector<Row> rows_of(const std::vector<MapForm>& maps) {
  std::map<std::tuple<std::string, std::string, std::string>, size_t> at;
  std::vector<Row> rows;
  for (const MapForm& map : maps) {
    const std::string form = describe(map.form, map.spec), layer = without_step(map.layer);
    const auto [found, fresh] = at.try_emplace({layer, form, map.reason}, rows.size());
    if (fresh) rows.push_back({layer, form, map.reason, {}});
    rows[found->second].sum.add(sum_of(map));
  }
  return rows;
}

// The largest ones, the others together at the end.
std::vector<Row> shortened(const std::vector<Row>& rows) {
  if (rows.size() <= kRows) return rows;
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return rows[a].sum.dense_bytes > rows[b].sum.dense_bytes;
  });
  Row rest{.layer = "all the rest", .form = "", .reason = "", .sum = {}};
  for (size_t i = kRows; i < order.size(); ++i) rest.sum.add(rows[order[i]].sum);
  order.resize(kRows);
  std::sort(order.begin(), order.end());
  std::vector<Row> out;
  for (const size_t i : order) out.push_back(rows[i]);
  out.push_back(std::move(rest));
  return out;
}

// Two bars below each other, before and after.
std::string bars(const Sum& sum, int64_t most) {
  auto bar = [&](int64_t bytes, Role role) {
    const double width = 100 * double(bytes) / double(std::max<int64_t>(1, most));
    return "<div style=\"width:" + fixed(width, 2) + "%;background:" + colour(size_t(role)) +
           "\" title=\"" + format_bytes(bytes) + "\"></div>";
  };
  return "<td class=\"track\">" + bar(sum.dense_bytes, Role::feature_map) +
         bar(sum.bytes, Role::encoded) + "</td>";
}

// Where the densities are from; "" where nothing asks for them.
std::string densities_of(const Compiled& step, const PlanFacts& facts) {
  if (!step.encode.ssdc) return "";
  if (!facts.densities_from.empty()) {
    return "the largest density of each map that " + facts.densities_from + " measured (" +
           std::to_string(step.encode.density.size()) + " maps)";
  }
  if (!step.encode.assumed_density) return "the density of no map is known";
  return "a density of " + short_number(*step.encode.assumed_density) +
         " is assumed of maps whose layers make zeros or keep them (relu, dropout, pools, joins); "
         "--density RUN takes what a run measured";
}

// What a plan says of sparse maps beside their rows.
std::vector<std::string> sparse_lines(const Compiled& step, const PlanFacts& facts) {
  std::vector<std::string> lines;
  if (facts.sparse_bytes) {
    const bool over = facts.capacity && *facts.sparse_bytes > *facts.capacity;
    lines.push_back("no map is kept sparse: that plan would need " +
                    format_bytes(*facts.sparse_bytes) +
                    (over ? ", which is over the budget" : ", which is not a per cent less") +
                    (facts.dense_recomputes ? "; this one is with memory.recompute: echo" : ""));
    return lines;
  }
  const std::string densities = densities_of(step, facts);
  if (!densities.empty()) lines.push_back("sparse maps: " + densities);
  if (facts.dense_bytes) {
    lines.push_back("without sparse maps " + format_bytes(*facts.dense_bytes) +
                    (facts.dense_recomputes ? " with memory.recompute: echo" : "") +
                    "; a run needs the larger of both, since it begins without them and falls back "
                    "on that plan");
  }
  return lines;
}

}  // namespace

std::vector<std::string> encoding_lines(const Compiled& step, const PlanFacts& facts) {
  if (!step.encode.any()) return {};
  std::vector<std::string> lines;
  std::string forms;
  for (const auto& [form, sum] : by_form(map_forms(step.program, step.dense_maps))) {
    forms += (forms.empty() ? "" : "; ") + std::to_string(sum.maps) + " " + form + ", " +
             format_bytes(sum.dense_bytes);
    if (sum.bytes != sum.dense_bytes) forms += " -> " + format_bytes(sum.bytes);
  }
  lines.push_back("maps that are read later: " + (forms.empty() ? "none" : forms));
  if (step.floor_bytes > 0) {
    lines.push_back("no encoding of maps needs less than " + format_bytes(step.floor_bytes) +
                    ": operands and results of one node, " + step.floor_layer);
  }
  for (std::string& line : sparse_lines(step, facts)) lines.push_back(std::move(line));
  return lines;
}

nlohmann::ordered_json encoding_json(const Compiled& step, const PlanFacts& facts) {
  using nlohmann::ordered_json;
  if (!step.encode.any()) return {};
  const std::vector<MapForm> maps = map_forms(step.program, step.dense_maps);
  ordered_json json;
  json["by_form"] = ordered_json::object();
  for (const auto& [form, sum] : by_form(maps)) {
    json["by_form"][form] = {
        {"maps", sum.maps}, {"dense_bytes", sum.dense_bytes}, {"bytes", sum.bytes}};
  }
  json["maps"] = ordered_json::array();
  for (const MapForm& map : maps) {
    ordered_json one{{"value", int32_t(step.program.value(map.value).origin)},
                     {"layer", map.layer},
                     {"spec", to_string(map.spec)},
                     {"form", describe(map.form, map.spec)},
                     {"dense_bytes", map.dense_bytes},
                     {"bytes", map.bytes}};
    if (!map.reason.empty()) one["reason"] = map.reason;
    json["maps"].push_back(std::move(one));
  }
  json["floor_bytes"] = step.floor_bytes;
  json["floor_layer"] = step.floor_layer;
  if (!facts.densities_from.empty()) {
    json["densities"] = {{"measured", facts.densities_from}, {"maps", step.encode.density.size()}};
  } else if (step.encode.assumed_density) {
    json["densities"] = {{"assumed", *step.encode.assumed_density}};
  }
  if (facts.dense_bytes) {
    json["without_sparse_bytes"] = *facts.dense_bytes;
    json["without_sparse_recomputes"] = facts.dense_recomputes;
    json["kept_sparse"] = !facts.sparse_bytes;
  }
  return json;
}

std::string encoding_html(const Compiled& step, const PlanFacts& facts) {
  if (!step.encode.any()) return "";
  const std::vector<Row> rows = shortened(rows_of(map_forms(step.program, step.dense_maps)));
  int64_t most = 0;
  Sum all;
  for (const Row& row : rows) {
    most = std::max({most, row.sum.dense_bytes, row.sum.bytes});
    all.add(row.sum);
  }
  std::string out = "<h2>How feature maps are kept for the backward phase</h2><div class=\"card\">";
  out += "<p class=\"soft\">" + std::to_string(all.maps) +
         " maps that are read after the forward "
         "phase: " +
         format_bytes(all.dense_bytes) + " as their layers write them, " + format_bytes(all.bytes) +
         " as they are kept. No encoding of maps brings the step below " +
         format_bytes(step.floor_bytes) + ", the operands and results of one node (" +
         escape_html(step.floor_layer) + ").</p>";
  for (const std::string& line : sparse_lines(step, facts)) {
    out += "<p class=\"soft\">" + escape_html(line) + ".</p>";
  }
  out +=
      "<table><tr><th>layer</th><th>maps</th><th>kept as</th><th>before</th><th>after</th>"
      "<th></th><th style=\"padding-left:12px\">why dense</th></tr>";
  for (const Row& row : rows) {
    out += "<tr><td class=\"name\">" + escape_html(row.layer) + "</td><td class=\"n\">" +
           std::to_string(row.sum.maps) + "</td><td>" + escape_html(row.form) +
           "</td><td class=\"n\">" + format_bytes(row.sum.dense_bytes) + "</td><td class=\"n\">" +
           format_bytes(row.sum.bytes) + "</td>" + bars(row.sum, most) +
           "<td class=\"name\" style=\"padding-left:12px\">" + escape_html(row.reason) +
           "</td></tr>";
  }
  return out + "</table></div>";
}

}  // namespace pal
