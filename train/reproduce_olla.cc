// OLLA (Steiner et al. 2022): what ordering nodes and placing tensors save against PyTorch's order
// and its caching allocator, figures 7, 8 and 13. PyTorch is simulated: nodes in program order,
// updates at the end, no in-place (views share), and memory/caching_allocator.h in place of ours.
#include <algorithm>

#include "memory/caching_allocator.h"
#include "memory/lifetimes.h"
#include "train/reproduce.h"

namespace pal {
namespace {

using Table = ReproducedTable;

struct Network {
  const char* name;
  Recipe recipe;
};

std::vector<Network> networks(int batch) {
  auto text = [&](const char* config, std::vector<std::string> more,
                  std::pair<int64_t, int64_t> bucket) {
    std::vector<std::string> sets{"data.synthetic=true", "data.source_vocab_size=17188",
                                  "data.target_vocab_size=7706", "memory.recompute=none",
                                  "train.batch_size=" + std::to_string(batch)};
    sets.insert(sets.end(), more.begin(), more.end());
    return Recipe{config, sets, bucket};
  };
  return {{"NMT, 2:2 of 512", text("nmt_iwslt", {}, {50, 50})},
          {"NMT, fused operators", text("nmt_iwslt", {"model.fused=true"}, {50, 50})},
          {"NMT, 1:1 of 512, tied", text("nmt_multi30k", {}, {28, 30})}};
}

// What PyTorch would ask its allocator for: the state and inputs, then every value as it is made.
std::vector<Buffer> requests(const Program& program, std::span<const int64_t> workspace) {
  const Storages storages = assign_storages(program, workspace, {.inplace = false});
  const std::vector<Lifetime> lifetimes = lifetimes_of(program, storages);
  std::vector<Buffer> out;
  for (size_t s = 0; s < lifetimes.size(); ++s) {
    if (storages.list[s].space != Space::device || lifetimes[s].begin >= lifetimes[s].end) continue;
    out.push_back({lifetimes[s].begin, lifetimes[s].end, storages.list[s].bytes});
  }
  return out;
}

struct Compared {
  int64_t in_program_order = 0;  // most bytes alive, no in-place
  int64_t ordered = 0;           // the same in our order
  int64_t reserved = 0;          // by the caching allocator, in program order
  double its_fragmentation = 0;
  int64_t planned = 0, planned_inplace = 0;
  double our_fragmentation = 0, seconds = 0;
};

Compared compare(const Network& network, const DeviceProfile& device) {
  const PlannedRecipe ours = plan_recipe(network.recipe, device, [](CompileOptions& o) {
    o.inplace = false;
    o.layouts = false;
  });
  const PlannedRecipe best =
      plan_recipe(network.recipe, device, [](CompileOptions& o) { o.layouts = false; });
  KernelCache cache(cpu_device(1));
  const auto workspace = workspace_bytes(prepare_all(ours.recorded, cache));
  const std::vector<Buffer> buffers = requests(ours.recorded, workspace);
  const CachingAllocation torch = caching_allocation(buffers);
  return {.in_program_order = lower_bound_of(buffers),
          .ordered = ours.step.plan.device().lower_bound,
          .reserved = torch.reserved,
          .its_fragmentation = torch.fragmentation(),
          .planned = ours.step.plan.device().bytes,
          .planned_inplace = best.step.plan.device().bytes,
          .our_fragmentation = ours.step.plan.device().fragmentation(),
          .seconds = best.step.seconds};
}

std::string less(int64_t from, int64_t to) {
  return decimals(100 * std::max(0.0, 1 - double(to) / double(from)), 1) + " %";
}
std::string gb(int64_t bytes) { return decimals(double(bytes) * 1e-9, 3); }

// One table a batch size of the paper, a row a network and a last one of means.
std::vector<Table> tables(const DeviceProfile& device, const std::string& title,
                          std::vector<std::string> columns, const std::string& paper,
                          std::vector<std::string> (*row)(const Compared&)) {
  std::vector<Table> out;
  for (int batch : {1, 32}) {
    Table table{.title = title + ", batch " + std::to_string(batch), .columns = columns,
                .rows = {}, .notes = {paper}};
    for (const Network& network : networks(batch)) {
      std::vector<std::string> cells = row(compare(network, device));
      cells.insert(cells.begin(), network.name);
      table.rows.push_back(cells);
    }
    out.push_back(table);
  }
  return out;
}

std::vector<Table> fig7(const DeviceProfile& device) {
  return tables(device, "Peak of live bytes by the order of nodes alone",
                {"network", "program order, GB", "our order, GB", "less"},
                "The paper's mean over its networks: 22.5 % at batch 1, 10.1 % at batch 32.",
                [](const Compared& c) -> std::vector<std::string> {
                  return {gb(c.in_program_order), gb(c.ordered), less(c.in_program_order, c.ordered)};
                });
}

std::vector<Table> fig8(const DeviceProfile& device) {
  return tables(device, "Fragmentation: reserved and not used, of what is reserved",
                {"network", "caching allocator, simulated", "ours"},
                "The paper's mean for PyTorch: 7.9 % at batch 1, 26.1 % at batch 32; OLLA's: 0.",
                [](const Compared& c) -> std::vector<std::string> {
                  return {decimals(100 * c.its_fragmentation, 1) + " %",
                          decimals(100 * c.our_fragmentation, 1) + " %"};
                });
}

std::vector<Table> fig13(const DeviceProfile& device) {
  return tables(device, "Footprint in all",
                {"network", "caching allocator, GB", "planned, GB", "less", "with in-place, GB",
                 "less", "planned in"},
                "The paper's mean: 30.4 % at batch 1, 36.1 % at batch 32, within 10 minutes each.",
                [](const Compared& c) -> std::vector<std::string> {
                  return {gb(c.reserved), gb(c.planned), less(c.reserved, c.planned),
                          gb(c.planned_inplace), less(c.reserved, c.planned_inplace),
                          decimals(c.seconds, 2) + " s"};
                });
}

constexpr Reproduction kOlla[] = {
    {"olla-fig7", "OLLA, Figure 7: peak memory by the order of nodes", fig7},
    {"olla-fig8", "OLLA, Figure 8: fragmentation of a caching allocator", fig8},
    {"olla-fig13", "OLLA, Figure 13: order and placement together", fig13},
};

}  // namespace

std::span<const Reproduction> olla_reproductions() { return kOlla; }

}  // namespace pal
