// Gist's figures of footprints with its encodings (8, 10, 11, 13, 17): simulated on lifetimes, as
// the paper's own liveness analysis is, and beside that by the passes that steps are compiled with.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "ops/convolution/max_pool.h"
#include "train/config/wording.h"
#include "train/papers/reproduce_gist.h"

namespace pal {
namespace {

using Table = ReproducedTable;
using Given = const std::vector<std::string>&;

const char* const kTwoRows =
    "A network's first row is simulated on lifetimes of the recorded step. Passes: what the passes "
    "make of the step with memory.encode, judging by maps alone, in the same accounting. The mean "
    "is over the paper's five, as far as they are here.";
const char* const kWhyPasses =
    "Why passes need less than the simulation: weight gradients of convolutions read codes "
    "themselves, part by part in workspace; bits of ReLU stand beside sparse codes, so that a "
    "decoded copy is dead before the convolution's data gradient is born; of a ReLU that a join "
    "copies bits are kept; ReLU's bits go where max pooling's map answers for it. Another order of "
    "nodes and fused operators make little difference.";

std::string ratio(double r) { return fixed(r, 2) + "x"; }
double over(int64_t baseline, int64_t encoded) {
  return encoded ? double(baseline) / double(encoded) : 0;
}

// What one table is made of. Steps are planned once for all its columns.
class Figure {
 public:
  explicit Figure(Given densities) : densities_(gist_densities(densities)), cache_(cpu_device(1)) {}

  const std::vector<GistBaseline>& networks() const { return densities_.networks; }
  const std::vector<GistDensity>& densities() const { return densities_.each; }
  const std::string& said() const { return densities_.said; }

  // By the passes, or simulated.
  GistFootprint footprint(const GistBaseline& n, const GistEncodings& with, bool planned) {
    if (!planned) return gist_simulation(n.program, with);
    return this->planned(n, with).footprint;
  }
  const GistPlanned& planned(const GistBaseline& n, const GistEncodings& with) {
    const std::string key = join_parts(n.name, with.binarize, with.ssdc, with.mask, with.inplace,
                                       with.decoded_copies, " ", with.dpr ? with.dpr : "", " ",
                                       with.measured ? -1
                                       : with.ssdc   ? with.density
                                                     : 0);
    const auto known = planned_.find(key);
    if (known != planned_.end()) return known->second;
    return planned_.emplace(key, gist_planned(n.program, with, cache_)).first->second;
  }

