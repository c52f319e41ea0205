// --density of pal plan and of Gist's tables: how many elements of feature maps are taken to be
// nonzero.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "core/program.h"
#include "memory/compile.h"
#include "train/run_files/metrics.h"

namespace pal {

class PlanDensities {
 public:
  // `text`: a number from 0 to 1, which is assumed of every map with zeros (0.5 where it is
  // empty), or the folder of a run that logged densities. UsageError where it is neither, or where
  // nothing is to be sparse.
  PlanDensities(const std::string& text, bool sparse);

  // What is known of a step's maps. `name`: of the step in the run (train/loop/step_program.h).
  // UsageError where the run has no densities of it, or is of another model.
  void put_into(Encodings& encodings, const std::string& name, const Program& recorded) const;
  // The same of any step of the run's model: at another image size, batch or width, where maps have
  // the same numbers and other elements. Where the run has several steps, the largest. UsageError
  // where a number is another layer's.
  void put_into(Encodings& encodings, const Program& recorded) const;

  const std::string& run() const { return run_; }  // empty: assumed
  std::optional<double> assumed() const { return assumed_; }

 private:
  [[noreturn]] void throw_other_model(const MapDensity& map) const;

  std::optional<double> assumed_;
  std::string run_;
  std::map<std::string, std::map<int32_t, MapDensity>> measured_;  // by program
};

}  // namespace pal
