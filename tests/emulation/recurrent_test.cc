// Recurrent layers on the emulated GPU: cuDNN's where it is found and takes them, step by step
// where not, beside the processor's unrolled cells. In a CUDA build, the same on a real GPU as far
// as it can be told.
#include <gtest/gtest.h>

#include "ops/recurrent/gru.h"
#include "ops/recurrent/lstm.h"
#include "tests/emulation/fixture.h"
#include "tests/emulation/op_cases.h"
#include "tests/support/recurrent_programs.h"

namespace pal::test {
namespace {

class Recurrent : public OnGpu {
 protected:
  // Calls of cuDNN's that running these layers with their gradients made; where all sizes are
  // multiples of four, f32 might be rounded to TF32.
  int64_t expect_as_on_cpu(const Device& device) {
    const int64_t before = emulation::layers_run();
    for (const RecurrentCell cell : {RecurrentCell::gru, RecurrentCell::lstm}) {
      for (const bool backwards : {false, true}) {
        for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
          for (const std::vector<float>& lengths :
               {std::vector<float>{0, 5, 2, 1}, std::vector<float>{}}) {
            expect_as_on_cpu({cell, 5, 4, 3, 6, backwards, lengths, type}, device);
            expect_as_on_cpu({cell, 5, 4, 8, 16, backwards, lengths, type}, device);
          }
        }
      }
    }
    return emulation::layers_run() - before;
  }

 private:
  static void expect_as_on_cpu(const LayerCase& c, const Device& device) {
    KernelCache cache(device);
    const auto want = run_layer(c, layer_program(c, false));
    const auto got = run_layer(c, layer_program(c, true), &cache);
    ASSERT_EQ(got.size(), c.cell == RecurrentCell::gru ? 6u : 5u);
    const double near = c.type == DType::f32 ? 5e-6 : c.type == DType::f16 ? 0.006 : 0.04;
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_LT(layer_difference(want, got, i), near) << kLayerOutputs[i] << " of " << describe(c);
    }
  }
};

constexpr int64_t kLayers = 48;  // of expect_as_on_cpu

TEST_F(Recurrent, AreCudnnsWhereItIsFound) {
  const int64_t calls = expect_as_on_cpu(cuda_device());
  if (!emulation::real()) {
    EXPECT_EQ(calls, 3 * kLayers);
  }
}

TEST_F(Recurrent, GoStepByStepWithoutIt) {
  if (emulation::real()) GTEST_SKIP() << "the libraries are what they are";
  Device off = cuda_device();
  off.cudnn = false;
  EXPECT_EQ(expect_as_on_cpu(off), 0);
  emulation::settings().cudnn = false;
  EXPECT_EQ(expect_as_on_cpu(cuda_device()), 0);
  emulation::settings() = {};
  emulation::settings().cudnn_layers = false;  // it is found, and takes no such layer
  EXPECT_EQ(expect_as_on_cpu(cuda_device()), 0);
}

// Where the library keeps more than the tensor holds, its gradient runs the layer once more.
TEST_F(Recurrent, RunAgainWhereTheirReserveIsLarge) {
  if (emulation::real()) GTEST_SKIP() << "the libraries are what they are";
  emulation::settings().cudnn_reserve = 60;
  EXPECT_EQ(expect_as_on_cpu(cuda_device()), 4 * kLayers);
}

// Cells that fill the card have four or eight columns a thread, smaller ones two.
TEST_F(Recurrent, CellsOfAnySizeHaveTheProcessorsBits) {
  struct Tried {
    DType type;
    int64_t batch;
  };
  constexpr int64_t kWidth = 512;
  for (const Tried t : {Tried{DType::f32, 512}, {DType::bf16, 512}, {DType::f16, 1024}}) {
    for (const OpDef* op : {&lstm_cell_op, &lstm_cell_grad_op, &lstm_cell_replay_grad_op,
                            &gru_cell_op, &gru_cell_grad_op, &gru_cell_replay_grad_op}) {
      const bool replays = op == &lstm_cell_replay_grad_op || op == &gru_cell_replay_grad_op;
      if (replays && t.type != DType::f32) continue;  // they take f32 alone
      Example example = op->examples[0];
      for (ExampleOperand& x : example.operands) {
        if (x.absent) continue;
        Shape& shape = x.spec.shape;
        shape[0] = t.batch;
        if (shape.rank() == 2) shape[1] = shape[1] / 5 * kWidth, x.spec.dtype = t.type;
      }
      Problems problems;
      const Case on_cpu = make_case(*op, example, 1, nullptr),
                 c = make_case(*op, example, 1, gpu());
      const auto want = evaluate(on_cpu, {}, problems), got = evaluate(c, {}, problems);
      EXPECT_EQ(problems, Problems{}) << op->name;
      for (size_t i = 0; i < want.size(); ++i) {
        if (c.out[i] == kNone) continue;
        EXPECT_EQ(first_difference(c.program.value(c.out[i]).spec, want[i], got[i]), "")
            << op->name << " in " << to_string(t.type) << ", output " << i;
      }
    }
  }
}

}  // namespace
}  // namespace pal::test
