// A recurrent layer as one operator against the cells that it stands for, on the processor.
#include "ops/recurrent/recurrent_layer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/recurrent_programs.h"

namespace pal::test {
namespace {

class RecurrentLayer : public testing::TestWithParam<RecurrentCell> {
 protected:
  bool gru() const { return GetParam() == RecurrentCell::gru; }
  const OpDef& layer() const { return gru() ? gru_layer_op : lstm_layer_op; }
  const OpDef& gradient() const { return gru() ? gru_layer_grad_op : lstm_layer_grad_op; }

  // Rows without a step, rows as long as the layer, and between; one step; one row; both ways.
  std::vector<LayerCase> layers() const {
    std::vector<LayerCase> out;
    for (const bool backwards : {false, true}) {
      for (const DType type : {DType::f32, DType::bf16}) {
        out.push_back({GetParam(), 5, 4, 3, 6, backwards, {0, 5, 2, 1}, type});
        out.push_back({GetParam(), 7, 33, 40, 24, backwards, {}, type});
        out.push_back({GetParam(), 6, 1, 9, 16, backwards, {4}, type});
        out.push_back({GetParam(), 1, 3, 4, 5, backwards, {1, 0, 1}, type});
      }
    }
    return out;
  }
};

size_t count(const Program& p, const OpDef& op) {
  return size_t(std::count_if(p.nodes.begin(), p.nodes.end(),
                              [&](const Node& node) { return node.op == &op; }));
}

// States, and what is a sum over all steps in both, have the same bits; weights by which a step's
// state is multiplied, and a GRU's bias of that product, are summed in another order.
TEST_P(RecurrentLayer, GivesTheBitsOfItsCells) {
  for (const LayerCase& c : layers()) {
    const Program whole = layer_program(c, true);
    EXPECT_EQ(count(whole, layer()), 1u);
    EXPECT_EQ(count(whole, gradient()), 1u);
    const auto want = run_layer(c, layer_program(c, false)), got = run_layer(c, whole);
    ASSERT_EQ(got.size(), gru() ? 6u : 5u);
    for (size_t i : {0, 1, 2, 4}) {
      EXPECT_EQ(got[i], want[i]) << kLayerOutputs[i] << " of " << describe(c);
    }
    const double near = c.type == DType::f32 ? 2e-6 : 0.01;
    for (size_t i = 3; i < got.size(); i += 2) {
      EXPECT_LT(layer_difference(want, got, i), near) << kLayerOutputs[i] << " of " << describe(c);
    }
    double size = 0;
    for (const auto& output : got) {
      for (float x : output) size += std::abs(double(x));
    }
    EXPECT_GT(size, 1) << describe(c);
  }
}

// What a planner may do instead of keeping the reserve: without it the gradient has the same bits.
TEST_P(RecurrentLayer, GradientNeedsNoReserve) {
  const size_t reserve = RecurrentOperands::of_gradient(GetParam()).reserve;
  for (const LayerCase& c : layers()) {
    Program without = layer_program(c, true);
    for (Node& node : without.nodes) {
      if (node.op == &gradient()) node.in[reserve] = kNone;
      if (node.op == &layer()) node.out[1] = kNone;
    }
    EXPECT_EQ(run_layer(c, without), run_layer(c, layer_program(c, true))) << describe(c);
  }
}

INSTANTIATE_TEST_SUITE_P(Cells, RecurrentLayer,
                         testing::Values(RecurrentCell::gru, RecurrentCell::lstm),
                         [](const auto& param) {
                           return param.param == RecurrentCell::gru ? "Gru" : "Lstm";
                         });

}  // namespace
}  // namespace pal::test
