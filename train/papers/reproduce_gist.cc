// Gist (Jain et al. 2018): what the memory of a training step is made of (figures 1 to 3, table I),
// and what its encodings are meant for (figure 6). Its accounting is
// memory/price/gist_baseline.h's.
#include "train/papers/reproduce_gist.h"

#include <algorithm>
#include <iterator>

#include "core/prepare.h"
#include "train/config/wording.h"
#include "train/papers/paper_networks.h"

namespace pal {
namespace {

using Table = ReproducedTable;
constexpr LayerPair kPairs[] = {LayerPair::relu_pool, LayerPair::relu_conv, LayerPair::pool_conv,
                                LayerPair::relu_join, LayerPair::other};
constexpr double kAssumedDensities[] = {0.5, 0.2};

std::string share(int64_t part, int64_t whole) {
  return fixed(whole ? 100 * double(part) / double(whole) : 0, 0) + " %";
}
std::string times(int64_t from, int64_t to) {
  return to ? fixed(double(from) / double(to), 2) + "x" : "-";
}
const char* const kApart = "apart: not among the paper's five.";
const char* const kInception =
    "inception: GoogLeNet without batch norm, without local response norm and without auxiliary "
    "heads; its 5x5 kernels are 3x3, which makes maps of the same size.";

int64_t immediate(const BytesByUse& use) {
  return use[size_t(MapUse::immediate)] + use[size_t(MapUse::gradient)];
}

Table by_structure(const std::vector<GistBaseline>& networks) {
  Table table{
      .title = "What a step of batch 64 takes, GB, all predicted",
      .columns = {"network", "stashed feature maps", "immediately consumed", "weights",
                  "weight gradients", "workspace", "in all", "maps of all", "paper: maps of all"},
      .notes = {"Maps share memory as CNTK's do; a group counts as what its largest member is. "
                "Immediately consumed: feature maps of the forward phase alone, gradient maps.",
                "workspace: of our CPU kernels, the largest of all nodes. No optimizer state.",
                kInception, kApart}};
  for (const GistBaseline& n : networks) {
    KernelCache cache(cpu_device(1));
    const ByNode<int64_t> workspace = workspace_bytes(prepare_all(n.program, cache));
    const BesideMaps beside = beside_maps(n.program, workspace);
    const int64_t maps = n.footprint.cntk;
    const int64_t all = maps + beside.weights + beside.weight_gradients + beside.workspace;
    table.rows.push_back({label(n), gigabytes(n.footprint.cntk_by_use[size_t(MapUse::stashed)]),
                          gigabytes(immediate(n.footprint.cntk_by_use)), gigabytes(beside.weights),
                          gigabytes(beside.weight_gradients), gigabytes(beside.workspace),
                          gigabytes(all), share(maps, all),
                          said(n.name, {{"vgg16", "83 %"}, {"inception", "97 %"}})});
  }
  return table;
}

Table by_accounting(const std::vector<GistBaseline>& networks) {
  Table table{
      .title = "The maps alone in the paper's accountings, GB, all predicted",
      .columns = {"network", "investigation", "CNTK", "dynamic", "CNTK / dynamic",
                  "CNTK, in place, with the map", "floor", "CNTK / floor", "at"},
      .notes = {"investigation: stashed maps share with nothing. dynamic: the most bytes alive at "
                "once; the paper's mean of CNTK / dynamic: 1.2x, Overfeat's over 1.5x.",
                "in place, with the map: no encoding; nodes write over what dies (section III-C), "
                "and max pooling keeps its map of 4 bits in place of X and Y.",
                "floor: what one node reads and writes of the maps. No encoding of stashes alone "
                "goes below it (paper: not stated).",
                kApart}};
  for (const GistBaseline& n : networks) {
    const GistFootprint& f = n.footprint;
    const GistFloor floor = gist_floor(n.program);
    const int64_t better = gist_footprint(n.program, {.inplace = true, .pool_map = true}).cntk;
    table.rows.push_back({label(n), gigabytes(f.investigation), gigabytes(f.cntk),
                          gigabytes(f.dynamic), times(f.cntk, f.dynamic), gigabytes(better),
                          gigabytes(floor.bytes), times(f.cntk, floor.bytes),
                          node_name(n.program, floor.node)});
  }
  return table;
}

std::vector<Table> structures(const DeviceProfile&) {
  const std::vector<GistBaseline> networks = gist_baselines();
  return {by_structure(networks), by_accounting(networks)};
}

// The uses of a stashed map, in predicted milliseconds from the step's start.
struct MapUses {
  double made, read;       // the forward phase: made, and read for the last time
  double wanted, dropped;  // the backward phase: from, and until
  double gap() const { return wanted - read; }
};

// When every node starts, and the end.
std::vector<double> starts_of(const Prediction& prediction) {
  std::vector<double> starts{0};
  for (double ms : prediction.node_ms) starts.push_back(starts.back() + ms);
  return starts;
}

MapUses uses_of(const std::vector<double>& starts, const GistMap& map) {
  const auto [made, dropped] = std::pair(map.buffer.lower / 2, map.buffer.upper / 2);  // nodes
  return {starts[size_t(made) + 1], starts[size_t(map.first_use) + 1],
          starts[size_t(map.second_use)], starts[size_t(dropped) + 1]};
}

Table two_uses_in(const GistBaseline& n, const DeviceProfile& device) {
  const Prediction prediction = predict(n.program, device);
  const std::vector<double> starts = starts_of(prediction);
  Table table{.title = "Stashed maps of " + n.name + ", batch 64: when they are used, predicted",
              .columns = {"made by", "bytes, MB", "made, ms", "read forward until",
                          "read again from", "until", "gap, ms", "gap of the step"},
              .notes = {"The step takes " + fixed(prediction.step_ms, 1) +
                        " ms, predicted. Maps of 10 MB and more."}};
  for (const GistMap& map : n.footprint.maps) {
    if (map.use != MapUse::stashed || map.buffer.size < 10'000'000) continue;
    const MapUses uses = uses_of(starts, map);
    table.rows.push_back({node_name(n.program, n.program.value(map.value).producer),
                          fixed(double(map.buffer.size) * 1e-6, 1), fixed(uses.made, 2),
                          fixed(uses.read, 2), fixed(uses.wanted, 2), fixed(uses.dropped, 2),
                          fixed(uses.gap(), 2), percent(uses.gap() / prediction.step_ms)});
  }
  return table;
}

std::vector<Table> two_uses(const DeviceProfile& device) {
  Table means{
      .title = "The gap between the two uses of stashed maps, batch 64, predicted",
      .columns = {"network", "stashed, GB", "step, ms", "mean gap, ms", "of the step",
                  "of the time that they are stashed"},
      .notes = {"Means weighted with bytes. The paper's figure is a drawing without numbers.",
                kApart}};
  std::vector<Table> out;
  for (const GistBaseline& n : gist_baselines()) {
    const Prediction prediction = predict(n.program, device);
    const std::vector<double> starts = starts_of(prediction);
    double gap = 0, life = 0;
    for (const GistMap& map : n.footprint.maps) {
      if (map.use != MapUse::stashed) continue;
      const MapUses uses = uses_of(starts, map);
      gap += uses.gap() * double(map.buffer.size);
      life += (uses.dropped - uses.made) * double(map.buffer.size);
    }
    const double mean = gap / double(n.stashed());
    means.rows.push_back({label(n), gigabytes(n.stashed()), fixed(prediction.step_ms, 1),
                          fixed(mean, 1), percent(mean / prediction.step_ms), percent(gap / life)});
    if (n.name == "vgg16") out.push_back(two_uses_in(n, device));
  }
  out.insert(out.begin(), means);
  return out;
}

std::vector<Table> stashes_by_pair(const DeviceProfile&) {
  Table table{.title = "Stashed feature maps by pairs of layers, batch 64, predicted",
              .columns = {"network", "stashed, GB"},
              .notes = {"ReLU-join: read by the copy that joins branches; the paper counts no such "
                        "pair. ReLU-Conv: joined ones too, as in inception.",
                        "Nothing shared. The paper's Pool-Conv is part of its ReLU/Pool-Conv, and "
                        "\"very low\".",
                        kApart}};
  for (LayerPair pair : kPairs) table.columns.emplace_back(to_string(pair));
  table.columns.emplace_back("paper: ReLU-Pool");
  table.columns.emplace_back("paper: ReLU-Conv");
  for (const GistBaseline& n : gist_baselines()) {
    std::vector<std::string> row{label(n), gigabytes(n.stashed())};
    for (LayerPair pair : kPairs) row.push_back(share(n.stashed(pair), n.stashed()));
    row.push_back(said(n.name, {{"vgg16", "40 %"}}));
    row.push_back(said(n.name, {{"vgg16", "49 %"}}));
    table.rows.push_back(row);
  }
  return {table};
}

std::vector<Table> techniques(const DeviceProfile&) {
  Table table{
      .title = "Techniques and the bytes that they are for, GB, batch 64, predicted",
      .columns = {"target", "paper: technique", "paper: type", "ours"},
      .notes = {"Stashed maps: nothing shared. Immediately consumed: the groups that the "
                "investigation baseline leaves them.",
                "ReLU-join, which the paper does not name, is among ReLU-Pool here: its bit "
                "is the same."}};
  struct Row {
    const char *target, *technique, *type, *ours;
    std::vector<LayerPair> pairs;
  };
  const Row rows[] = {
      {"ReLU-Pool feature map",
       "Binarize",
       "lossless",
       "memory.encode: binarize",
       {LayerPair::relu_pool, LayerPair::relu_join}},
      {"ReLU-Conv feature map",
       "Sparse Storage and Dense Compute",
       "lossless",
       "memory.encode: ssdc",
       {LayerPair::relu_conv, LayerPair::pool_conv}},
      {"Other feature map",
       "Delayed Precision Reduction",
       "lossy",
       "memory.encode: dpr_fp16, dpr_fp10, dpr_fp8",
       {LayerPair::other}},
      {"Immediately consumed", "Inplace computation", "lossless", "memory.inplace", {}}};
  const std::vector<GistBaseline> networks = gist_baselines(false);
  for (const GistBaseline& n : networks) table.columns.push_back(n.name);
  for (const Row& row : rows) {
    table.rows.push_back({row.target, row.technique, row.type, row.ours});
    for (const GistBaseline& n : networks) {
      int64_t bytes = row.pairs.empty() ? immediate(n.footprint.investigation_by_use) : 0;
      for (LayerPair pair : row.pairs) bytes += n.stashed(pair);
      table.rows.back().push_back(gigabytes(bytes));
    }
  }
  return {table};
}

Table encoding_functions() {
  return {.title = "Encodings by pairs of layers",
          .columns = {"pair", "paper: encode", "paper: decode", "ours: encode", "ours: decode"},
          .rows = {{"ReLU-Pool", "FP32 to 1 bit", "work on encoded data", "f32 to bit, [x > 0]",
                    "none: pass_inside reads bits"},
                   {"ReLU/Pool-Conv", "FP32 to CSR-like", "CSR-like to FP32",
                    "csr (256 columns) or bit mask with values", "to f32, exact"},
                   {"others", "FP32 to FP8/10/16", "FP8/10/16 to FP32",
                    "after the last forward use", "to f32"}},
          .notes = {"Baseline: dX1 = f(Y1, X1, dY1), dX2 = f(X2, Y2, dY2). Gist: f(D, ..) in place "
                    "of Y1 and X2, with E = encode(X2) stashed and D = decode(E)."}};
}

Table encoded_bytes(const std::vector<GistBaseline>& networks) {
  Table table{
      .title = "Bytes of target maps, GB, batch 64, predicted by the formats",
      .columns = {"network", "ReLU-Pool", "Binarize", "less", "ReLU/Pool-Conv"},
      .notes = {"Binarize: bits, and four for each element that max pooling makes; the paper "
                "measured close to 16x. SSDC: values, a byte a value, four a row of 256; "
                "the paper measured up to 7x (Overfeat).",
                "A ReLU that a join copies counts among the others, as in the paper's "
                "figures; gist-table1 has it with ReLU-Pool, since a bit will do for it too.",
                "DPR's format for nin is unnamed in the paper: fp16 assumed. Copies that "
                "are decoded are not in these sums.",
                kApart}};
  for (double d : kAssumedDensities) {
    table.columns.push_back("SSDC, density " + fixed(d, 1) + " assumed");
    table.columns.push_back("less with " + fixed(d, 1));
  }
  for (const char* column : {"other", "DPR", "format"}) table.columns.emplace_back(column);
  for (const GistBaseline& n : networks) {
    const int64_t relu = n.stashed(LayerPair::relu_pool);
    const int64_t bits = n.binarized_relu();
    const int64_t sparse = n.stashed(LayerPair::relu_conv) + n.stashed(LayerPair::pool_conv);
    const int64_t other = n.stashed(LayerPair::other) + n.stashed(LayerPair::relu_join);
    std::vector<std::string> row{label(n), gigabytes(relu), gigabytes(bits, 3), times(relu, bits),
                                 gigabytes(sparse)};
    for (double d : kAssumedDensities) {
      row.push_back(gigabytes(ssdc_csr(sparse, d)));
      row.push_back(times(sparse, ssdc_csr(sparse, d)));
    }
    row.push_back(gigabytes(other));
    row.push_back(gigabytes(reduced(other, smallest_format(n.name))));
    row.emplace_back(smallest_format(n.name));
    table.rows.push_back(row);
  }
  return table;
}

std::vector<Table> encodings(const DeviceProfile&) {
  return {encoding_functions(), encoded_bytes(gist_baselines())};
}

}  // namespace

std::vector<Table> gist_fig4(const DeviceProfile&);
std::vector<Table> gist_fig7(const DeviceProfile&);

std::span<const Reproduction> gist_reproductions() {
  static constexpr Reproduction kGist[] = {
      {"gist-table1", "Gist, Table I: techniques and what they are for", techniques},
      {"gist-fig1", "Gist, Figure 1: a step's memory by data structure", structures},
      {"gist-fig2", "Gist, Figure 2: the two uses of a feature map in time", two_uses},
      {"gist-fig3", "Gist, Figure 3: stashed feature maps by pairs of layers", stashes_by_pair},
      {"gist-fig4", "Gist, Figure 4: what backward passes need", gist_fig4},
      {"gist-fig6", "Gist, Figure 6: encodings by pairs of layers", encodings},
      {"gist-fig7", "Gist, Figure 7: encodings and sharing, an example", gist_fig7},
  };
  return kGist;
}

std::string node_name(const Program& p, NodeId node) {
  NodeId n = node;
  while (p.scope_of(p.node(n)).empty() && !p.node(n).in.empty() && p.node(n).in[0] != kNone) {
    const NodeId before = p.value(p.node(n).in[0]).producer;
    if (before == kNone) break;
    n = before;
  }
  const std::string scope = p.scope_of(p.node(n));
  return scope + (scope.empty() ? "" : " ") + p.node(node).op->name;
}
std::string label(const GistBaseline& n) { return n.apart ? n.name + " (apart)" : n.name; }

std::string said(const std::string& network,
                 std::initializer_list<std::pair<const char*, const char*>> texts) {
  for (const auto& [name, text] : texts) {
    if (network == name) return text;
  }
  return "-";
}

int64_t GistBaseline::stashed(LayerPair pair) const {
  int64_t bytes = 0;
  for (const GistStash& stash : stashes) bytes += stash.pair == pair ? stash.bytes : 0;
  return bytes;
}
int64_t GistBaseline::stashed() const { return footprint.bytes_of(MapUse::stashed); }

int64_t GistBaseline::pooled_of_relu() const {
  const Readers readers(program);
  int64_t bytes = 0;
  for (const GistStash& stash : stashes) {
    if (stash.pair != LayerPair::relu_pool) continue;
    for (NodeId r : readers[stash.value]) {
      const Node& node = program.node(r);
      const bool has_map = node.phase == Phase::forward && node.out.size() == 2;
      if (has_map && node.out[1] != kNone) bytes += program.value(node.out[0]).spec.bytes();
    }
  }
  return bytes;
}
int64_t GistBaseline::binarized_relu() const {
  return binarized(stashed(LayerPair::relu_pool)) + pool_map(pooled_of_relu());
}

std::vector<GistBaseline> gist_baselines(bool apart) {
  std::vector<GistBaseline> out;
  auto add = [&](const std::vector<PaperNetwork>& networks, bool are_apart) {
    for (const PaperNetwork& n : networks) {
      Program program = n.record(kGistBatch);
      GistFootprint footprint = gist_footprint(program);
      std::vector<GistStash> stashes = stashes_of(program, footprint);
      out.push_back(
          {n.name, are_apart, std::move(program), std::move(footprint), std::move(stashes)});
    }
  };
  add(gist_networks(), false);
  if (apart) add(gist_networks_apart(), true);
  return out;
}

}  // namespace pal
