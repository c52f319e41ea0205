// What Gist's figures 12 and 14 are made of: trainings of small networks.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "train/papers/reproduce.h"
#include "train/papers/training_run.h"

namespace pal {

struct TopOne {
  int64_t step;    // updates done
  double percent;  // of the test images
};
// A network trained as it is, with everything rounded at once, and with the delayed formats: a
// column a form, a row an epoch's end, the difference at the end, and between which values seeds
// ended.
ReproducedTable accuracy_by_epoch(const std::string& name, const Config& config, int64_t steps,
                                  int64_t seeds);
// A step as one of its columns has it: "f32", "All-FP16", "FP16", "FP10", "FP8", "FP8 maps at
// once", "echo, FP8".
Program in_form(const Program& recorded, const std::string& form);

// A map that SSDC is meant for, whose nonzeros a step counts.
struct TargetMap {
  std::string name;  // "conv1_1 relu"
  std::string output;
  int64_t elements, bytes;
};
// The step with an output for each such map, i32[1].
Program with_counts(const Program& recorded, std::vector<TargetMap>* maps);
// Of csr in f32, without room for more.
int64_t csr_bytes(const TargetMap& map, int64_t nonzeros);

// Compression of each map in the first 200 steps, and after them.
std::vector<ReproducedTable> sparsity_by_step(const std::string& name, const Config& config,
                                              int64_t steps);

}  // namespace pal
