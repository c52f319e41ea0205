// One direction of a recurrent layer and its gradients, as one operator and unrolled into cells, on
// the same numbers.
#pragma once
#include <string>
#include <vector>

#include "ops/recurrent/recurrent_layer_shape.h"
#include "tests/support/eval.h"

namespace pal::test {

struct LayerCase {
  RecurrentCell cell;
  int64_t T, B, I, H;
  bool backwards = false;
  std::vector<float> lengths = {};  // none: every row is as long as the layer
  DType type = DType::f32;
};
std::string describe(const LayerCase& c);

// Inputs x, wx, wh, bias, a GRU's bias_h, c and lengths; outputs y, and dx, dwx, dwh, dbias, a
// GRU's dbias_h of the sum of c y. `whole`: as one operator.
Program layer_program(const LayerCase& c, bool whole);

// Its outputs, in that order.
constexpr const char* kLayerOutputs[] = {"y", "dx", "dwx", "dwh", "dbias", "dbias_h"};
std::vector<std::vector<float>> run_layer(const LayerCase& c, Program program,
                                          KernelCache* cache = nullptr);

// Of two runs of it the largest difference in output i, in parts of the output's largest number.
double layer_difference(const std::vector<std::vector<float>>& a,
                        const std::vector<std::vector<float>>& b, size_t i);

}  // namespace pal::test