 private:
  const GistDensities densities_;
  KernelCache cache_;
  std::map<std::string, GistPlanned> planned_;
};

// A column of ratios: its name, and what it is of a network, by the passes or simulated.
struct Column {
  std::string name;
  std::function<double(const GistBaseline&, bool planned)> ratio;
};
using Said = std::function<std::vector<std::string>(const std::string& network)>;

// Two rows for every network, and the means of the paper's five; what the paper says of a network
// stands in the first.
Table ratios(const std::string& title, const Figure& figure, const std::vector<Column>& columns,
             const std::vector<std::string>& paper, const Said& said,
             const std::vector<std::string>& notes) {
  Table table{.title = title, .columns = {"network"}, .notes = notes};
  for (const Column& column : columns) table.columns.push_back(column.name);
  table.columns.insert(table.columns.end(), paper.begin(), paper.end());
  std::map<bool, std::vector<double>> sums;
  int count = 0;
  const auto add_row = [&](const std::string& name, const std::string& key, bool planned,
                           const std::vector<double>& values) {
    std::vector<std::string> row{name + (planned ? ", passes" : "")};
    for (const double value : values) row.push_back(ratio(value));
    std::vector<std::string> theirs = said(key);
    if (planned) theirs.assign(theirs.size(), "");
    row.insert(row.end(), theirs.begin(), theirs.end());
    table.rows.push_back(row);
  };
  for (const GistBaseline& n : figure.networks()) {
    for (const bool planned : {false, true}) {
      std::vector<double> values;
      for (const Column& column : columns) values.push_back(column.ratio(n, planned));
      std::vector<double>& sum = sums[planned];
      sum.resize(columns.size());
      for (size_t c = 0; c < columns.size() && !n.apart; ++c) sum[c] += values[c];
      add_row(label(n), n.name, planned, values);
    }
    count += n.apart ? 0 : 1;
  }
  for (const bool planned : {false, true}) {
    if (count < 2) break;
    for (double& sum : sums[planned]) sum /= count;
    add_row("mean", "mean", planned, sums[planned]);
  }
  return table;
}

std::string with_density(const std::string& what, const GistDensity& density) {
  return what + ", " + density.what;
}

GistEncodings lossless(const GistBaseline& n, const GistDensity& density, bool mask) {
  GistEncodings with{.binarize = true, .ssdc = true, .mask = mask, .inplace = true};
  density.put_into(with, n.name);
  return with;
}
GistEncodings lossy(const GistBaseline& n, const GistDensity& density, bool mask) {
  GistEncodings with = lossless(n, density, mask);
  with.dpr = smallest_format(n.name);
  return with;
}

// Sparse maps as csr alone, as the paper has them, and in the smaller of our two forms.
struct Sparse {
  bool mask;
  const char* what;
};
constexpr Sparse kSparse[] = {{false, "csr alone, the paper's form"},
                              {true, "mask or csr, whichever takes fewer bytes (ours)"}};

Table ratios_encoded_as(const Sparse& sparse, Figure& figure) {
  using With = GistEncodings (*)(const GistBaseline&, const GistDensity&, bool);
  std::vector<Column> columns = {
      {"in place alone", [&](const GistBaseline& n, bool planned) {
         return over(n.footprint.cntk, figure.footprint(n, {.inplace = true}, planned).cntk);
       }}};
  struct Kind {
    const char* name;
    With with;
  };
  for (const Kind& kind : {Kind{"lossless", lossless}, Kind{"and lossy", lossy}}) {
    for (const GistDensity& d : figure.densities()) {
      const With with = kind.with;
      columns.push_back(
          {with_density(kind.name, d), [&, with](const GistBaseline& n, bool planned) {
             return over(n.footprint.cntk,
                         figure.footprint(n, with(n, d, sparse.mask), planned).cntk);
           }});
    }
  }
  auto said = [](const std::string& n) -> std::vector<std::string> {
    if (n == "alexnet") return {"over 1.5x", "2x"};
    if (n == "vgg16") return {"over 1.5x", "-"};
    if (n == "mean") return {"1.4x", "1.8x"};
    return {"-", "-"};
  };
  return ratios(std::string("Footprint of CNTK's baseline over that with encodings, predicted: ") +
                    sparse.what,
                figure, columns, {"paper: lossless", "paper: and lossy"}, said,
                {figure.said(), kTwoRows, kWhyPasses});
}

std::vector<Table> ratios_encoded(const DeviceProfile&, Given densities) {
  Figure figure(densities);
  std::vector<Table> tables;
  for (const Sparse& sparse : kSparse) tables.push_back(ratios_encoded_as(sparse, figure));
  return tables;
}

std::vector<Table> ratios_lossless(const DeviceProfile&, Given densities) {
  struct Step {
    const char* name;
    bool binarize, ssdc, inplace;
  };
  constexpr Step kSteps[] = {{"S", false, true, false},
                             {"B", true, false, false},
                             {"S+B", true, true, false},
                             {"S+B+I", true, true, true}};
  Figure figure(densities);
  std::vector<Column> columns;
  for (const GistDensity& d : figure.densities()) {
    for (const Step& step : kSteps) {
      columns.push_back({with_density(step.name, d), [&](const GistBaseline& n, bool planned) {
                           GistEncodings with{.binarize = step.binarize,
                                              .ssdc = step.ssdc,
                                              .inplace = step.inplace};
                           d.put_into(with, n.name);
                           return over(n.footprint.investigation,
                                       figure.footprint(n, with, planned).investigation);
                         }});
    }
  }
  auto said = [](const std::string& n) -> std::vector<std::string> {
    if (n == "alexnet") return {"1.06x, 1.26x, 1.35x, 1.56x"};
    return {"-"};
  };
  return {
      ratios("Footprint of the investigation baseline over that with lossless encodings, "
             "predicted: S SSDC (csr), B Binarize, I in place",
             figure, columns, {"paper: S, B, S+B, S+B+I"}, said,
             {figure.said(), kTwoRows,
              "Passes without I: nothing in place, and no operators fused (memory.inplace, "
              "memory.fuse_epilogues). Without B, max pooling keeps operand and result. "
              "Passes encode what lowers the most bytes alive at once; where the groups of this "
              "accounting would gain all the same, the simulation is ahead."})};
}

int64_t immediate(const GistFootprint& f) {
  int64_t bytes = 0;
  for (const MapUse use : {MapUse::immediate, MapUse::gradient, MapUse::decoded}) {
    bytes += f.investigation_by_use[size_t(use)];
  }
  return bytes;
}

// Bytes of these values as the passes keep them; 0 of one that is not kept at all.
int64_t kept_bytes(const GistPlanned& planned, const std::set<ValueId>& values) {
  int64_t bytes = 0;
  for (const MapForm& map : planned.maps) bytes += values.contains(map.value) ? map.bytes : 0;
  return bytes;
}

// ReLU's maps that pooling reads, and the maps of places that max pooling keeps of them.
std::set<ValueId> binarized_values(const GistBaseline& n) {
  const Readers readers(n.program);
  std::set<ValueId> values;
  for (const GistStash& stash : n.stashes) {
    if (stash.pair != LayerPair::relu_pool) continue;
    values.insert(stash.value);
    for (NodeId r : readers[stash.value]) {
      const Node& node = n.program.node(r);
      if (node.op == &max_pool_op && node.out.size() == 2) values.insert(node.out[1]);
    }
  }
  values.erase(kNone);
  return values;
}

double binarize_on_target(Figure& figure, const GistBaseline& n, bool planned) {
  const int64_t dense = n.stashed(LayerPair::relu_pool);
  if (!planned) return over(dense, n.binarized_relu());
  const GistPlanned& step = figure.planned(n, {.binarize = true, .inplace = true});
  return over(dense, kept_bytes(step, binarized_values(n)));
}

double ssdc_on_target(Figure& figure, const GistBaseline& n, const GistDensity& density,
                      bool planned) {
  GistEncodings with{.ssdc = true, .inplace = true};
  density.put_into(with, n.name);
  std::set<ValueId> values;
  int64_t dense = 0;
  for (const GistStash& stash : n.stashes) {
    if (!is_for_ssdc(stash.pair)) continue;
    values.insert(stash.value), dense += stash.bytes;
  }
  if (planned) return over(dense, kept_bytes(figure.planned(n, with), values));
  int64_t bytes = 0;  // a map that is not encoded stays as it is
  for (const GistMap& map : gist_simulation(n.program, with).maps) {
    const bool kept = map.use == MapUse::encoded || map.use == MapUse::stashed;
    if (kept && values.contains(map.value)) bytes += map.buffer.size;
  }
  return over(dense, bytes);
}

std::vector<Table> ratios_on_targets(const DeviceProfile&, Given densities) {
  Figure figure(densities);
  std::vector<Column> columns = {{"Binarize on ReLU-Pool", [&](const GistBaseline& n, bool p) {
                                    return binarize_on_target(figure, n, p);
                                  }}};
  for (const GistDensity& d : figure.densities()) {
    columns.push_back(
        {with_density("SSDC on ReLU/Pool-Conv", d), [&](const GistBaseline& n, bool planned) {
           return ssdc_on_target(figure, n, d, planned);
         }});
  }
  columns.push_back({"in place on immediately consumed", [&](const GistBaseline& n, bool planned) {
                       GistEncodings with{.binarize = true, .ssdc = true};
                       figure.densities()[0].put_into(with, n.name);
                       const int64_t apart = immediate(figure.footprint(n, with, planned));
                       with.inplace = true;
                       return over(apart, immediate(figure.footprint(n, with, planned)));
                     }});
  auto said = [](const std::string& n) -> std::vector<std::string> {
    if (n == "overfeat") return {"close to 16x", "up to 7x", "-"};
    return {"close to 16x", "-", n == "alexnet" ? "up to 1.4x" : "-"};
  };
  return {
      ratios("Bytes of target maps over those after encoding, predicted", figure, columns,
             {"paper: Binarize", "paper: SSDC", "paper: in place"}, said,
             {figure.said(), kTwoRows,
              "SSDC as csr. Passes: maps as they are kept; a map that the peak does not gain by "
              "stays dense, and where max pooling's map answers for ReLU too, no bits are kept.",
              "In place: with both encodings, at the first density, in the groups that the "
              "investigation baseline leaves."})};
}

std::vector<Table> ratios_reduced(const DeviceProfile&) {
  Figure figure({});
  auto stashed = [&](const GistBaseline& n, const char* format, bool planned) {
    const GistFootprint f = figure.footprint(n, {.dpr = format}, planned);
    return over(n.stashed(), f.bytes_of(MapUse::encoded) + f.bytes_of(MapUse::stashed));
  };
  std::vector<Column> columns;
  for (const char* format : {"fp16", "fp10", "fp8"}) {
    columns.push_back({format, [&, format](const GistBaseline& n, bool planned) {
                         return over(n.footprint.investigation,
                                     figure.footprint(n, {.dpr = format}, planned).investigation);
                       }});
    columns.push_back(
        {std::string(format) + ", stashed maps",
         [=](const GistBaseline& n, bool planned) { return stashed(n, format, planned); }});
  }
  auto said = [](const std::string& n) -> std::vector<std::string> {
    return {n == "alexnet" ? "fp16 1.18x, fp8 1.48x" : "-",
            n == "alexnet" ? "fp16 2x, fp8 4x" : "-"};
  };
  return {ratios(
      "Footprint of the investigation baseline over that with DPR alone, predicted", figure,
      columns, {"paper: in all", "paper: stashed maps"}, said,
      {kTwoRows,
       "Simulated: all stashes in the format. Passes: those that the peak gains by; not those of "
       "max pooling, dense in this accounting without Binarize, since our operator reads neither "
       "of them again. Nothing in place. Which formats train a network is not said here."})};
}

Table ratios_dynamic_as(const Sparse& sparse, Figure& figure) {
  std::vector<Column> columns = {{"dynamic", [&](const GistBaseline& n, bool planned) {
                                    return over(n.footprint.cntk,
                                                figure.footprint(n, {}, planned).dynamic);
                                  }}};
  for (const GistDensity& d : figure.densities()) {
    columns.push_back({with_density("lossless", d), [&](const GistBaseline& n, bool planned) {
                         const GistEncodings with = lossless(n, d, sparse.mask);
                         return over(n.footprint.cntk, figure.footprint(n, with, planned).dynamic);
                       }});
    columns.push_back({with_density("lossy", d), [&](const GistBaseline& n, bool planned) {
                         const GistEncodings with = lossy(n, d, sparse.mask);
                         return over(n.footprint.cntk, figure.footprint(n, with, planned).dynamic);
                       }});
    columns.push_back({with_density("no copies", d), [&](const GistBaseline& n, bool planned) {
                         GistEncodings with = lossy(n, d, sparse.mask);
                         with.decoded_copies = false;
                         return over(n.footprint.cntk, figure.footprint(n, with, planned).dynamic);
                       }});
  }
  columns.push_back({"floor", [](const GistBaseline& n, bool) {
                       return over(n.footprint.cntk, gist_floor(n.program).bytes);
                     }});
  auto said = [](const std::string& n) -> std::vector<std::string> {
    if (n == "alexnet") return {"-", "-", "-", "4.1x"};
    if (n == "overfeat") return {"over 1.5x", "-", "-", "-"};
    if (n == "mean") return {"1.2x", "1.7x", "2.6x", "2.9x"};
    return {"-", "-", "-", "-"};
  };
  return ratios(
      std::string("Footprint of CNTK's baseline over bytes allocated as they are needed, "
                  "predicted: ") +
          sparse.what,
      figure, columns, {"paper: dynamic", "paper: lossless", "paper: lossy", "paper: no copies"},
      said,
      {figure.said(), kTwoRows, kWhyPasses,
       "No copies: simulated in both rows; of the passes' step decoded copies are left out. Where "
       "that changes nothing, the peak lies where a map is encoded: operand, result and code. "
       "floor: what one node reads and writes. Nothing goes above this ratio."});
}

std::vector<Table> ratios_dynamic(const DeviceProfile&, Given densities) {
  Figure figure(densities);
  std::vector<Table> tables;
  for (const Sparse& sparse : kSparse) tables.push_back(ratios_dynamic_as(sparse, figure));
  return tables;
}

// As the tables are without --density.
template <auto table> std::vector<Table> as_assumed(const DeviceProfile& device) {
  return table(device, {});
}

}  // namespace

std::span<const Reproduction> gist_encoded_reproductions() {
  static constexpr Reproduction kEncoded[] = {
      {.name = "gist-fig8",
       .what = "Gist, Figure 8: footprints with encodings",
       .make = as_assumed<ratios_encoded>,
       .by_density = ratios_encoded},
      {.name = "gist-fig10",
       .what = "Gist, Figure 10: what each lossless encoding is worth",
       .make = as_assumed<ratios_lossless>,
       .by_density = ratios_lossless},
      {.name = "gist-fig11",
       .what = "Gist, Figure 11: lossless encodings on their target maps",
       .make = as_assumed<ratios_on_targets>,
       .by_density = ratios_on_targets},
      {.name = "gist-fig13",
       .what = "Gist, Figure 13: what reduced precision is worth",
       .make = ratios_reduced},
      {.name = "gist-fig17",
       .what = "Gist, Figure 17: dynamic allocation and no decoded copies",
       .make = as_assumed<ratios_dynamic>,
       .by_density = ratios_dynamic},
  };
  return kEncoded;
}

}  // namespace pal
