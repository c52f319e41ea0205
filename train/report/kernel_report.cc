// Sums by operator, and how they are printed.
#include "train/report/kernel_report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/prepare.h"
#include "memory/price/predict.h"
#include "memory/price/side_by_side.h"
#include "train/config/wording.h"

namespace pal {
namespace {

void add(KernelRow& to, const KernelRow& from) {
  to.nodes += from.nodes, to.launches += from.launches;
  to.bytes += from.bytes, to.least_bytes += from.least_bytes, to.flops += from.flops;
  to.ms += from.ms, to.least_ms += from.least_ms;
}

KernelRow& kernel_of(KernelRow& row, const std::string& where) {
  const auto has = [&](const KernelRow& k) { return k.name == where; };
  const auto found = std::find_if(row.kernels.begin(), row.kernels.end(), has);
  if (found != row.kernels.end()) return *found;
  return row.kernels.emplace_back(KernelRow{.name = where});
}

std::string line_of(const KernelRow& row, const std::string& indent, bool whole) {
  const std::string name = indent + row.name;
  std::string line =
      printed("  %-30s %7s %8s %10.2f", name.c_str(), row.nodes ? thousands(row.nodes).c_str() : "",
              thousands(row.launches).c_str(), row.bytes * 1e-6);
  if (whole) line += printed(" %10.2f %9.1f", row.least_bytes * 1e-6, row.flops * 1e-9);
  if (!whole) line += printed(" %10s %9s", "", "");
  line += printed(" %9.3f", row.ms);
  return whole ? line + printed(" %9.3f", row.won_ms()) : line;
}

nlohmann::ordered_json json_of(const KernelRow& row) {
  nlohmann::ordered_json json{{"launches", row.launches}, {"bytes", row.bytes}, {"ms", row.ms}};
  json["nodes"] = row.nodes, json["least_bytes"] = row.least_bytes, json["flops"] = row.flops;
  json["won_ms"] = row.won_ms();
  return json;
}

}  // namespace

KernelReport kernel_report(const Compiled& step, const ByNode<std::vector<LaunchCount>>& launches,
                           const DeviceProfile& device, bool graph) {
  KernelReport out{.device = device.name, .graph = graph};
  out.code = nodes_by_code(step.program, step.kernels);
  out.all.name = "all";
  std::map<std::string, KernelRow> rows;
  ByNode<double> node_ms;
  ByNode<NodeDemand> demands;
  for (const NodeId n : step.program.nodes.ids()) {
    const Node& node = step.program.node(n);
    const Work work = work_of(step.program, n, &step.storages);
    const std::vector<LaunchCount>& of_node = launches[n];
    const std::vector<double> ms = launch_times(work, of_node, device, graph);
    KernelRow& row = rows[node.op->name];
    row.name = node.op->name;
    KernelRow sum{.nodes = 1, .launches = int64_t(of_node.size()), .flops = work.flops};
    sum.least_bytes = of_node.empty() ? 0 : work.bytes;
    sum.least_ms = least_ms(work, !of_node.empty(), device, graph);
    for (size_t i = 0; i < of_node.size(); ++i) {
      const double bytes = of_node[i].read + of_node[i].written;
      sum.bytes += bytes, sum.ms += ms[i];
      add(kernel_of(row, of_node[i].where), {.launches = 1, .bytes = bytes, .ms = ms[i]});
    }
    add(row, sum), add(out.all, sum);
    node_ms.push_back(sum.ms);
    demands.push_back(demand_of_launches(work, of_node, device, graph));
  }
  out.one_queue_ms = step_ms_of(step.program, node_ms);
  out.step_ms = out.one_queue_ms;
  if (computes_side_by_side(step.program)) {
    out.one_queue_ms = one_by_one_ms(demands);
    out.step_ms = run_side_by_side(step.program, demands).ms;
  }
  out.roofline_ms = predict(step.program, device, &step.storages).step_ms;
  for (auto& [name, row] : rows) {
    if (row.launches > 0) out.rows.push_back(std::move(row));
  }
  std::stable_sort(out.rows.begin(), out.rows.end(),
                   [](const KernelRow& a, const KernelRow& b) { return a.won_ms() > b.won_ms(); });
  return out;
}

std::vector<std::string> kernel_lines(const KernelReport& report, size_t most) {
  std::vector<std::string> out;
  out.push_back(printed("  %-30s %7s %8s %10s %10s %9s %9s %9s", "operator, its launches", "nodes",
                        "launches", "moved, MB", "least, MB", "Gflop", "ms", "to be won"));
  KernelRow rest{.name = "others"};
  for (size_t i = 0; i < report.rows.size(); ++i) {
    const KernelRow& row = report.rows[i];
    if (most && i >= most) {
      add(rest, row);
      continue;
    }
    out.push_back(line_of(row, "", true));
    if (row.kernels.size() == 1 && row.kernels[0].launches == row.nodes) continue;
    for (const KernelRow& kernel : row.kernels) out.push_back(line_of(kernel, "  ", false));
  }
  if (rest.launches > 0) out.push_back(line_of(rest, "", true));
  out.push_back(line_of(report.all, "", true));
  const double ratio = report.all.least_bytes > 0 ? report.all.bytes / report.all.least_bytes : 0;
  out.push_back(printed("  moved %.2f times the least that the operators must", ratio));
  std::string line = printed("  step (predicted, %s%s): %.2f ms", report.device.c_str(),
                             report.graph ? ", recorded" : ", not recorded", report.step_ms);
  if (report.step_ms < report.one_queue_ms) {
    line += printed(" on two queues, %.2f one by one", report.one_queue_ms);
  }
  line += printed("; roofline %.2f ms", report.roofline_ms);
  if (report.samples > 0) line += ", " + short_number(report.rate(report.samples)) + " samples/s";
  if (report.units > 0 && report.units != report.samples) {
    line += ", " + short_number(report.rate(report.units)) + " " + report.unit + "/s";
  }
  out.push_back(line);
  if (const std::string code = text_of_code(report.code); !code.empty()) {
    out.push_back("  code: " + code);
  }
  return out;
}

std::string kernel_json(const KernelReport& report) {
  nlohmann::ordered_json json{{"config", report.name},
                              {"bucket", {report.bucket.first, report.bucket.second}},
                              {"profile", report.device},
                              {"recorded", report.graph},
                              {"predicted", true},
                              {"launches", report.all.launches},
                              {"bytes", report.all.bytes},
                              {"least_bytes", report.all.least_bytes},
                              {"flops", report.all.flops},
                              {"step_ms", report.step_ms},
                              {"one_queue_ms", report.one_queue_ms},
                              {"roofline_ms", report.roofline_ms}};
  json["code"] = report.code;
  json["samples_per_s"] = report.rate(report.samples);
  json[report.unit + "_per_s"] = report.rate(report.units);
  for (const KernelRow& row : report.rows) {
    nlohmann::ordered_json one{{"op", row.name}};
    one.update(json_of(row));
    for (const KernelRow& kernel : row.kernels) {
      one["kernels"].push_back({{"where", kernel.name},
                                {"launches", kernel.launches},
                                {"bytes", kernel.bytes},
                                {"ms", kernel.ms}});
    }
    json["operators"].push_back(std::move(one));
  }
  return json.dump();
}

}  // namespace pal
