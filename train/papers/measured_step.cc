// A set of one program, its inputs filled once.
#include "train/papers/measured_step.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "core/clock.h"
#include "core/philox.h"
#include "core/scalars.h"
#include "memory/price/node_times.h"
#include "train/loop/initialise.h"
#include "train/loop/step_program.h"

namespace pal {
namespace {

void fill(Executable& step) {
  for (const NamedValue& input : step.program().inputs) {
    std::byte* bytes = step.input(input.name);
    const TensorSpec& spec = step.program().value(input.value).spec;
    const int64_t n = spec.numel();
    if (input.name == kScalarsInput) {
      const StepScalars scalars{.tokens = 1};
      std::memcpy(bytes, &scalars, sizeof scalars);
    } else if (spec.dtype == DType::i32) {
      int32_t* x = reinterpret_cast<int32_t*>(bytes);
      for (int64_t i = 0; i < n; ++i) x[i] = int32_t(i % 10);
    } else {
      float* x = reinterpret_cast<float*>(bytes);
      for (int64_t i = 0; i < n; ++i) x[i] = 2 * uniform01(draw({1, 0, 0, 0}, i).x[0]) - 1;
    }
  }
}

void copy_state(ProgramSet& from, ProgramSet& to) {
  std::map<std::string, const std::byte*> known;
  for (const StateTensor& t : from.state()) known[t.name] = t.data;
  for (const StateTensor& t : to.state()) {
    std::memcpy(t.data, known.at(t.name), size_t(t.spec.bytes()));
  }
}

}  // namespace

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + long(values.size() / 2), values.end());
  return values[values.size() / 2];
}

MeasuredStep::MeasuredStep(Program recorded, const CompileOptions& options, MeasuredStep* like)
    : programs_(options, cpu_device()), step_(&programs_.add("step", std::move(recorded))) {
  if (like) {
    copy_state(like->programs_, programs_);
  } else {
    initialise(programs_, 1);
  }
  fill(*step_);
}

double MeasuredStep::run_ms() {
  const Clock::time_point start = Clock::now();
  step_->run();
  return 1e3 * seconds_since(start);
}

std::vector<int64_t> MeasuredStep::traced_run() {
  step_->runner().set_options({.trace = true});
  step_->run();
  std::vector<int64_t> ns = step_->runner().node_times();
  step_->runner().set_options({});
  return ns;
}

ByNode<double> MeasuredStep::node_ms(int runs) {
  std::vector<std::vector<int64_t>> ns;
  for (int i = 0; i < runs; ++i) ns.push_back(traced_run());
  return ms_by_node(typical_run(ns));
}

MeasuredStep::CopyTimes MeasuredStep::copy_ms(int runs) {
  const Program& p = step_->program();
  step_->runner().set_options({.trace = true});
  std::vector<double> all, beside;
  for (int i = 0; i < runs; ++i) {
    step_->run();
    const auto& spans = step_->runner().spans();
    int64_t ns = 0, beside_ns = 0;
    for (NodeId n : p.nodes.ids()) {
      if (p.node(n).queue == kComputeQueue) continue;
      const Runner::Span copy = spans[size_t(n)];
      ns += copy.end - copy.begin;
      for (NodeId m : p.nodes.ids()) {
        if (p.node(m).queue != kComputeQueue) continue;
        const Runner::Span node = spans[size_t(m)];
        beside_ns +=
            std::max<int64_t>(0, std::min(copy.end, node.end) - std::max(copy.begin, node.begin));
      }
    }
    all.push_back(1e-6 * double(ns)), beside.push_back(1e-6 * double(beside_ns));
  }
  step_->runner().set_options({});
  return {median(all), median(beside)};
}

double MeasuredStep::operator_ms(const ByNode<double>& node_ms, const OpDef& op) const {
  double sum = 0;
  for (NodeId n : node_ms.ids()) sum += step_->program().node(n).op == &op ? node_ms[n] : 0;
  return sum;
}

Alternated alternate(const std::vector<std::unique_ptr<MeasuredStep>>& steps, int64_t rounds,
                     const std::function<void()>& also) {
  std::vector<std::vector<double>> ms(steps.size()), added(steps.size());
  for (int64_t round = 0; round <= rounds; ++round) {
    if (also) also();
    for (size_t i = 0; i < steps.size(); ++i) {
      const double one = steps[i]->run_ms();
      if (round == 0) continue;
      ms[i].push_back(one);
      added[i].push_back(one / ms[0].back() - 1);
    }
  }
  Alternated out;
  for (size_t i = 0; i < steps.size(); ++i) {
    out.ms.push_back(median(ms[i]));
    out.added.push_back(median(added[i]));
  }
  return out;
}

}  // namespace pal
