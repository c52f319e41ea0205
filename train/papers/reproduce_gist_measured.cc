// Gist's times, measured here: steps with encodings against without (9), and what the kernels of
// each encoding take (sections V-C2 and V-D3).
#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "core/builder.h"
#include "memory/passes/counted_maps.h"
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
  return encoded_step_times(networks_at(settings), settings.steps.value_or(3), device);
}

std::vector<Table> kernels(const DeviceProfile&, const MeasureSettings& settings) {
  return {encoding_kernel_times(networks_at(settings), settings.steps.value_or(3))};
}

// Every eligible map, whether or not the plan would gain by it.
Program all_encoded(Program recorded, const Encodings& encodings) {
  for (ValueId v : recorded.values.ids()) recorded.value(v).origin = v;  // as densities name it
  const Forms forms = choose_forms(recorded, encodings);
  return encode(recorded, encodings.ssdc ? add_sparse(recorded, encodings, forms) : forms);
}

// Of every map of the step, as a run observes it.
std::map<ValueId, double> densities_of(const Program& recorded, MeasuredStep& like) {
  MeasuredStep counting(recorded, {.encode = {.observe = true}}, &like);
  counting.run_ms();
  std::map<ValueId, double> out;
  for (const CountedMap& map : counted_maps(counting.compiled().program)) {
    out[map.origin] = double(*counting.output<int32_t>(map.output)) / double(map.elements);
  }
  return out;
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
    Encodings all = encodings;
    all.direct = true;
    out.step = std::make_unique<MeasuredStep>(all_encoded(recorded, all), options, &plain);
    count = count_encodes(out.step->compiled().program), whose = ", all";
  }
  out.maps = std::to_string(count) + whose;
  return out;
}

// What is timed against the step as it is.
struct TimedForm {
  const char *name, *paper;
  bool binarize, ssdc, dpr;
};
constexpr TimedForm kTimed[] = {
    {"binarize", "faster, a little", true, false, false},
    {"ssdc", "up to +4 %", false, true, false},
    {"lossless: both", "minimal", true, true, false},
    {"dpr", "+1 %", false, false, true},
    {"lossless and dpr", "+4 %, at most +7 % (vgg16)", true, true, true}};

}  // namespace

std::vector<Table> encoded_step_times(std::span<const NetworkAtBatch> networks, int64_t steps,
                                      const DeviceProfile& device) {
  Table table{.title = "A step with memory.encode against one without: measured (predicted)",
              .columns = {"network", "batch", "step, ms", "format of dpr"}};
  Table values{.title = "How many values those steps encode, and by whose choice",
               .columns = {"network"}};
  std::vector<std::string> paper{"paper", "64", "", ""};
  for (const TimedForm& timed : kTimed) {
    table.columns.emplace_back(timed.name), values.columns.emplace_back(timed.name);
    paper.emplace_back(timed.paper);
  }
  Means measured, predicted;
  for (const NetworkAtBatch& n : networks) {
    const Program recorded = n.network.record(n.batch);
    const Dpr format = smallest_dpr(n.network.name);
    const CompileOptions options{.profile = device};
    std::vector<std::unique_ptr<MeasuredStep>> forms;
    forms.push_back(std::make_unique<MeasuredStep>(recorded, options));
    const std::map<ValueId, double> densities = densities_of(recorded, *forms[0]);
    std::vector<std::string> counts{n.network.name};
    for (const TimedForm& timed : kTimed) {
      Encodings encodings{.binarize = timed.binarize, .ssdc = timed.ssdc};
      if (timed.dpr) encodings.dpr = format;
      if (timed.ssdc) encodings.density = densities;
      EncodedStep step = encoded_step(recorded, encodings, options, *forms[0]);
      forms.push_back(std::move(step.step)), counts.push_back(step.maps);
    }
    values.rows.push_back(counts);
    const Alternated ran = alternate(forms, steps);
    std::vector<std::string> row{n.network.name, std::to_string(n.batch), fixed(ran.ms[0], 1),
                                 names(Dpr())[size_t(format)]};
    const double plain = forms[0]->compiled().time->step_ms;
    for (size_t i = 1; i < forms.size(); ++i) {
      const double more = forms[i]->compiled().time->step_ms - plain;
      row.push_back(measured.percent(ran.added[i], 1) + " (" + predicted.percent(more, plain) +
                    ")");
    }
    measured.end_row(), predicted.end_row();
    table.rows.push_back(row);
  }
  std::vector<std::string> mean{"mean", "", "", ""};
  for (size_t i = 0; i < std::size(kTimed); ++i) {
    mean.push_back(measured.of(i) + " (" + predicted.of(i) + ")");
  }
  table.rows.push_back(mean), table.rows.push_back(paper);
  table.notes = {
      measured_note(steps),
      "predicted: the step with encodings over the one without, for " + device.name +
          (device.measured ? ", this machine, whose rates were measured."
                           : ", not for this machine (pal bench --profile measures it)."),
      "ssdc: densities are those of the step itself, on made-up images and first weights, with the "
      "room that a run would take for them; csr or mask, the smaller."};
  values.notes = {
      "Where the plan takes none, since its peak is not made of maps (at these batches of "
      "weights), "
      "every eligible one is encoded, as in the paper."};
  return {table, values};
}

