// Every operator's CUDA kernels on the emulated GPU, over the operator's own examples: the generic
// checks of tests/ops, and the bits of the CPU's kernel. In a CUDA build, the same on a real GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include "core/builder.h"
#include "memory/run/program_set.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_context.h"
#include "ops/attention/attention_score.h"
#include "ops/attention/scores.h"
#include "ops/kernels/tiles.h"
#include "ops/libraries/cuda_mask.h"
#include "ops/losses/cross_entropy.h"
#include "ops/products/matmul.h"
#include "ops/products/matmul_relu.h"
#include "ops/recurrent/gru.h"
#include "ops/recurrent/lstm.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/embedding.h"
#include "tests/emulation/emulation.h"
#include "tests/emulation/op_cases.h"
#include "tests/support/pinned_pool.h"

namespace pal::test {
namespace {

using emulation::Order;

// Library products add in an order of their own.
const std::set<std::string> kNotBitwise = {
    "matmul",    "matmul_relu",      "matmul_relu_grad", "batched_matmul",
    "conv2d",    "conv2d_data_grad", "conv2d_relu",      "conv2d_weight_grad",
    "conv3d",    "conv3d_data_grad", "conv3d_relu",      "conv3d_weight_grad",
    "gru_layer", "gru_layer_grad",   "lstm_layer",       "lstm_layer_grad"};

// Tensor cores round attention's probabilities besides (attention_cores_test.cc).
bool on_cores(const Case& c) {
  return (c.op == &attention_op || c.op == &attention_grad_op) &&
         c.program.value(c.in[0]).spec.dtype == DType::bf16;
}

// How far rounding in between may take the results of a case. A layer's states are rounded step by
// step, and on the processor what a step's products give as well.
float halves_of(const Case& c) {
  const bool rounds =
      is_recurrent_layer(*c.op) && c.program.value(c.in[0]).spec.dtype != DType::f32;
  // An H100's product in bf16 is rounded before its bias is added, and then again.
  const bool twice =
      (c.op == &matmul_op || c.op == &matmul_relu_op) && c.in.size() > 3 && c.in[3] != kNone;
  return rounds ? 4 : on_cores(c) || twice ? 2 : 1;
}

// The loss of wide rows (and its gradient, by exponentials of the hardware), attention's scores of
// 16 bits and the gradients of frequent words have an order of their own too, for speed.
bool is_bitwise(const Case& c) {
  if (on_cores(c)) return false;
  const auto spec = [&](size_t k) { return c.program.value(c.in[k]).spec; };
  if (c.op == &cross_entropy_op) return spec(0).shape[1] < kWideLossRow;
  if (c.op == &cross_entropy_grad_op) return spec(1).shape[1] < kWideLossRow;
  if (c.op == &mlp_score_op || c.op == &dot_score_op) return !is_wide_score(spec(0));
  if (c.op == &embedding_grad_op) return spec(1).numel() < 4096;
  return !kNotBitwise.count(c.op->name);
}

class Emulated : public OperatorTest {
 protected:
  void SetUp() override {
    emulation::settings() = {}, emulation::varied_sums = true;
    if (!gpu()) GTEST_SKIP() << "there is no GPU";
  }
  void TearDown() override { emulation::settings() = {}, emulation::varied_sums = false; }

