// What every operator's kernels on the emulated GPU are tried with.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/accelerator.h"
#include "tests/ops/generic/operator_test.h"

namespace pal::test {

// Null: a CUDA build (tests/gpu) on a machine without.
std::shared_ptr<Accelerator> gpu();
std::vector<const OpDef*> ops_with_kernels();
bool is_convolution(const OpDef& op);
bool is_recurrent_layer(const OpDef& op);
bool may_be_cudnns(const OpDef& op);

// The operator's own examples, and larger ones where a kernel does something else with those: sorts
// across chunks, sums over more than shared memory holds, operands for several launches.
std::vector<Example> examples_of(const OpDef& op);
// The operator's cases, with its number among them as the seed; what may be cuDNN's as that and
// again without.
std::vector<Case> cases_of(const OpDef& op, const std::shared_ptr<Accelerator>& accelerator);

// Where two outputs differ, if they do: in any bit, or by more than rounding, so many halves of a
// unit in the last place of the largest.
std::string difference(const TensorSpec& spec, const Bytes& want, const Bytes& got, bool bitwise,
                       float halves = 1);

}  // namespace pal::test
