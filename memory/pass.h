// A pass as the driver sees it: a function from program to program, when it is wanted, and when its
// result is kept. memory/compile.cc has the list of them.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/prepare.h"
#include "core/program.h"
#include "memory/compiled.h"
#include "memory/passes/fuse_recompute.h"
#include "memory/passes/map_forms.h"
#include "memory/recompute/echo_trials.h"

namespace pal {

// What a step comes to after all passes.
struct FinalStep {
  int64_t bytes = 0;  // alive at the peak
  double ms = 0;      // predicted, for priced_device()
};

// What stays the same from one plan of a step to the next, as long as only the technique of
// recomputation, its overhead and swapping differ.
struct PassMemory {
  EchoMemory echo;
  std::map<std::string, int64_t> without;  // by pass: the final peak of the step without it
};

// What a pass may ask about the step.
struct PassContext {
  const CompileOptions& options;
  KernelCache& cache;
  const ByNode<int64_t>& workspace;  // scratch bytes of the program that the pass is handed
  // Live bytes at a program's peak after scheduling: what mirror and sqrt are judged by. A large
  // program is scheduled by early updates alone: they are what counts there, at a hundredth of the
  // time.
  std::function<int64_t(const Program&)> scheduled_peak;
  // Live bytes at a program's peak after all passes that follow this one.
  std::function<int64_t(const Program&)> final_peak;
  // What a program comes to after all passes that follow this one, copies to the host included;
  // final_peak() is without them.
  std::function<FinalStep(const Program&)> final_step;
  PassMemory* memory;        // null: nothing is remembered
  DenseReasons* dense_maps;  // where encode tells why maps stay dense; null: nobody asks
};

// The step runs on a card, or is planned for one that is not here.
bool is_card(const Device& device, const CompileOptions& options);
inline bool is_card(const PassContext& context) {
  return is_card(context.cache.device(), context.options);
}

// When the driver keeps what a pass made; else the program stays as it was, and the report says so.
enum class Keep : uint8_t {
  always,
  if_within_budget,  // or needs no more than the step without it
  if_peak_not_higher,
  if_scheduled_peak_not_higher,
  if_final_peak_not_higher,  // the rest of the list is tried with it and without it
};

struct Pass {
  const char* name;
  // The new program; nothing where there is nothing to do. The note is the report's: without a new
  // program and without a note there is no line in the report.
  std::optional<Program> (*run)(const Program&, const PassContext&, std::string* note);
  bool (*wanted)(const CompileOptions&);
  Keep keep = Keep::always;
  bool trades_time = false;  // pays for bytes with time: its cost is the step's overhead
};

// A program after passes, with what the driver knows of it.
struct Passed {
  Program program;
  ByNode<std::shared_ptr<const Kernel>> kernels;
  ByNode<int64_t> workspace;  // scratch bytes
  std::vector<PassReport> reports;
  DenseReasons dense_maps;        // of encode
  std::optional<int64_t> peak;    // live bytes at the peak, once they have been asked for
  std::optional<double> step_ms;  // predicted, likewise; 0 without a profile
};
Passed prepared(Program program, KernelCache& cache);
int64_t peak_of(Passed& passed, const CompileOptions& options);

// Runs the passes that the options want, in the order of the list: verifies what each made, keeps
// or undoes it, and reports. `quick`: for the program alone, without checks and reports.
// ProgramError when a pass made a program that is wrong, or was handed one with several queues.
Passed run_passes(std::span<const Pass> passes, Passed now, KernelCache& cache,
                  const CompileOptions& options, bool quick, PassMemory* memory = nullptr);

StorageOptions storage_options(const CompileOptions& options);
Fusions fusions_of(const CompileOptions& options);
// Whether operands are packed only where the step keeps to its budget: of a step as it was
// recorded, or of one technique. A manager drops what it finds no room for; a planner compares its
// plans as they are, and has others.
bool packs_within_budget(const CompileOptions& options);
// What times are predicted for: the profile, or else the card that echo goes by.
DeviceProfile priced_device(const CompileOptions& options);

}  // namespace pal
