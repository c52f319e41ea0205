// OLLA (Steiner et al. 2022): what ordering nodes and placing tensors save against PyTorch's order
// and its caching allocator, figures 7, 8 and 13. PyTorch is simulated: nodes in program order,
// updates at the end, no in-place (views share), and memory/price/caching_allocator.h in place of
// ours.
#include "train/papers/reproduce_olla.h"

#include <algorithm>
#include <map>

#include "memory/price/caching_allocator.h"
#include "memory/storages/lifetimes.h"
#include "train/config/wording.h"
#include "train/papers/paper_networks.h"
#include "train/papers/reproduce.h"

namespace pal {
namespace {

using Table = ReproducedTable;

// What PyTorch would ask its allocator for: the state and inputs, then every value as it is made.
std::vector<Buffer> requests(const Program& program, const ByNode<int64_t>& workspace) {
  const Storages storages = assign_storages(program, workspace, {.inplace = false});
  const ByStorage<Lifetime> lifetimes = lifetimes_of(program, storages);
  std::vector<Buffer> out;
  for (size_t s = 0; s < lifetimes.size(); ++s) {
    if (storages.list[s].space != Space::device || lifetimes[s].begin >= lifetimes[s].end) continue;
    out.push_back({lifetimes[s].begin, lifetimes[s].end, storages.list[s].bytes});
  }
  return out;
}

std::string less(int64_t from, int64_t to) {
  return percent(std::max(0.0, 1 - double(to) / double(from)));
}
// One table a batch size of the paper, a row a network and a last one of means: of the cells that
// are percentages.
std::vector<Table> tables(const std::string& title, const std::vector<std::string>& columns,
                          const std::string& paper,
                          std::vector<std::string> (*cells)(const OllaComparison&)) {
  std::vector<Table> out;
  for (const int64_t batch : {1, 32}) {
    Table table{
        .title = title + ", batch " + std::to_string(batch), .columns = columns, .notes = {paper}};
    std::map<size_t, double> sums;
    for (const PaperNetwork& network : paper_networks()) {
      std::vector<std::string> row = cells(olla_compare(network.record(batch)));
      for (size_t i = 0; i < row.size(); ++i) {
        if (row[i].ends_with(" %")) sums[i] += std::stod(row[i]) / 100;
      }
      row.insert(row.begin(), network.name);
      table.rows.push_back(row);
    }
    std::vector<std::string> means(columns.size());
    means[0] = "mean";
    for (const auto& [i, sum] : sums) means[i + 1] = percent(sum / double(table.rows.size()));
    table.rows.push_back(means);
    out.push_back(table);
  }
  return out;
}

std::vector<Table> fig7(const DeviceProfile&) {
  return tables("Peak of live bytes by the order of nodes alone",
                {"network", "program order, GB", "our order, GB", "less"},
                "The paper's mean over its networks: 22.5 % at batch 1, 10.1 % at batch 32.",
                [](const OllaComparison& c) -> std::vector<std::string> {
                  return {gigabytes(c.in_program_order, 3), gigabytes(c.ordered, 3),
                          less(c.in_program_order, c.ordered)};
                });
}

std::vector<Table> fig8(const DeviceProfile&) {
  return tables("Fragmentation: reserved and not used, of what is reserved",
                {"network", "caching allocator, simulated", "ours"},
                "The paper's mean for PyTorch: 7.9 % at batch 1, 26.1 % at batch 32; OLLA's: 0.",
                [](const OllaComparison& c) -> std::vector<std::string> {
                  return {percent(c.its_fragmentation), percent(c.our_fragmentation)};
                });
}

std::vector<Table> fig13(const DeviceProfile&) {
  return tables("Footprint in all",
                {"network", "nodes", "caching allocator, GB", "planned, GB", "less",
                 "with in-place, GB", "less", "planned in"},
                "The paper's mean: 30.4 % at batch 1, 36.1 % at batch 32, within 10 minutes each.",
                [](const OllaComparison& c) -> std::vector<std::string> {
                  return {std::to_string(c.nodes),         gigabytes(c.reserved, 3),
                          gigabytes(c.planned, 3),         less(c.reserved, c.planned),
                          gigabytes(c.planned_inplace, 3), less(c.reserved, c.planned_inplace),
                          fixed(c.seconds, 2) + " s"};
                });
}

constexpr Reproduction kOlla[] = {
    {"olla-fig7", "OLLA, Figure 7: peak memory by the order of nodes", fig7},
    {"olla-fig8", "OLLA, Figure 8: fragmentation of a caching allocator", fig8},
    {"olla-fig13", "OLLA, Figure 13: order and placement together", fig13},
};

}  // namespace

OllaComparison olla_compare(const Program& recorded) {
  KernelCache cache(cpu_device(1));
  const StateLayout layout(recorded);
  auto plan = [&](bool inplace) {
    CompileOptions options;
    options.inplace = inplace, options.layouts = false;
    return compile(recorded, cache, layout, options);
  };
  const Compiled best = plan(true), ours = plan(false);  // the first prepares the kernels
  const auto workspace = workspace_bytes(prepare_all(recorded, cache));
  const std::vector<Buffer> buffers = requests(recorded, workspace);
  const CachingAllocation torch = caching_allocation(buffers);
  return {.nodes = recorded.node_count(),
          .in_program_order = lower_bound_of(buffers),
          .ordered = ours.plan.device().lower_bound,
          .reserved = torch.reserved,
          .its_fragmentation = torch.fragmentation(),
          .planned = ours.plan.device().bytes,
          .planned_inplace = best.plan.device().bytes,
          .our_fragmentation = ours.plan.device().fragmentation(),
          .seconds = best.seconds};
}

std::span<const Reproduction> olla_reproductions() { return kOlla; }

}  // namespace pal
