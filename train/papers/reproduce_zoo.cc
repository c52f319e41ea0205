// The papers' networks by themselves: weights beside the published counts, and what a step needs.
#include "memory/compile.h"
#include "train/config/wording.h"
#include "train/papers/paper_networks.h"
#include "train/papers/reproduce.h"

namespace pal {
namespace {

constexpr int64_t kBatch = 32;

ReproducedTable weights() {
  ReproducedTable table{.title = "Weights that are trained",
                        .columns = {"network", "sample", "ours", "published"},
                        .notes = {"published -: the papers round."}};
  for (const PaperNetwork& n : paper_networks()) {
    const std::string theirs = n.published ? std::to_string(n.published) : "-";
    table.rows.push_back({n.name, n.of, std::to_string(weights_of(n.record(1))), theirs});
  }
  return table;
}

ReproducedTable footprints() {
  ReproducedTable table{
      .title = "A step of plain gradient descent, batch " + std::to_string(kBatch),
      .columns = {"network", "nodes", "framework, GB", "planned, GB", "bound, GB", "echo, GB",
                  "planned in"},
      .notes = {
          "framework: as frameworks of the time plan (memory/price/baselines.h). bound: no plan of "
          "that order can be smaller. planned in: all of compile(), kernels included."}};
  for (const PaperNetwork& n : paper_networks()) {
    const Program recorded = n.record(kBatch);
    KernelCache cache(cpu_device(1));
    const StateLayout layout(recorded);
    const Compiled plain = compile(recorded, cache, layout, {});
    const Compiled echo = compile(recorded, cache, layout, {.recompute = Recompute::echo});
    const Region& region = plain.plan.device();
    table.rows.push_back({n.name, std::to_string(recorded.node_count()),
                          gigabytes(plain.baselines.framework), gigabytes(region.bytes),
                          gigabytes(region.lower_bound), gigabytes(echo.plan.device().bytes),
                          fixed(plain.seconds, 2) + " s"});
  }
  return table;
}

constexpr Reproduction kZoo[] = {
    {"zoo", "The papers' networks: weights and footprints",
     [](const DeviceProfile&) {
       return std::vector<ReproducedTable>{weights(), footprints()};
     }},
};

}  // namespace

std::span<const Reproduction> zoo_reproductions() { return kZoo; }

}  // namespace pal
