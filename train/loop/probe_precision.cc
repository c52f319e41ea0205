// The exact step once, then a step for each group and format, on the same batches.
#include "train/loop/probe_precision.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "core/clock.h"
#include "core/error.h"
#include "core/scalars.h"
#include "memory/passes/encode.h"
#include "memory/run/program_set.h"
#include "memory/storages/storages.h"
#include "train/loop/checkpoint.h"
#include "train/loop/run_options.h"
#include "train/loop/step_program.h"
#include "train/run_files/log.h"

namespace pal {
namespace {

struct MapGroup {
  ProbedMaps told;
  std::vector<ValueId> values;
};

// What could be rounded, by storages, or by scopes where there are too many.
std::vector<MapGroup> groups_of(const Program& p, const Forms& forms, size_t alone) {
  const Storages storages = assign_storages(p, {}, {.inplace = false});
  std::set<StorageId> rounded;
  for (ValueId v : forms.ids()) {
    if (forms[v].dpr) rounded.insert(storages.of[v]);
  }
  const bool by_scope = rounded.size() > alone;
  std::map<std::string, size_t> at;
  std::vector<MapGroup> groups;
  for (const Node& node : p.nodes) {
    for (ValueId v : present(node.out)) {
      if (!forms[v].dpr) continue;
      const std::string& scope = p.scopes[p.value(v).scope];
      const std::string key = by_scope ? scope : std::to_string(storages.of[v]);
      const auto [found, fresh] = at.try_emplace(key, groups.size());
      if (fresh) groups.push_back({{.scope = scope, .layer = layer_of(p, node)}, {}});
      MapGroup& group = groups[found->second];
      if (rounded.erase(storages.of[v]) > 0) {
        ++group.told.maps, group.told.bytes += storages[storages.of[v]].bytes;
      }
      group.values.push_back(v);
    }
  }
  return groups;
}

// A step of one bucket that leaves its gradients in the state, and batches to run it on.
class GradientProbe {
 public:
  GradientProbe(Task& task, const Config& config, const std::filesystem::path& weights, int batches)
      : task_(task), config_(config), programs_(options_of(config), training_device(config)) {
    int bucket = -1;
    for (int tries = 0; int(batches_.size()) < batches && tries < 30 * batches; ++tries) {
      const BatchInfo info = task_.next(1).at(0);
      if (bucket < 0) {
        bucket = info.bucket;
        record(bucket);
        exact_ = &programs_.add("exact", recorded_);
        load_weights(weights, programs_);
      }
      if (info.bucket == bucket) keep(info);
    }
    for (const Inputs& inputs : batches_) exact_gradients_.push_back(gradients(*exact_, inputs));
  }

  const Program& recorded() const { return recorded_; }
  int batches() const { return int(batches_.size()); }

  // Of the batch where it is largest.
  double error_of(const Forms& forms) {
    Executable& rounded = programs_.add("rounded", encode(recorded_, forms));
    double most = 0;
    for (size_t i = 0; i < batches_.size(); ++i) {
      const std::vector<float> found = gradients(rounded, batches_[i]);
      double norm = 0, change = 0;
      for (size_t k = 0; k < found.size(); ++k) {
        const double exact = exact_gradients_[i][k], difference = double(found[k]) - exact;
        norm += exact * exact, change += difference * difference;
      }
      const double error = change == 0 ? 0 : std::sqrt(change / norm);
      most = std::isfinite(error) ? std::max(most, error) : std::numeric_limits<double>::infinity();
    }
    return most;
  }

 private:
  using Inputs = std::map<std::string, std::vector<std::byte>>;

  // The same operators whatever is rounded, and nothing that a budget decides.
  static CompileOptions options_of(const Config& config) {
    CompileOptions options = compile_options(config.memory);
    options.encode = {}, options.recompute = Recompute::none, options.budget.reset();
    options.fuse_epilogues = false;
    return options;
  }

  void record(int bucket) {
    TrainConfig accumulating = config_.train;
    accumulating.accumulate = 2, accumulating.reduction = "library";
    recorded_ =
        record_step([&](Builder& b, Val scalars) { return task_.record(b, bucket, scalars, true); },
                    accumulating, MicroBatch::first);
  }