  std::vector<Case> cases() const override { return cases_of(*GetParam(), gpu()); }
};

TEST_P(Emulated, GivesTheBitsOfTheCpu) {
  const std::vector<Case> on_cpu = cases_of(*GetParam(), nullptr);
  for (Order order : {Order::forward, Order::backward, Order::shuffled}) {
    emulation::settings().order = order;
    each([&](const Case& c) {
      Problems problems;
      const auto want = evaluate(on_cpu[c.seed - 1], {}, problems);
      const auto got = evaluate(c, {}, problems);
      for (size_t i = 0; i < want.size(); ++i) {
        if (c.out[i] == kNone) continue;
        const std::string text = difference(c.program.value(c.out[i]).spec, want[i], got[i],
                                            is_bitwise(c), halves_of(c));
        if (!text.empty()) problems.push_back("output " + std::to_string(i) + ": " + text);
      }
      return problems;
    });
  }
}
TEST_P(Emulated, WritesAllOfItsOutputsAndNothingElse) { each(check_writes); }
TEST_P(Emulated, SharesAndWindows) {
  each(check_shares);
  each(check_windows);
}
TEST_P(Emulated, ReadsWhatItSays) {
  each(check_predicates);
  each(check_shape_only);
}
// A library's product has one algorithm, chosen for the boundaries that its operands' rows keep.
TEST_P(Emulated, SameBitsForAnyAlignment) {
  const bool on_rows = kNotBitwise.count(GetParam()->name);
  each([&](const Case& c) { return check_alignment(c, on_rows); });
}
TEST_P(Emulated, IsPure) {
  expect_none(check_purity(cases()), "examples");
  each(check_unread);
}
TEST_P(Emulated, HasPartsThatGiveItsBits) {
  each([](const Case& c) { return check_parts(c); });
}
TEST_P(Emulated, GivesTheSameRowsByParts) { each(check_rows); }
TEST_P(Emulated, UpdatesWriteTheirState) {
  if (!GetParam()->writes_state) return;
  // One rank alone has nothing to gather.
  if (std::string("gather_state") != GetParam()->name) each(check_update);
}
TEST_P(Emulated, GroupsAreEachAsIfAlone) {
  if (!GetParam()->writes_state && !takes_groups(*GetParam())) return;
  expect_none(check_groups(*GetParam(), GetParam()->examples, gpu()), "groups");
}

// Cells have fewer columns a thread where there are few; so many that each has four, or eight.
TEST(Cells, OfManyColumnsHaveTheBitsOfTheCpu) {
  if (!gpu()) GTEST_SKIP() << "there is no GPU";
  emulation::settings() = {};
  for (const OpDef* op : {&gru_cell_op, &gru_cell_grad_op, &lstm_cell_op, &lstm_cell_grad_op}) {
    for (const int64_t rows : {33, 64}) {
      Example large = op->examples[3];
      for (ExampleOperand& x : large.operands) {
        for (int axis = 0; axis < x.spec.shape.rank(); ++axis) {
          int64_t& extent = x.spec.shape[axis];
          extent = extent == 9 ? rows : extent / 540 * 8200;
        }
      }
      Problems problems;
      const Case c = make_case(*op, large, 1, gpu());
      const auto want = evaluate(make_case(*op, large, 1, nullptr), {}, problems);
      const auto got = evaluate(c, {}, problems);
      for (size_t i = 0; i < want.size(); ++i) {
        EXPECT_EQ(first_difference(c.program.value(c.out[i]).spec, want[i], got[i]), "")
            << op->name << ", output " << i;
      }
      EXPECT_TRUE(problems.empty()) << problems[0];
    }
  }
}

// The library may have no algorithm for narrow boundaries; what is aligned does not ask for one.
TEST(Products, NeedNoAlgorithmForBoundariesThatTheyKeep) {
  if (!gpu()) GTEST_SKIP() << "there is no GPU";
  if (emulation::real()) GTEST_SKIP() << "the library has the algorithms that it has";
  emulation::settings() = {.blas_boundary = 16};
  Problems problems;
  const Case c =
      make_case(matmul_op,
                {.operands = {example({5, 8}), example({8, 12}), absent_example(), example({12})},
                 .attrs = MatmulAttrs{}},
                1, gpu());
  evaluate(c, {}, problems);
  EXPECT_TRUE(problems.empty()) << problems[0];
  emulation::settings() = {};
}

// A bias of the result's type, as wide as it, is read where it lies; another is copied first.
TEST(Products, ReadTheirBiasWhereItLies) {
  if (!gpu()) GTEST_SKIP() << "there is no GPU";
  emulation::settings() = {};
  for (const bool adds : {false, true}) {
    for (const auto& [type, bias, width] : {std::tuple(DType::f32, DType::f32, 12),
                                            {DType::f32, DType::f32, 9},
                                            {DType::bf16, DType::bf16, 12},
                                            {DType::bf16, DType::f32, 12}}) {
      Problems problems;
      const Case c = make_case(
          matmul_op,
          {.operands = {example({5, 8}, type), example({8, 12}, type),
                        adds ? example({5, 12}, type) : absent_example(), example({width}, bias)},
           .attrs = MatmulAttrs{.dtype = type, .biased = width}},
          1, gpu());
      const int64_t before = emulation::kernels_run();
      evaluate(c, {}, problems);
      EXPECT_EQ(emulation::kernels_run() == before, type == bias && width == 12)
          << to_string(type) << ", " << to_string(bias) << ", " << width;
      EXPECT_TRUE(problems.empty()) << problems[0];
    }
  }
}

// Buffers of tests are pinned once and used again.
TEST(Buffers, ArePinnedOnce) {
  if (!gpu()) GTEST_SKIP() << "there is no GPU";
  const Case c = make_case(matmul_op, matmul_op.examples[0], 1, gpu());
  Problems problems;
  const auto want = evaluate(c, {}, problems);
  const int64_t before = pinned_blocks();
  for (int n = 0; n < 5; ++n) EXPECT_EQ(evaluate(c, {}, problems), want);
  EXPECT_EQ(pinned_blocks(), before);
  EXPECT_TRUE(problems.empty());
}

// More chunks of rows than a grid may have columns of blocks.
TEST(Grids, TakeMoreChunksThanAColumnOfThemHas) {
  if (!gpu()) GTEST_SKIP() << "there is no GPU";
  const int64_t rows = int64_t(65537) * kSumRows;
  Builder b;
  b.output("sum", sum_leading(b.input("x", {{rows, 1}})));
  ProgramSet set({}, cuda_device());
  Executable& step = set.add("sum", b.take());
  std::fill_n(reinterpret_cast<float*>(step.input("x")), rows, 1.0f);
  step.run();
  EXPECT_EQ(*step.output("sum"), float(rows));
}

// Where cuBLASLt has no algorithm for an epilogue, a kernel behind the product gives what it would.
TEST(Epilogues, AfterTheProductAsInIt) {
  if (!gpu()) GTEST_SKIP() << "there is no GPU";
  if (emulation::real()) GTEST_SKIP() << "the library has the algorithms that it has";
  for (const OpDef* op : {&matmul_relu_op, &matmul_relu_grad_op}) {
    uint64_t seed = 1;
    for (const Example& example : examples_of(*op)) {
      const Case c = make_case(*op, example, seed++, gpu());
      Problems problems;
      emulation::settings() = {};
      const auto want = evaluate(c, {}, problems);
      emulation::settings().epilogues = false;
      const auto got = evaluate(c, {}, problems);
      emulation::settings() = {};
      EXPECT_EQ(first_difference(c.program.value(c.out[0]).spec, want[0], got[0]), "")
          << op->name << " example " << seed - 2;
      EXPECT_TRUE(problems.empty()) << problems[0];
    }
  }
}

// A library that reads masks in another order is found out when a product is prepared, once, and
// then does without.
TEST(Epilogues, AreNotUsedWhereMasksAreReadOtherwise) {
  if (!gpu()) GTEST_SKIP() << "there is no GPU";
  if (emulation::real()) GTEST_SKIP() << "the library reads them as it does";
  for (const bool as_told : {true, false}) {
    emulation::settings() = {.masks_as_told = as_told};
    const Device fresh = cuda_device();
    testing::internal::CaptureStderr();
    uint64_t seed = 1;
    for (const Example& example : examples_of(matmul_relu_grad_op)) {
      const Case on_cpu = make_case(matmul_relu_grad_op, example, seed, nullptr);
      const Case c = make_case(matmul_relu_grad_op, example, seed++, fresh.accelerator);
      Problems problems;
      const auto want = evaluate(on_cpu, {}, problems), got = evaluate(c, {}, problems);
      EXPECT_EQ(difference(c.program.value(c.out[0]).spec, want[0], got[0], false), "")
          << "example " << seed - 2;
      EXPECT_TRUE(problems.empty()) << problems[0];
    }
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), as_told ? 0 : 1) << said;
    EXPECT_EQ(said.find("warning: cuBLASLt reads DRELU's mask in another order") == 0, !as_told);
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
      EXPECT_EQ(reads_masks_as_written(fresh, type, type), as_told);
      EXPECT_EQ(reads_masks_as_written(fresh, type, DType::f32), as_told);
    }
  }
  emulation::settings() = {};
}

INSTANTIATE_TEST_SUITE_P(Cuda, Emulated, testing::ValuesIn(ops_with_kernels()), name_of);

}  // namespace
}  // namespace pal::test
