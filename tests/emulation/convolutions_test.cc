// Convolutions on the emulated GPU: in stripes, as windows, and cuDNN's where it takes them. In a
// CUDA build, the same on a real GPU as far as it can be told.
#include <gtest/gtest.h>

#include "core/boundary.h"
#include "ops/convolution/conv2d.h"
#include "ops/convolution/conv3d.h"
#include "ops/convolution/conv_relu.h"
#include "ops/convolution/convolution.h"
#include "ops/libraries/conv_stripes.h"
#include "ops/libraries/cudnn_shape.h"
#include "tests/emulation/emulation.h"
#include "tests/emulation/op_cases.h"

namespace pal::test {
namespace {

// Every convolution there gives what the CPU does.
void expect_convolutions(const std::shared_ptr<Accelerator>& accelerator) {
  for (const OpDef* op : all_ops()) {
    if (!is_convolution(*op)) continue;
    const std::vector<Case> on_cpu = cases_of(*op, nullptr);
    for (const Case& c : cases_of(*op, accelerator)) {
      Problems problems;
      const auto want = evaluate(on_cpu[c.seed - 1], {}, problems);
      const auto got = evaluate(c, {}, problems);
      EXPECT_EQ(difference(c.program.value(c.out[0]).spec, want[0], got[0], false), "")
          << op->name << " case " << c.seed - 1;
      EXPECT_TRUE(problems.empty()) << problems[0];
    }
  }
}

// On a GPU with so little memory that windows are laid out line by line, or a few lines at a time,
// and that cuDNN may not have the workspace that it asks for.
TEST(Convolutions, InStripesAsWhole) {
  if (emulation::real()) GTEST_SKIP() << "a GPU's memory is what it is";
  for (const int64_t memory : {int64_t(1) << 18, int64_t(3) << 20}) {
    emulation::settings() = {.memory = memory};
    const std::shared_ptr<Accelerator> small = cuda_device().accelerator;
    emulation::settings() = {};
    expect_convolutions(small);
  }
}

TEST(Convolutions, AsWindowsWhereThereIsNoCudnn) {
  if (emulation::real()) GTEST_SKIP() << "the libraries are what they are";
  emulation::settings() = {.cudnn = false};
  const int64_t before = emulation::convolutions_run();
  expect_convolutions(cuda_device().accelerator);
  EXPECT_EQ(emulation::convolutions_run(), before);
  emulation::settings() = {};
}

// A fallback is no fault, and is said.
TEST(Convolutions, SayWhoseCodeTheyRunBy) {
  if (emulation::real()) GTEST_SKIP() << "the libraries are what they are";
  emulation::settings() = {};
  const Device device = cuda_device();
  const auto by = [&](DType type, bool relu, DType result) {
    KernelCache cache(device);
    const Specs in{{{2, 8, 8, 16}, type}, {{32, 3, 3, 16}, type}, {{32}}},
        out{{{2, 8, 8, 32}, result}};
    return cache.get(relu ? conv2d_relu_op : conv2d_op, in, out, conv2d_attrs(1, 1))->prepared.by;
  };
  EXPECT_EQ(by(DType::f32, false, DType::f32), "cuDNN");
  EXPECT_EQ(by(DType::bf16, false, DType::bf16), "cuDNN's graph");
  EXPECT_EQ(by(DType::bf16, true, DType::bf16), "cuDNN's graph");
  emulation::settings().same_engines = false;
  EXPECT_EQ(by(DType::bf16, true, DType::bf16).find("cuDNN's graph, relu by a kernel ("), 0u);
  emulation::settings() = {.fusions = false};
  EXPECT_EQ(by(DType::bf16, false, DType::bf16).find("cuDNN (descriptor 15, as a whole: "), 0u)
      << "a graph of two operations";
  emulation::settings() = {.cudnn = false};
  EXPECT_EQ(by(DType::f32, false, DType::f32), "windows, cuBLASLt");
  emulation::settings() = {};
}

// Where the library fuses nothing, kernels of our own lay the bias out and do relu.
TEST(Convolutions, WithEpiloguesInTheCallOrAroundIt) {
  if (emulation::real()) GTEST_SKIP() << "the libraries are what they are";
  emulation::settings() = {};
  const std::shared_ptr<Accelerator> accelerator = cuda_device().accelerator;
  emulation::settings().fusions = false;
  expect_convolutions(accelerator);
  emulation::settings() = {.same_engines = false};
  expect_convolutions(accelerator);
  int calls = 0;
  for (const OpDef* op : {&conv2d_op, &conv2d_relu_op, &conv3d_op, &conv3d_relu_op}) {
    const bool relu = std::string(op->name).ends_with("relu");
    for (const auto& [fusions, same] : {std::pair{true, true}, {true, false}, {false, true}}) {
      emulation::settings() = {.fusions = fusions, .same_engines = same};
      for (const Case& c : cases_of(*op, accelerator)) {
        if (!c.cudnn) continue;
        Problems problems;
        const int64_t kernels = emulation::kernels_run(), before = emulation::convolutions_run();
        evaluate(c, {}, problems);
        if (emulation::convolutions_run() == before) continue;
        const bool bias = c.in[2] != kNone;
        const bool exact = c.program.value(c.in[0]).spec.dtype == DType::f32;
        const bool graph = !exact && (fusions || !bias);
        const int around = graph ? relu && !(fusions && same) : bias + relu;
        EXPECT_EQ(emulation::kernels_run() - kernels, around) << op->name << " case " << c.seed - 1;
        calls += bias || relu;
      }
    }
  }
  EXPECT_GT(calls, 40);
  emulation::settings() = {};
}

// cuDNN may have a part of the card's memory, 512 MiB at most; the windows in its place 64 MiB. The
// emulated one asks for a byte for each of w's elements.
TEST(Convolutions, MayHaveAPartOfTheCard) {
  if (emulation::real()) GTEST_SKIP() << "a GPU's memory is what it is";
  auto workspace = [](int64_t memory, int64_t channels) {
    emulation::settings() = {.memory = memory};
    const Device device = cuda_device();
    emulation::settings() = {};
    const Specs in{{{1, 4, 4, channels}}, {{8192, 3, 3, channels}}, {}}, out{{{1, 4, 4, 8192}}};
    return prepare_conv_cuda(ConvKind::forward, device, in, out, geometry_of(conv2d_attrs(1, 1)))
        .workspace;
  };
  constexpr int64_t kMiB = int64_t(1) << 20, kGiB = int64_t(1) << 30;
  EXPECT_GT(workspace(128 * kGiB, 1024), 72 * kMiB);
  EXPECT_LT(workspace(16 * kGiB, 1024), 64 * kMiB) << "it asks for 72";
  EXPECT_LT(workspace(256 * kGiB, 8192), 64 * kMiB) << "it asks for 576";
}

ConvShape shape_of(const Case& c) {
  Specs in;
  for (ValueId v : c.in) in.push_back(v == kNone ? TensorSpec{} : c.program.value(v).spec);
  const std::string name = c.op->name;
  const ConvKind kind = name.ends_with("data_grad")     ? ConvKind::data_grad
                        : name.ends_with("weight_grad") ? ConvKind::weight_grad
                                                        : ConvKind::forward;
  const Attrs& attrs = c.program.nodes[0].attrs;
  return conv_shape_of(kind, in,
                       name.starts_with("conv2d") ? geometry_of(attrs.as<Conv2dAttrs>())
                                                  : geometry_of(attrs.as<Conv3dAttrs>()));
}

// Those that it has words for, but for groups of one channel, 16-bit operands with an f32 result
// that a sum is added to or of images that are their own windows, and f32 in rows off 16 bytes; and
// none that it may not.
TEST(Convolutions, AreCudnnsWhereItTakesThem) {
  emulation::settings() = {};
  if (!gpu()) GTEST_SKIP() << "there is no GPU";
  RecordProperty("cudnn", cudnn_version && !cudnn_version().empty() ? cudnn_version() : "none");
  if (emulation::real()) return;  // which it takes is not counted
  int taken = 0;
  for (const OpDef* op : all_ops()) {
    if (!is_convolution(*op)) continue;
    for (const Case& c : cases_of(*op, gpu())) {
      Problems problems;
      const int64_t before = emulation::convolutions_run();
      evaluate(c, {}, problems);
      const bool cudnns = emulation::convolutions_run() > before;
      const ConvShape shape = shape_of(c);
      const bool depthwise = shape.groups > 1 && shape.groups == shape.c;
      auto type = [&](ValueId v) { return c.program.value(v).spec.dtype; };
      const bool one_type = type(c.in[0]) == type(c.out[0]);
      const bool sum = c.in.size() > 2 && c.in[2] != kNone;
      const bool weights = std::string(c.op->name).ends_with("weight_grad");
      int64_t least = kWidestBoundary;
      for (ValueId v : {c.in[0], c.in[1], c.out[0]}) {
        least = std::min(least, row_boundary(c.program.value(v).spec));
      }
      bool its_own =
          one_type ? type(c.in[0]) != DType::f32 || least == kWidestBoundary : weights && !sum;
      if (weights && !one_type && shape.groups == 1)
        its_own &= !cut_into_stripes(shape, 1).in_place;
      EXPECT_EQ(cudnns, c.cudnn && !depthwise && its_own && cudnn_shape(shape))
          << op->name << " case " << c.seed - 1;
      taken += cudnns;
    }
  }
  EXPECT_GT(taken, 20);
}

}  // namespace
}  // namespace pal::test
