// A recorded step made ready to run on this machine's processor, on made-up samples, for tables
// that set measured times beside each other.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "memory/run/program_set.h"

namespace pal {

double median(std::vector<double> values);  // the upper one of two; of at least one

class MeasuredStep {
 public:
  // `recorded`: as of PaperNetwork::record, or any program whose inputs are its scalars, floats and
  // labels below ten. The learning rate is 0, so that every step does the same. `like`: a step
  // with the same state, whose weights are taken instead of drawn.
  MeasuredStep(Program recorded, const CompileOptions& options, MeasuredStep* like = nullptr);

  double run_ms();
  // Of the last run.
  template <class T = float> const T* output(const std::string& name) {
    return step_->output<T>(name);
  }
  // Runs once: nanoseconds of each node.
  std::vector<int64_t> traced_run();
  // Milliseconds of each node in a typical one of so many runs (memory/price/node_times.h).
  ByNode<double> node_ms(int runs);
  // Of one run, the median of so many: milliseconds that copies between the device and the host's
  // memory take, and of those the ones in which the compute queue runs a node.
  struct CopyTimes {
    double ms = 0, beside_compute_ms = 0;
  };
  CopyTimes copy_ms(int runs);
  const Compiled& compiled() const { return step_->compiled(); }
  // Milliseconds of the nodes of an operator, summed.
  double operator_ms(const ByNode<double>& node_ms, const OpDef& op) const;

 private:
  ProgramSet programs_;
  Executable* step_;
};

// Steps that run in turn, the first round for nothing, so that all meet the same weather.
struct Alternated {
  std::vector<double> ms;  // of each step: the median
  // Of each step over the first one: the median of the rounds' own ratios, less one.
  std::vector<double> added;
};
// `also`: runs in each round, that for nothing too, before the steps.
Alternated alternate(const std::vector<std::unique_ptr<MeasuredStep>>& steps, int64_t rounds,
                     const std::function<void()>& also = {});

}  // namespace pal