  void keep(const BatchInfo& info) {
    task_.fill(*exact_, 0);
    Inputs inputs;
    for (const NamedValue& input : recorded_.inputs) {
      const std::byte* bytes = exact_->input(input.name);
      inputs[input.name].assign(bytes, bytes + recorded_.value(input.value).spec.bytes());
    }
    StepScalars scalars{.step = int32_t(batches_.size())};
    scalars.seed_low = uint32_t(*config_.train.seed);
    scalars.tokens = float(info.normalizer);
    std::memcpy(inputs.at(kScalarsInput).data(), &scalars, sizeof scalars);
    batches_.push_back(std::move(inputs));
  }

  std::vector<float> gradients(Executable& program, const Inputs& inputs) {
    for (const auto& [name, bytes] : inputs) {
      std::memcpy(program.input(name), bytes.data(), bytes.size());
    }
    program.run();
    std::vector<float> all;
    for (const StateTensor& slot : programs_.state()) {
      if (slot.name.rfind(kAccumulator, 0) != 0 || slot.spec.dtype != DType::f32) continue;
      const float* begin = reinterpret_cast<const float*>(slot.data);
      all.insert(all.end(), begin, begin + slot.spec.numel());
    }
    return all;
  }

  Task& task_;
  const Config& config_;
  ProgramSet programs_;
  Program recorded_;
  Executable* exact_ = nullptr;
  std::vector<Inputs> batches_;
  std::vector<std::vector<float>> exact_gradients_;
};

bool is_above(const std::string& outer, const std::string& scope) {
  return scope.size() > outer.size() && scope.compare(0, outer.size(), outer) == 0 &&
         scope[outer.size()] == '/';
}

}  // namespace

std::vector<std::pair<std::string, Dpr>> propose_formats(const std::vector<ProbedMaps>& probed,
                                                         double most) {
  std::vector<std::string> scopes;  // in order
  std::map<std::string, decltype(ProbedMaps::error)> worst;
  for (const ProbedMaps& each : probed) {
    const auto [at, fresh] = worst.try_emplace(each.scope, each.error);
    if (fresh) scopes.push_back(each.scope);
    for (size_t f = 0; f < each.error.size(); ++f)
      at->second[f] = std::max(at->second[f], each.error[f]);
  }
  std::vector<std::string> none;
  std::vector<std::pair<std::string, Dpr>> out;
  for (const std::string& scope : scopes) {
    const auto& error = worst.at(scope);
    std::optional<Dpr> least;
    for (const Dpr format : kDprFormats) {
      if (error[size_t(format)] > most) break;
      least = format;
    }
    if (!least) none.push_back(scope);
    if (least && !scope.empty()) out.emplace_back(scope, *least);
  }
  std::erase_if(out, [&](const auto& one) {
    return std::any_of(none.begin(), none.end(),
                       [&](const std::string& scope) { return is_above(one.first, scope); });
  });
  return out;
}

PrecisionProbe probe_precision(Task& task, const Config& config,
                               const std::filesystem::path& weights, const ProbeOptions& options) {
  const auto start = Clock::now();
  GradientProbe gradients(task, config, weights, options.batches);
  const Program& recorded = gradients.recorded();
  const Forms forms = choose_forms(recorded, {.dpr = Dpr::fp8});
  const std::vector<MapGroup> groups = groups_of(recorded, forms, options.alone);
  if (groups.empty()) {
    throw UsageError("--probe-precision: this model has no feature map that could be rounded");
  }
  PrecisionProbe out{.probed = {}, .batches = gradients.batches()};
  for (const MapGroup& group : groups) {
    ProbedMaps told = group.told;
    for (const Dpr format : kDprFormats) {
      Forms some(recorded.values.size());
      for (ValueId v : group.values) some[v] = forms[v], some[v].dpr = format;
      told.error[size_t(format)] = gradients.error_of(some);
    }
    out.probed.push_back(std::move(told));
    if (out.probed.size() == 1) {
      log_info("probing " + std::to_string(groups.size()) + " groups of maps in " +
               std::to_string(kDprFormats.size()) + " formats on " + std::to_string(out.batches) +
               " batches: about " +
               std::to_string(int64_t(seconds_since(start) * double(groups.size())) + 1) + " s");
    }
  }
  out.seconds = seconds_since(start);
  return out;
}

}  // namespace pal