Table encoding_kernel_times(std::span<const NetworkAtBatch> networks, int64_t steps) {
  struct Kind {
    const char* name;
    const OpDef *encode, *decode;
    const char* paper;
  };
  static constexpr Kind kKinds[] = {{"Binarize", &to_bits_op, nullptr, "faster, a little"},
                                    {"DPR", &dpr_encode_op, &dpr_decode_op, "+1 %"},
                                    {"SSDC", &ssdc_encode_op, &ssdc_decode_op, "up to +4 %"}};
  Table table{.title = "What encoding every eligible map takes of a step",
              .columns = {"network", "batch", "step, ms"}};
  std::vector<std::string> paper{"paper, mean", "64", ""};
  for (const Kind& kind : kKinds) {
    const std::string name = kind.name;
    for (const char* part : {": values", ": encode", ": decode", ": whole step"}) {
      if (kind.decode || part != std::string(": decode")) table.columns.push_back(name + part);
    }
    paper.insert(paper.end(), kind.decode ? 3 : 2, "");
    paper.emplace_back(kind.paper);
  }
  Means means;
  for (const NetworkAtBatch& n : networks) {
    const Program recorded = n.network.record(n.batch);
    std::vector<std::unique_ptr<MeasuredStep>> forms;
    forms.push_back(std::make_unique<MeasuredStep>(recorded, CompileOptions{}));
    Encodings sparse{.ssdc = true, .ssdc_form = SsdcForm::csr};
    sparse.density = densities_of(recorded, *forms[0]);
    const std::array<Encodings, std::size(kKinds)> each{
        Encodings{.binarize = true}, Encodings{.dpr = Dpr::fp16}, sparse};  // as kKinds has them
    for (const Encodings& encodings : each) {
      forms.push_back(std::make_unique<MeasuredStep>(all_encoded(recorded, encodings),
                                                     CompileOptions{}, forms[0].get()));
    }
    const Alternated ran = alternate(forms, steps);
    const double plain = ran.ms[0];
    std::vector<std::string> row{n.network.name, std::to_string(n.batch), fixed(plain, 1)};
    for (size_t i = 0; i < std::size(kKinds); ++i) {
      MeasuredStep& step = *forms[i + 1];
      const ByNode<double> ms = step.node_ms(int(std::min<int64_t>(steps, 3)));
      row.push_back(std::to_string(count_encodes(step.compiled().program)));
      row.push_back(means.percent(step.operator_ms(ms, *kKinds[i].encode), plain));
      if (kKinds[i].decode) {
        row.push_back(means.percent(step.operator_ms(ms, *kKinds[i].decode), plain));
      }
      row.push_back(means.percent(ran.added[i + 1], 1));
    }
    means.end_row();
    table.rows.push_back(row);
  }
  std::vector<std::string> mean{"mean", "", ""};
  size_t column = 0;
  for (const Kind& kind : kKinds) {
    mean.emplace_back("");
    for (int i = 0; i < (kind.decode ? 3 : 2); ++i) mean.push_back(means.of(column++));
  }
  table.rows.push_back(mean), table.rows.push_back(paper);
  table.notes = {measured_note(steps),
                 "Of the step without encodings. DPR: fp16, with bits for ReLU. SSDC: csr, with "
                 "densities of the step itself. Encode and decode: the nodes' own times in traced "
                 "steps, every map decoded by a node of its own; whole step: against the plain "
                 "one, other nodes' gains included. A step is planned anew with the encodings in "
                 "it."};
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
