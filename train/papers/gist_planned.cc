// Steps of Gist's figures by the passes, and the densities that they are planned with.
#include <algorithm>

#include "core/error.h"
#include "train/config/wording.h"
#include "train/papers/gist_priced.h"
#include "train/papers/reproduce_gist.h"
#include "train/report/plan_densities.h"

namespace pal {
namespace {

constexpr double kAssumed[] = {kGistDensity, 0.2};

// Of a run's configuration: what paper_networks.h calls its network.
std::string network_of(const Config& config) {
  if (const auto* zoo = config.options<ZooOptions>()) {
    return zoo->network == "googlenet" && !zoo->norm ? "inception" : zoo->network;
  }
  if (const auto* resnet = config.options<ResNetOptions>()) {
    return "resnet" + std::to_string(resnet->depth);
  }
  return "another kind of model";
}

void add_run(const std::string& run, const PlanDensities& measured,
             const std::vector<GistBaseline>& networks, GistDensity& out) {
  const std::string name = network_of(load_config(std::filesystem::path(run) / "config.yaml"));
  const auto found = std::find_if(networks.begin(), networks.end(),
                                  [&](const GistBaseline& n) { return n.name == name; });
  if (found == networks.end()) {
    std::string known;
    for (const GistBaseline& n : networks) known += (known.empty() ? "" : ", ") + n.name;
    throw UsageError("--density: " + run + " trained " + name + "; the table has " + known +
                     " (inception: googlenet with model.norm: false)");
  }
  if (out.measured.contains(name)) throw UsageError("--density: two runs trained " + name);
  Encodings encodings;
  measured.put_into(encodings, found->program);
  out.measured[name] = std::move(encodings.density);
}

}  // namespace

Encodings as_options(const Program& program, const GistEncodings& with) {
  Encodings out{.binarize = with.binarize, .dropout_bits = with.binarize, .ssdc = with.ssdc};
  if (with.dpr && !read_name(with.dpr, out.dpr.emplace())) {
    throw ProgramError("[gist] no format is called " + std::string(with.dpr));
  }
  if (!with.mask) out.ssdc_form = SsdcForm::csr;
  out.ssdc_margin = 1;
  if (with.measured) {
    out.density = *with.measured;
    return out;
  }
  for (const GistStash& stash : stashes_of(program, gist_footprint(program))) {
    if (is_for_ssdc(stash.pair)) out.density[stash.value] = with.density;
  }
  return out;
}

GistPlanned gist_planned(const Program& program, const GistEncodings& with, KernelCache& cache) {
  CompileOptions options;
  options.inplace = options.fuse_epilogues = with.inplace;
  options.encode = as_options(program, with);
  GistPlanned out{.footprint = {}, .maps = {}, .step = plan_maps_alone(program, cache, options)};
  out.footprint = gist_footprint(
      out.step.program,
      {.inplace = with.inplace, .pool_map = with.binarize, .decoded_copies = with.decoded_copies});
  out.maps = map_forms(out.step.program, {});
  return out;
}

void GistDensity::put_into(GistEncodings& with, const std::string& network) const {
  if (assumed) with.density = *assumed;
  const auto found = measured.find(network);
  if (found != measured.end()) with.measured = &found->second;
}

GistDensities gist_densities(const std::vector<std::string>& given, bool apart) {
  GistDensities out{.each = {}, .networks = gist_baselines(apart), .said = {}};
  if (given.empty()) {
    for (const double d : kAssumed) {
      out.each.push_back({.what = "density " + fixed(d, 1), .assumed = d, .measured = {}});
    }
    out.said =
        "Densities of what sparse forms store are assumed: 0.5, 0.2. --density RUN takes "
        "what a run measured.";
    return out;
  }
  GistDensity measured{.what = "measured", .assumed = {}, .measured = {}};
  std::string runs, numbers;
  for (const std::string& text : given) {
    const PlanDensities densities(text, true);
    if (densities.assumed()) {
      out.each.push_back(
          {.what = "density " + text, .assumed = densities.assumed(), .measured = {}});
      numbers += (numbers.empty() ? "" : ", ") + text;
      continue;
    }
    add_run(text, densities, out.networks, measured);
    runs += (runs.empty() ? "" : ", ") + text;
  }
  out.said = "Densities of what sparse forms store are ";
  if (!numbers.empty()) out.said += "assumed: " + numbers;
  if (!runs.empty()) {
    out.said += std::string(numbers.empty() ? "" : "; or ") +
                "measured, of each map the largest that was logged, by " + runs;
    out.each.push_back(std::move(measured));
    std::erase_if(out.networks, [&](const GistBaseline& n) {
      return !out.each.back().measured.contains(n.name);
    });
  }
  out.said += ".";
  return out;
}

}  // namespace pal
