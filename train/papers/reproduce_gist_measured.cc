// Gist's times, measured here: steps with encodings against without (9), and what the kernels of
// each encoding take (sections V-C2 and V-D3).
#include <algorithm>
#include <limits>
#include <map>

#include "core/builder.h"
#include "memory/passes/encode.h"
#include "ops/elementwise/activations.h"
#include "ops/encodings/ssdc.h"
#include "ops/tensors/casts.h"
#include "train/config/wording.h"
#include "train/papers/gist_measured.h"
#include "train/papers/gist_priced.h"
#include "train/papers/measured_step.h"
#include "train/papers/reproduce_gist.h"

namespace pal {
namespace {

using Table = ReproducedTable;

std::string part_of(double part, double whole) { return printed("%+.1f %%", 100 * part / whole); }

// Values that are written in another form.
size_t count_encodes(const Program& p) {
  return size_t(std::count_if(p.nodes.begin(), p.nodes.end(),
                              [](const Node& node) { return node.phase == Phase::encode; }));
}

// The paper's networks at batches that two cores run in seconds, or all at one.
std::vector<NetworkAtBatch> networks_at(const MeasureSettings& settings) {
  static const std::map<std::string, int64_t> kBatches = {
      {"alexnet", 16}, {"nin", 8}, {"overfeat", 8}, {"vgg16", 4}, {"inception", 8}};
  std::vector<NetworkAtBatch> out;
  for (const PaperNetwork& n : gist_networks()) {
    out.push_back({n, settings.batch.value_or(kBatches.at(n.name))});
  }
  return out;
}

std::string measured_note(int64_t steps) {
  return "Measured on this machine's processor, " + std::to_string(cpu_device().threads) +
         " threads: medians of " + std::to_string(steps) +
         " steps of each form, in turn, after one that is not counted; of overheads, medians of "
         "the ratios within a turn. The batch is ours; the paper's is 64 on a GPU.";
}

std::vector<Table> overhead(const DeviceProfile& device, const MeasureSettings& settings) {
  return {encoded_step_times(networks_at(settings), settings.steps.value_or(3), device)};
}

std::vector<Table> kernels(const DeviceProfile&, const MeasureSettings& settings) {
  return {encoding_kernel_times(networks_at(settings), settings.steps.value_or(3))};
}

Program all_encoded(const Program& recorded, const Encodings& encodings) {
  return encode(recorded, choose_forms(recorded, encodings));
}

// Columns whose mean over the networks is the last row.
class Means {
 public:
  // "+1.5 %", and counted for its column.
  std::string percent(double part, double whole) {
    parts_.push_back(part / whole);
    return part_of(part, whole);
  }
  void end_row() { rows_.push_back(std::move(parts_)), parts_.clear(); }
  std::string of(size_t column) const {
    double sum = 0;
    for (const auto& row : rows_) sum += row[column];
    return part_of(sum / double(rows_.size()), 1);
  }

