// A GRU layer as one operator against the cells that it stands for, on the processor.
#include "ops/recurrent/gru_layer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/gru_programs.h"

namespace pal::test {
namespace {

// Rows without a step, rows as long as the layer, and between; one step; one row; both directions.
std::vector<GruCase> layers() {
  std::vector<GruCase> out;
  for (const bool backwards : {false, true}) {
    for (const DType type : {DType::f32, DType::bf16}) {
      out.push_back({5, 4, 3, 6, backwards, {0, 5, 2, 1}, type});
      out.push_back({7, 33, 40, 24, backwards, {}, type});
      out.push_back({6, 1, 9, 16, backwards, {4}, type});
      out.push_back({1, 3, 4, 5, backwards, {1, 0, 1}, type});
    }
  }
  return out;
}

size_t count(const Program& p, const OpDef& op) {
  return size_t(std::count_if(p.nodes.begin(), p.nodes.end(),
                              [&](const Node& node) { return node.op == &op; }));
}

// States, and what is a sum over all steps in both, have the same bits; weights by which a step's
// state is multiplied, and their bias, are summed in another order.
TEST(GruLayer, GivesTheBitsOfItsCells) {
  for (const GruCase& c : layers()) {
    const Program whole = gru_program(c, true);
    EXPECT_EQ(count(whole, gru_layer_op), 1u);
    EXPECT_EQ(count(whole, gru_layer_grad_op), 1u);
    const auto want = run_gru(c, gru_program(c, false)), got = run_gru(c, whole);
    for (size_t i : {0, 1, 2, 4}) {
      EXPECT_EQ(got[i], want[i]) << kGruOutputs[i] << " of " << describe(c);
    }
    const double near = c.type == DType::f32 ? 2e-6 : 0.01;
    for (size_t i : {3, 5}) {
      EXPECT_LT(gru_difference(want, got, i), near) << kGruOutputs[i] << " of " << describe(c);
    }
    double size = 0;
    for (const auto& output : got) {
      for (float x : output) size += std::abs(double(x));
    }
    EXPECT_GT(size, 1) << describe(c);
  }
}

// What a planner may do instead of keeping the reserve: without it the gradient has the same bits.
TEST(GruLayer, GradientNeedsNoReserve) {
  for (const GruCase& c : layers()) {
    Program without = gru_program(c, true);
    for (Node& node : without.nodes) {
      if (node.op == &gru_layer_grad_op) node.in[GruLayerGrad::kReserve] = kNone;
      if (node.op == &gru_layer_op) node.out[1] = kNone;
    }
    EXPECT_EQ(run_gru(c, without), run_gru(c, gru_program(c, true))) << describe(c);
  }
}

}  // namespace
}  // namespace pal::test
