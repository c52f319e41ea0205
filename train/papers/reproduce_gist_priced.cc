// Gist's figures of times that are predicted here: against swapping (15), and what larger batches
// are worth to deep networks (16). Both for the paper's card.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "core/clock.h"
#include "core/error.h"
#include "core/text.h"
#include "memory/compile.h"
#include "memory/passes/assign_queues.h"
#include "memory/passes/encode.h"
#include "memory/storages/lifetimes.h"
#include "memory/swap/swap.h"
#include "train/config/wording.h"
#include "train/loop/max_fit.h"
#include "train/papers/gist_priced.h"
#include "train/papers/paper_networks.h"
#include "train/report/plan_densities.h"

namespace pal {
namespace {

using Table = ReproducedTable;

std::string added(double ms, double plain) { return printed("%+.1f %%", 100 * (ms / plain - 1)); }

// A way to keep maps, as a column: the step's time with it.
struct Priced {
  std::string name;
  std::function<double(const GistBaseline&, const SwapTimes&)> ms;
};

std::vector<Priced> priced_ways(const GistDensities& densities, const DeviceProfile& device) {
  std::vector<Priced> ways = {
      {"naive swapping", [](const GistBaseline&, const SwapTimes& swap) { return swap.naive; }},
      {"vDNN, maps of convolutions",
       [](const GistBaseline&, const SwapTimes& swap) { return swap.vdnn_conv; }},
      {"vDNN, all maps", [](const GistBaseline&, const SwapTimes& swap) { return swap.vdnn_all; }},
      {"planned, as few bytes",
       [](const GistBaseline&, const SwapTimes& swap) { return swap.planned; }}};
  for (const GistDensity& density : densities.each) {
    for (const bool lossy : {false, true}) {
      const std::string what = lossy ? "Gist, lossless and lossy" : "Gist, lossless";
      ways.push_back(
          {densities.each.size() > 1 ? what + ", " + density.what : what,
           [&, lossy](const GistBaseline& n, const SwapTimes&) {
             GistEncodings with;
             density.put_into(with, n.name);
             const auto format = lossy ? std::optional(smallest_dpr(n.name)) : std::nullopt;
             return encoded_ms(n.program, n.footprint, format, with.density, device, with.measured);
           }});
    }
  }
  return ways;
}

std::vector<Table> swapping_with(const DeviceProfile& device, const GistDensities& densities) {
  const std::vector<Priced> ways = priced_ways(densities, device);
  Table table{.title = "A step's time above the plain one, batch 64, all simulated",
              .columns = {"network", "step, ms"}};
  for (const Priced& way : ways) table.columns.push_back(way.name);
  for (const char* more : {"format", "paper: naive", "paper: vDNN", "paper: Gist"}) {
    table.columns.emplace_back(more);
  }
  std::vector<double> sums(ways.size(), 0);
  for (const GistBaseline& n : densities.networks) {
    const SwapTimes swap = swap_times(n.program, device);
    std::vector<std::string> row{n.name, fixed(swap.plain, 1)};
    for (size_t i = 0; i < ways.size(); ++i) {
      const double ms = ways[i].ms(n, swap);
      row.push_back(added(ms, swap.plain));
      sums[i] += ms / swap.plain;
    }
    row.emplace_back(smallest_format(n.name));
    for (const char* paper :
         {"-", n.name == "inception" ? "+27 %" : "-", n.name == "vgg16" ? "up to +7 %" : "-"}) {
      row.emplace_back(paper);
    }
    table.rows.push_back(row);
  }
  std::vector<std::string> mean{"mean", ""};
  for (double sum : sums) mean.push_back(added(sum / double(densities.networks.size()), 1));
  mean.insert(mean.end(), {"", "+30 %", "+15 %", "+4 %"});
  if (densities.networks.size() > 1) table.rows.push_back(mean);
  table.notes = {
      printed("Node times: the roofline of %s. Link: %.2f GB/s, of which %.0f %% are reached, each "
              "way. What is swapped: maps of our step as it is recorded, by memory.swap.",
              device.name.c_str(), device.link * 1e-9, 100 * device.link_efficiency),
      "The paper does not say which maps its own vDNN moves. planned: within the bytes that vDNN "
      "takes with all maps.",
      "Gist: nodes of the pass for every eligible map; SSDC's traffic is simulated, of csr. The "
      "paper's Gist column is both encodings; its figures are measured.",
      densities.said};
  return {table};
}

std::vector<Table> swapping_by_density(const DeviceProfile& device,
                                       const std::vector<std::string>& given) {
  return swapping_with(device, gist_densities(given, false));
}
std::vector<Table> swapping(const DeviceProfile& device) {
  return swapping_by_density(device, {fixed(kGistDensity, 1)});
}

std::string in_gib(int64_t bytes) { return printed("%.0f GiB", double(bytes) / (1 << 30)); }

// One depth and one way to keep maps: the largest batch, and what its images take.
struct Deep {
  int64_t batch = 0;
  double image_ms = 0;
  double plain_image_ms = 0;  // with the same batch, without encodings
};
std::string faster(double ms, const Deep& than) {
  return than.batch > 0 && ms > 0 ? printed("%+.1f %%", 100 * (than.image_ms / ms - 1)) : "-";
}

// Maps as CNTK shares them, beside weights and their gradients; null: without encodings.
Deep largest_in_cntk(const PaperNetwork& network, const GistEncodings* with,
                     const DeviceProfile& device) {
  constexpr int64_t kFew = 4;
  const Program few = network.record(kFew);
  const int64_t maps = with ? gist_simulation(few, *with).cntk : gist_footprint(few).cntk;
  const BesideMaps beside = beside_maps(few);
  Deep out{batch_that_fits(device.capacity, beside.weights + beside.weight_gradients,
                           double(maps) / kFew)};
  if (out.batch == 0) return out;
  const Program step = network.record(out.batch);
  out.plain_image_ms = predict(step, device).step_ms / double(out.batch);
  out.image_ms = out.plain_image_ms;
  if (!with) return out;
  const std::optional<Dpr> format = with->dpr ? std::optional(Dpr::fp16) : std::nullopt;
  out.image_ms =
      encoded_ms(step, gist_footprint(step), format, with->density, device) / double(out.batch);
  return out;
}

Table deep_in_cntk(std::span<const DeepNetwork> depths, const DeviceProfile& device,
                   double density) {
  Table table{
      .title = "In the paper's accounting: the largest batch in " + in_gib(device.capacity) +
               ", and images a second above CNTK's, simulated",
      .columns = {"ResNet", "CNTK", "images/s", "lossless", "by the batch alone", "with encodings",
                  "lossless, fp16", "fp16: by the batch alone", "fp16: with encodings", "paper"}};
  const GistEncodings lossless{.binarize = true, .ssdc = true, .inplace = true, .density = density},
      lossy{.binarize = true, .ssdc = true, .inplace = true, .dpr = "fp16", .density = density};
  for (const DeepNetwork& d : depths) {
    const PaperNetwork network = deep_resnet(d.depth);
    const Deep none = largest_in_cntk(network, nullptr, device);
    std::vector<std::string> row{std::to_string(d.depth), std::to_string(none.batch),
                                 fixed(1e3 / none.image_ms, 0)};
    for (const GistEncodings* with : {&lossless, &lossy}) {
      const Deep deep = largest_in_cntk(network, with, device);
      row.push_back(std::to_string(deep.batch));
      row.push_back(faster(deep.plain_image_ms, none));
      row.push_back(faster(deep.image_ms, none));
    }
    row.emplace_back(d.paper);
    table.rows.push_back(row);
  }
  table.notes = {"Maps beside weights and their gradients; no workspace. SSDC as csr of density " +
                     fixed(density, 2) + ", assumed; the paper names no format for ResNet: fp16.",
                 "Images of 32x32, assumed: the depths are those of He et al. for CIFAR-10. Times "
                 "by the roofline of " +
                     device.name +
                     ", which knows launches and idle units, and nothing else that small batches "
                     "cost a card. The paper measured."};
  return table;
}

// By search among the least bytes of a step.
class DeepPlanner {
 public:
  DeepPlanner(const PaperNetwork& network, const DeviceProfile& device)
      : network_(network), device_(device), cache_(cpu_device(1)) {}

