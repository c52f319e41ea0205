// Gist's figures of footprints with its encodings (8, 10, 11, 13, 17), simulated on lifetimes as
// the paper's own liveness analysis is. Densities are assumed.
#include <algorithm>
#include <functional>

#include "train/config/wording.h"
#include "train/papers/reproduce_gist.h"

namespace pal {
namespace {

using Table = ReproducedTable;
constexpr double kDensities[] = {0.5, 0.2};
const char* const kSimulated =
    "Simulated on lifetimes, without nodes of a pass. Densities of what csr stores are assumed: "
    "0.5, "
    "0.2. The mean is over the paper's five.";

std::string ratio(double r) { return fixed(r, 2) + "x"; }
std::string with_density(const std::string& what, double density) {
  return what + ", density " + fixed(density, 1);
}

// A column of ratios: its name, and what it is of a network.
struct Column {
  std::string name;
  std::function<double(const GistBaseline&)> ratio;
};

// A row for every network, and the mean of the paper's five; then what the paper says of a network.
Table ratios(const std::string& title, const std::vector<Column>& columns,
             const std::vector<std::string>& paper,
             const std::function<std::vector<std::string>(const std::string&)>& said,
             const std::vector<std::string>& notes) {
  Table table{.title = title, .columns = {"network"}, .notes = notes};
  for (const Column& column : columns) table.columns.push_back(column.name);
  table.columns.insert(table.columns.end(), paper.begin(), paper.end());
  std::vector<double> sums(columns.size(), 0);
  int count = 0;
  const auto add_row = [&](const std::string& name, const std::string& key, const auto& value) {
    std::vector<std::string> row{name};
    for (size_t c = 0; c < columns.size(); ++c) row.push_back(ratio(value(c)));
    const std::vector<std::string> theirs = said(key);
    row.insert(row.end(), theirs.begin(), theirs.end());
    table.rows.push_back(row);
  };
  std::vector<GistBaseline> networks = gist_baselines();
  for (const GistBaseline& n : networks) {
    add_row(label(n), n.name, [&](size_t c) {
      const double r = columns[c].ratio(n);
      if (!n.apart) sums[c] += r;
      return r;
    });
    count += n.apart ? 0 : 1;
  }
  add_row("mean", "mean", [&](size_t c) { return sums[c] / count; });
  return table;
}

double over(int64_t baseline, int64_t encoded) { return double(baseline) / double(encoded); }

GistEncodings lossless(double density) {
  return {.binarize = true, .ssdc = true, .inplace = true, .density = density};
}
GistEncodings lossy(const GistBaseline& n, double density) {
  GistEncodings with = lossless(density);
  with.dpr = smallest_format(n.name);
  return with;
}

std::vector<Table> ratios_encoded(const DeviceProfile&) {
  std::vector<Column> columns;
  for (const double d : kDensities) {
    columns.push_back({with_density("lossless", d), [d](const GistBaseline& n) {
                         return over(n.footprint.cntk,
                                     gist_simulation(n.program, lossless(d)).cntk);
                       }});
  }
  for (const double d : kDensities) {
    columns.push_back({with_density("and lossy", d), [d](const GistBaseline& n) {
                         return over(n.footprint.cntk,
                                     gist_simulation(n.program, lossy(n, d)).cntk);
                       }});
  }
  auto said = [](const std::string& n) -> std::vector<std::string> {
    if (n == "alexnet") return {"over 1.5x", "2x"};
    if (n == "vgg16") return {"over 1.5x", "-"};
    if (n == "mean") return {"1.4x", "1.8x"};
    return {"-", "-"};
  };
  return {ratios("Footprint of CNTK's baseline over that with encodings, predicted", columns,
                 {"paper: lossless", "paper: and lossy"}, said, {kSimulated})};
}

std::vector<Table> ratios_lossless(const DeviceProfile&) {
  struct Step {
    const char* name;
    bool binarize, ssdc, inplace;
  };
  const Step steps[] = {{"S", false, true, false},
                        {"B", true, false, false},
                        {"S+B", true, true, false},
                        {"S+B+I", true, true, true}};
  std::vector<Column> columns;
  for (const double d : kDensities) {
    for (const Step& step : steps) {
      const GistEncodings with{
          .binarize = step.binarize, .ssdc = step.ssdc, .inplace = step.inplace, .density = d};
      columns.push_back({with_density(step.name, d), [with](const GistBaseline& n) {
                           return over(n.footprint.investigation,
                                       gist_simulation(n.program, with).investigation);
                         }});
    }
  }
  auto said = [](const std::string& n) -> std::vector<std::string> {
    if (n == "alexnet") return {"1.06x, 1.26x, 1.35x, 1.56x"};
    return {"-"};
  };
  return {
      ratios("Footprint of the investigation baseline over that with lossless encodings, "
             "predicted: S SSDC, B Binarize, I in place",
             columns, {"paper: S, B, S+B, S+B+I"}, said, {kSimulated})};
}

int64_t immediate(const GistFootprint& f) {
  int64_t bytes = 0;
  for (const MapUse use : {MapUse::immediate, MapUse::gradient, MapUse::decoded}) {
    bytes += f.investigation_by_use[size_t(use)];
  }
  return bytes;
}

std::vector<Table> ratios_on_targets(const DeviceProfile&) {
  std::vector<Column> columns = {{"Binarize on ReLU-Pool", [](const GistBaseline& n) {
                                    return over(n.stashed(LayerPair::relu_pool),
                                                n.binarized_relu());
                                  }}};
  for (const double d : kDensities) {
    columns.push_back({with_density("SSDC on ReLU/Pool-Conv", d), [d](const GistBaseline& n) {
                         const int64_t dense =
                             n.stashed(LayerPair::relu_conv) + n.stashed(LayerPair::pool_conv);
                         return over(dense, ssdc_csr(dense, d));
                       }});
  }
  columns.push_back({"in place on immediately consumed", [](const GistBaseline& n) {
                       GistEncodings with{.binarize = true, .ssdc = true};
                       const int64_t apart = immediate(gist_simulation(n.program, with));
                       with.inplace = true;
                       return over(apart, immediate(gist_simulation(n.program, with)));
                     }});
  auto said = [](const std::string& n) -> std::vector<std::string> {
    if (n == "overfeat") return {"close to 16x", "up to 7x", "-"};
    return {"close to 16x", "-", n == "alexnet" ? "up to 1.4x" : "-"};
  };
  return {ratios("Bytes of target maps over those after encoding, predicted", columns,
                 {"paper: Binarize", "paper: SSDC", "paper: in place"}, said,
                 {kSimulated,
                  "In place: with both encodings, in the groups that the investigation "
                  "baseline leaves."})};
}

std::vector<Table> ratios_reduced(const DeviceProfile&) {
  auto total = [](const GistBaseline& n, const char* format) {
    return over(n.footprint.investigation,
                gist_simulation(n.program, {.dpr = format}).investigation);
  };
  auto stashed = [](const GistBaseline& n, const char* format) {
    return over(n.stashed(), gist_simulation(n.program, {.dpr = format}).bytes_of(MapUse::encoded));
  };
  std::vector<Column> columns;
  for (const char* format : {"fp16", "fp10", "fp8"}) {
    columns.push_back({format, [=](const GistBaseline& n) { return total(n, format); }});
    columns.push_back({std::string(format) + ", stashed maps",
                       [=](const GistBaseline& n) { return stashed(n, format); }});
  }
  auto said = [](const std::string& n) -> std::vector<std::string> {
    return {n == "alexnet" ? "fp16 1.18x, fp8 1.48x" : "-",
            n == "alexnet" ? "fp16 2x, fp8 4x" : "-"};
  };
  return {
      ratios("Footprint of the investigation baseline over that with DPR alone, predicted", columns,
             {"paper: in all", "paper: stashed maps"}, said,
             {"Simulated on lifetimes, without nodes of a pass; all stashes in the format. Which "
              "formats train a network is not said here."})};
}

std::vector<Table> ratios_dynamic(const DeviceProfile&) {
  std::vector<Column> columns = {{"dynamic", [](const GistBaseline& n) {
                                    return over(n.footprint.cntk, n.footprint.dynamic);
                                  }}};
  for (const double d : kDensities) {
    columns.push_back({with_density("lossless", d), [d](const GistBaseline& n) {
                         return over(n.footprint.cntk,
                                     gist_simulation(n.program, lossless(d)).dynamic);
                       }});
    columns.push_back({with_density("lossy", d), [d](const GistBaseline& n) {
                         return over(n.footprint.cntk,
                                     gist_simulation(n.program, lossy(n, d)).dynamic);
                       }});
    columns.push_back({with_density("no copies", d), [d](const GistBaseline& n) {
                         GistEncodings with = lossy(n, d);
                         with.decoded_copies = false;
                         return over(n.footprint.cntk, gist_simulation(n.program, with).dynamic);
                       }});
  }
  auto said = [](const std::string& n) -> std::vector<std::string> {
    if (n == "alexnet") return {"-", "-", "-", "4.1x"};
    if (n == "overfeat") return {"over 1.5x", "-", "-", "-"};
    if (n == "mean") return {"1.2x", "1.7x", "2.6x", "2.9x"};
    return {"-", "-", "-", "-"};
  };
  return {ratios("Footprint of CNTK's baseline over bytes allocated as they are needed, predicted",
                 columns, {"paper: dynamic", "paper: lossless", "paper: lossy", "paper: no copies"},
                 said, {kSimulated})};
}

}  // namespace

std::span<const Reproduction> gist_encoded_reproductions() {
  static constexpr Reproduction kEncoded[] = {
      {"gist-fig8", "Gist, Figure 8: footprints with encodings", ratios_encoded},
      {"gist-fig10", "Gist, Figure 10: what each lossless encoding is worth", ratios_lossless},
      {"gist-fig11", "Gist, Figure 11: lossless encodings on their target maps", ratios_on_targets},
      {"gist-fig13", "Gist, Figure 13: what reduced precision is worth", ratios_reduced},
      {"gist-fig17", "Gist, Figure 17: dynamic allocation and no decoded copies", ratios_dynamic},
  };
  return kEncoded;
}

}  // namespace pal