 private:
  std::vector<double> parts_;
  std::vector<std::vector<double>> rows_;
};

}  // namespace

SsdcTimes ssdc_times(const Program& recorded, double density, int runs) {
  std::map<int64_t, int> maps;  // by elements: how many
  for (const GistStash& stash : stashes_of(recorded, gist_footprint(recorded))) {
    const bool sparse = stash.pair == LayerPair::relu_conv || stash.pair == LayerPair::pool_conv;
    if (sparse) ++maps[recorded.value(stash.value).spec.numel()];
  }
  SsdcTimes out;
  for (const auto& [elements, count] : maps) {
    Builder b;
    Val x = b.input("x", {{elements}});  // even in [-1, 1)
    Val sparse = pass_inside(x, x, float(1 - 2 * density), std::numeric_limits<float>::infinity());
    const auto capacity = int64_t(double(elements) * std::min(1.0, density + 0.05));
    const Ssdc code = ssdc_encode(sparse, {SsdcForm::csr, capacity});
    b.output("x again", ssdc_decode(code.encoded));
    b.output("count", code.count);
    MeasuredStep step(b.take(), {});
    const ByNode<double> ms = step.node_ms(runs);
    out.maps += count;
    out.encode += count * step.operator_ms(ms, ssdc_encode_op);
    out.decode += count * step.operator_ms(ms, ssdc_decode_op);
  }
  return out;
}

namespace {

// A step with encodings, as planned; where the plan takes none, with every eligible map encoded.
struct EncodedStep {
  std::unique_ptr<MeasuredStep> step;
  std::string maps;  // how many values, and by whose choice
};
EncodedStep encoded_step(const Program& recorded, const Encodings& encodings,
                         CompileOptions options, MeasuredStep& plain) {
  options.encode = encodings;
  EncodedStep out{std::make_unique<MeasuredStep>(recorded, options, &plain), ""};
  size_t count = count_encodes(out.step->compiled().program);
  const char* whose = ", the plan's";
  if (count == 0) {
    options.encode = {};
    out.step.reset();  // before there is another
    out.step = std::make_unique<MeasuredStep>(all_encoded(recorded, encodings), options, &plain);
    count = count_encodes(out.step->compiled().program), whose = ", all";
  }
  out.maps = std::to_string(count) + whose;
  return out;
}

}  // namespace

Table encoded_step_times(std::span<const NetworkAtBatch> networks, int64_t steps,
                         const DeviceProfile& device) {
  Table table{.title = "A step with memory.encode against one without",
              .columns = {"network", "batch", "step, ms", "binarize", "predicted", "values",
                          "and SSDC, simulated", "format", "binarize and dpr", "predicted with dpr",
                          "values with dpr", "paper: lossless", "paper: and lossy"}};
  Means means;
  for (const NetworkAtBatch& n : networks) {
    const Program recorded = n.network.record(n.batch);
    const Dpr format = smallest_dpr(n.network.name);
    const CompileOptions options{.profile = device};
    std::vector<std::unique_ptr<MeasuredStep>> forms;
    forms.push_back(std::make_unique<MeasuredStep>(recorded, options));
    EncodedStep bits = encoded_step(recorded, {.binarize = true}, options, *forms[0]),
                codes =
                    encoded_step(recorded, {.binarize = true, .dpr = format}, options, *forms[0]);
    forms.push_back(std::move(bits.step)), forms.push_back(std::move(codes.step));
    const Alternated ran = alternate(forms, steps);
    const SsdcTimes ssdc = ssdc_times(recorded, kGistDensity, 3);
    auto predicted = [&](size_t form) {
      const double plain = forms[0]->compiled().time->step_ms;
      return means.percent(forms[form]->compiled().time->step_ms - plain, plain);
    };
    std::vector<std::string> row{n.network.name, std::to_string(n.batch), fixed(ran.ms[0], 1)};
    row.push_back(means.percent(ran.added[1], 1));
    row.push_back(predicted(1));
    row.push_back(bits.maps);
    row.push_back(means.percent(ran.added[1] + (ssdc.encode + ssdc.decode) / ran.ms[0], 1));
    row.emplace_back(names(Dpr())[size_t(format)]);
    row.push_back(means.percent(ran.added[2], 1));
    row.push_back(predicted(2));
    row.push_back(codes.maps);
    row.emplace_back("-");
    row.push_back(said(n.network.name, {{"vgg16", "+7 %, the most"}}));
    means.end_row();
    table.rows.push_back(row);
  }
  table.rows.push_back({"mean", "", "", means.of(0), means.of(1), "", means.of(2), "", means.of(3),
                        means.of(4), "", "minimal", "+4 %"});
  table.notes = {
      measured_note(steps),
      "predicted: the step with encodings over the one without, for " + device.name +
          (device.measured ? ", this machine, whose rates were measured."
                           : ", not for this machine (pal bench --profile measures it)."),
      "values: how many are encoded. Where the plan takes none, since its peak is not made of maps "
      "(at these batches of weights), every eligible one is, as in the paper.",
      "and SSDC, simulated: no node of it is in the step. To the measured step is added what "
      "ssdc_encode and ssdc_decode take by themselves (csr) over all maps that they are for, at "
      "density " +
          fixed(kGistDensity, 1) + ", assumed."};
  return table;
}

Table encoding_kernel_times(std::span<const NetworkAtBatch> networks, int64_t steps) {
  Table table{.title = "What encoding every eligible map takes of a step",
              .columns = {"network", "batch", "step, ms", "Binarize: bits written",
                          "Binarize: whole step", "DPR: encode", "DPR: decode", "DPR: whole step",
                          "SSDC: maps", "SSDC: encode", "SSDC: decode"}};
  Means means;
  for (const NetworkAtBatch& n : networks) {
    const Program recorded = n.network.record(n.batch);
    std::vector<std::unique_ptr<MeasuredStep>> forms;
    for (const Encodings& encodings :
         {Encodings{}, Encodings{.binarize = true}, Encodings{.dpr = Dpr::fp16}}) {
      MeasuredStep* like = forms.empty() ? nullptr : forms[0].get();
      forms.push_back(
          std::make_unique<MeasuredStep>(all_encoded(recorded, encodings), CompileOptions{}, like));
    }
    const Alternated ran = alternate(forms, steps);
    const double plain = ran.ms[0];
    const int runs = int(std::min<int64_t>(steps, 3));
    const ByNode<double> bits = forms[1]->node_ms(runs), codes = forms[2]->node_ms(runs);
    const SsdcTimes ssdc = ssdc_times(recorded, kGistDensity, runs);
    table.rows.push_back({n.network.name, std::to_string(n.batch), fixed(plain, 1),
                          means.percent(forms[1]->operator_ms(bits, to_bits_op), plain),
                          means.percent(ran.added[1], 1),
                          means.percent(forms[2]->operator_ms(codes, dpr_encode_op), plain),
                          means.percent(forms[2]->operator_ms(codes, dpr_decode_op), plain),
                          means.percent(ran.added[2], 1), std::to_string(ssdc.maps),
                          means.percent(ssdc.encode, plain), means.percent(ssdc.decode, plain)});
    means.end_row();
  }
  std::vector<std::string> mean{"mean", "", ""};
  for (size_t i = 0; i < 5; ++i) mean.push_back(means.of(i));
  mean.insert(mean.end(), {"", means.of(5), means.of(6)});
  table.rows.push_back(mean);
  table.rows.push_back({"paper, mean", "64", "", "", "faster, a little", "", "", "+1 %", "",
                        "up to +4 %, both", ""});
  table.notes = {measured_note(steps),
                 "Of the step without encodings. DPR: fp16, with bits for ReLU. Encode and decode: "
                 "the nodes' own times in traced steps; whole step: against the plain one, other "
                 "nodes' gains included. A step is planned anew with the encodings in it.",
                 "SSDC: by themselves, csr, on made-up maps of density " + fixed(kGistDensity, 1) +
                     " (assumed) of the sizes of the maps that it is for; no pass inserts it here. "
                     "The paper's share is the whole step's."};
  return table;
}

std::span<const Reproduction> gist_measured_reproductions() {
  static constexpr Reproduction kMeasured[] = {
      {.name = "gist-fig9",
       .what = "Gist, Figure 9: what encodings cost in time",
       .measure = overhead,
       .takes = "batch steps"},
      {.name = "gist-overheads",
       .what = "Gist, sections V-C2 and V-D3: what each encoding's kernels take",
       .measure = kernels,
       .takes = "batch steps"},
  };
  return kMeasured;
}

}  // namespace pal