  Deep largest(const Encodings& encodings) {
    const int64_t few = bytes_of(8, encodings), more = bytes_of(16, encodings);
    const double slope = double(more - few) / 8;
    FitRange range{.least = 1, .most = 1'000'000, .slope = slope};
    range.start = std::max<int64_t>(1, int64_t(double(device_.capacity - few) / slope) + 8);
    Deep out{search_fitting(range, device_.capacity, [&](int64_t batch) {
               return bytes_of(batch, encodings);
             }).value};
    if (out.batch < 1) return out;
    out.plain_image_ms = step_ms(out.batch, {}) / double(out.batch);
    out.image_ms = step_ms(out.batch, encodings) / double(out.batch);
    return out;
  }

 private:
  int64_t bytes_of(int64_t batch, const Encodings& encodings) {
    const Program recorded = network_.record(batch);
    const StateLayout layout(recorded);
    return least_bytes(recorded, cache_, layout, {.encode = encodings}, &passed_);
  }
  double step_ms(int64_t batch, const Encodings& encodings) {
    bytes_of(batch, encodings);
    return predict(passed_.program, device_, &passed_.storages).step_ms;
  }

  const PaperNetwork& network_;
  const DeviceProfile& device_;
  KernelCache cache_;
  Compiled passed_;  // of the last probe
};

Table deep_as_planned(std::span<const DeepNetwork> depths, const DeviceProfile& device) {
  Table table{.title = "As planned by us: the largest batch in " + in_gib(device.capacity) +
                       ", all bytes of the step, and images a second above the plain plan's, "
                       "predicted",
              .columns = {"ResNet", "nodes", "plain", "images/s", "binarize, dpr_fp16",
                          "by the batch alone", "with encodings", "planned in"}};
  for (const DeepNetwork& d : depths) {
    const PaperNetwork network = deep_resnet(d.depth);
    const Clock::time_point start = Clock::now();
    DeepPlanner planner(network, device);
    const Deep none = planner.largest({});
    const Deep both = planner.largest({.binarize = true, .dpr = Dpr::fp16});
    table.rows.push_back({std::to_string(d.depth), std::to_string(network.record(1).node_count()),
                          std::to_string(none.batch), fixed(1e3 / none.image_ms, 0),
                          std::to_string(both.batch), faster(both.plain_image_ms, none),
                          faster(both.image_ms, none), fixed(seconds_since(start), 0) + " s"});
  }
  table.notes = {
      "Lower bounds of plans, which placement is seldom 1 % above; in place, with our "
      "order of nodes. SSDC is not among the encodings of this table. planned in: all "
      "probes of the search, on this machine."};
  return table;
}

constexpr DeepNetwork kDepths[] = {{509, "-"}, {851, "-"}, {1202, "+22 %"}};

std::vector<Table> deeper(const DeviceProfile& device) { return deeper_tables(kDepths, device); }

std::vector<Table> deeper_by_density(const DeviceProfile& device,
                                     const std::vector<std::string>& given) {
  const PlanDensities density(given[0], true);
  if (given.size() > 1 || !density.assumed()) {
    throw UsageError(
        "reproduce gist-fig16: takes one number as --density; its networks are too "
        "deep to be trained here");
  }
  return deeper_tables(kDepths, device, *density.assumed());
}

}  // namespace

SwapTimes swap_times(const Program& p, const DeviceProfile& device) {
  struct Swapped {
    double ms;
    int64_t bytes;
  };
  const auto with = [&](const SwapOptions& options, std::optional<int64_t> budget = {}) -> Swapped {
    const SwapGoal goal{
        .budget = budget, .device = device, .workspace = ByNode<int64_t>(p.nodes.size(), 0)};
    const Program moved = swapped(p, options, goal).value_or(p);
    const Program step = assign_queues(moved).value_or(moved);
    const Storages storages = assign_storages(step, {}, {});
    return {predict(step, device, &storages).step_ms,
            peak_of(storages, lifetimes_of(step, storages)).bytes};
  };
  SwapTimes out{.plain = with({}).ms, .naive = with({.method = Swap::naive}).ms};
  out.vdnn_conv = with({.method = Swap::vdnn, .vdnn = VdnnInputs::conv}).ms;
  const Swapped all = with({.method = Swap::vdnn, .vdnn = VdnnInputs::all});
  out.vdnn_all = all.ms;
  out.planned = with({.method = Swap::planned}, all.bytes).ms;
  return out;
}

double encoded_ms(const Program& p, const GistFootprint& footprint, std::optional<Dpr> format,
                  double density, const DeviceProfile& device,
                  const std::map<ValueId, double>* measured) {
  Forms forms = choose_forms(p, {.binarize = true, .dpr = format});
  double ssdc = 0;
  for (const GistStash& stash : stashes_of(p, footprint)) {
    if (!is_for_ssdc(stash.pair) || (measured && !measured->count(stash.value))) continue;
    forms[stash.value] = {};
    const double stored = measured ? measured->at(stash.value) : density;
    const int64_t code =
        ssdc_csr(stash.bytes, stored, format ? names(Dpr())[size_t(*format)] : nullptr);
    ssdc += 2 * time_ms({.bytes = double(stash.bytes + code)}, device);
  }
  return predict(encode(p, forms), device).step_ms + ssdc;
}

Dpr smallest_dpr(const std::string& network) {
  Dpr format{};
  const std::string name = smallest_format(network);
  if (!read_name(name, format)) throw ProgramError("[gist] no format " + name);
  return format;
}

std::vector<Table> deeper_tables(std::span<const DeepNetwork> depths, const DeviceProfile& device,
                                 double density) {
  return {deep_in_cntk(depths, device, density), deep_as_planned(depths, device)};
}

int64_t batch_that_fits(int64_t capacity, int64_t fixed, double bytes_per_sample) {
  return std::max<int64_t>(0, int64_t(std::floor(double(capacity - fixed) / bytes_per_sample)));
}

std::span<const Reproduction> gist_priced_reproductions() {
  static constexpr Reproduction kPriced[] = {
      {.name = "gist-fig15",
       .what = "Gist, Figure 15: encodings against swapping",
       .make = swapping,
       .by_density = swapping_by_density,
       .profile = "titanx"},
      {.name = "gist-fig16",
       .what = "Gist, Figure 16: deeper networks with larger batches",
       .make = deeper,
       .by_density = deeper_by_density,
       .profile = "titanx"},
  };
  return kPriced;
}

}  // namespace pal
