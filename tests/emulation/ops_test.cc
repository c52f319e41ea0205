// Every operator's CUDA kernels on the emulated GPU, over the operator's own examples: the generic
// checks of tests/ops, and the bits of the CPU's kernel. In a CUDA build, the same on a real GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "core/accelerator.h"
#include "core/builder.h"
#include "memory/run/program_set.h"
#include "ops/convolution/conv2d.h"
#include "ops/convolution/conv3d.h"
#include "ops/convolution/convolution.h"
#include "ops/kernels/tiles.h"
#include "ops/libraries/cudnn_shape.h"
#include "ops/losses/cross_entropy.h"
#include "ops/norms/lrn.h"
#include "ops/optimizer/adam.h"
#include "ops/products/matmul.h"
#include "ops/products/matmul_relu.h"
#include "ops/sums/gates.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/embedding.h"
#include "tests/emulation/emulation.h"
#include "tests/ops/generic/operator_test.h"

namespace pal::test {
namespace {

using emulation::Order;

// Operators without CUDA kernels: GPU kernels take plain layouts, there is nothing to reorder.
const std::set<std::string> kWithout = {"reorder"};
// Library products add in an order of their own; the loss of wide rows does too, for speed.
const std::set<std::string> kNotBitwise = {
    "cross_entropy",  "matmul",           "matmul_relu",       "matmul_relu_grad",
    "batched_matmul", "conv2d",           "conv2d_data_grad",  "conv2d_weight_grad",
    "conv3d",         "conv3d_data_grad", "conv3d_weight_grad"};

bool is_convolution(const OpDef& op) {
  const std::string name = op.name;
  return name.starts_with("conv2d") || name.starts_with("conv3d");
}

// Null: a CUDA build (tests/gpu) on a machine without. Never destroyed: at the program's end the
// libraries whose handles it has may have gone before it.
std::shared_ptr<Accelerator> gpu() {
  static const auto* const one = new std::shared_ptr<Accelerator>([] {
    try {
      return cuda_device().accelerator;
    } catch (const UsageError&) {
      return std::shared_ptr<Accelerator>();
    }
  }());
  return *one;
}

std::vector<const OpDef*> ops_with_kernels() {
  std::vector<const OpDef*> out;
  for (const OpDef* op : all_ops()) {
    if (op->cuda && op->cuda->run) out.push_back(op);
  }
  return out;
}

// Two outputs a channel; the widths of vectors; 1 x 1 in groups, which needs no windows.
std::vector<Example> convolutions(const OpDef& op) {
  struct Shapes {
    Shape x, w, y;
    Conv2dAttrs attrs;
  };
  std::vector<Shapes> all = {
      {{3, 7, 9, 9}, {18, 3, 3, 1}, {3, 4, 5, 18}, conv2d_attrs(2, 1, 9)},
      {{2, 7, 5, 16},
       {16, 3, 2, 1},
       {2, 7, 6, 16},
       {.top = 1, .left = 1, .bottom = 1, .right = 1, .groups = 16}},
      {{2, 5, 3, 6}, {9, 1, 1, 2}, {2, 5, 3, 9}, {.groups = 3}},
  };
  std::vector<Example> out;
  for (Shapes& s : all) {
    if (&op == &conv2d_op) {
      out.push_back(
          {.operands = {example(s.x), example(s.w), example({s.w[0]})}, .attrs = s.attrs});
    } else if (&op == &conv2d_data_grad_op) {
      s.attrs.height = s.x[1], s.attrs.width = s.x[2];
      out.push_back({.operands = {example(s.y), example(s.w)}, .attrs = s.attrs});
    } else {
      s.attrs.height = s.w[1], s.attrs.width = s.w[2];
      out.push_back({.operands = {example(s.x), example(s.y), example(s.w)}, .attrs = s.attrs});
    }
  }
  return out;
}

// The operator's own examples, and larger ones where a kernel does something else with those: sorts
// across chunks, sums over more than shared memory holds, operands for several launches.
std::vector<Example> examples_of(const OpDef& op) {
  std::vector<Example> out = op.examples;
  const std::string name = op.name;
  const ExampleOperand scalars = example({16}, DType::i32, -1, 0);
  if (name == "embedding_grad") {
    for (const int64_t count : {2048, 2049, 9000}) {
      out.push_back(
          {.operands = {example({count, 3}), example({count}, DType::i32, 0, 60), absent_example()},
           .attrs = EmbeddingGradAttrs{61, 7}});
    }
  } else if (name == "masked_softmax") {
    out.push_back({.operands = {example({700, 3}), example({3}, DType::i32, 0, 700)}});
  } else if (name == "attention" || name == "attention_grad") {  // heads of 4 and 8 chunks
    for (const int64_t width : {200, 464}) {
      Example wide = out[4];
      for (ExampleOperand& x : wide.operands) {
        if (x.spec.shape.rank() == 3 && x.spec.shape[2] == 80) x.spec.shape[2] = width;
      }
      out.push_back(std::move(wide));
    }
    Example halves = out[4];  // several tiles of keys, added up before they are rounded
    for (ExampleOperand& x : halves.operands) {
      if (x.spec.shape.rank() == 3 && x.spec.shape[2] == 80) x.spec.dtype = DType::bf16;
    }
    out.push_back(std::move(halves));
  } else if (name == "lrn" || name == "lrn_grad") {  // the widest rows, fewer to a block
    const std::vector<ExampleOperand> rows(out[0].operands.size(), example({3, 2048}));
    out.push_back({.operands = rows, .attrs = LrnAttrs{5, 0.3f, 0.6f, 2}});
  } else if (name.starts_with("conv2d")) {
    for (Example& more : convolutions(op)) out.push_back(std::move(more));
  } else if (name == "masked_softmax_grad") {
    out.push_back({.operands = {example({321, 33}, DType::f32, 0, 1), example({321, 33})}});
  } else if (name == "cross_entropy") {  // more chunks than the last kernel has threads
    out.push_back({.operands = {example({2100, 3}), example({2100}, DType::i32, 0, 2), scalars},
                   .attrs = CrossEntropyAttrs{0.1f, 0}});
    for (const DType type : {DType::f32, DType::bf16}) {  // rows that a block has
      for (const int64_t width : {2048, 2301}) {
        out.push_back({.operands = {example({5, width}, type, -3, 3),
                                    example({5}, DType::i32, 0, float(width)), scalars},
                       .attrs = CrossEntropyAttrs{type == DType::f32 ? 0.1f : 0.0f, 3}});
      }
    }
  } else if (name == "clip_norm_gate") {
    Example many{.operands = {scalars, absent_example()}, .attrs = ClipNormAttrs{0.5f}};
    for (int k = 0; k < 600; ++k) {
      many.operands.push_back(k % 7 ? example({1}, DType::f32, 0, 4) : absent_example());
    }
    out.push_back(std::move(many));
  } else if (name == "adam") {
    Example many{.attrs = AdamAttrs{.weight_decay = 0.1f, .decoupled = true}};
    for (int64_t k = 0; k < 70; ++k) {
      const Shape shape{k % 5 == 0 ? 300 : 3, 1 + k};
      many.operands.insert(many.operands.end(), {example(shape), example(shape), example(shape),
                                                 example(shape, DType::f32, 0, 2), scalars,
                                                 example({4}, DType::f32, 0.5f, 1)});
    }
    out.push_back(std::move(many));
  }
  return out;
}

// The operator's cases, with its number among them as the seed; a convolution's as cuDNN's and
// again without.
std::vector<Case> cases_of(const OpDef& op, const std::shared_ptr<Accelerator>& accelerator) {
  std::vector<Case> out;
  for (const bool cudnn : {true, false}) {
    if (!cudnn && !is_convolution(op)) break;
    for (const Example& example : examples_of(op)) {
      out.push_back(make_case(op, example, out.size() + 1, accelerator));
      out.back().cudnn = cudnn;
    }
  }
  return out;
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

// Half a unit in the last place of the type, relative to the larger number.
float tolerance_of(DType type) {
  return type == DType::bf16 ? 0x1p-8f : type == DType::f16 ? 0x1p-10f : 3e-6f;
}

std::string difference(const TensorSpec& spec, const Bytes& want, const Bytes& got, bool bitwise) {
  if (bitwise) return first_difference(spec, want, got);
  const std::vector<float> a = decode(spec, want), b = decode(spec, got);
  float scale = 0;
  for (float x : a) scale = std::max(scale, std::fabs(x));
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::fabs(a[i] - b[i]) <= tolerance_of(spec.dtype) * scale) continue;
    return "element " + std::to_string(i) + ": " + std::to_string(a[i]) + " against " +
           std::to_string(b[i]);
  }
  return "";
}

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
                                            !kNotBitwise.count(c.op->name));
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
  const bool on_rows = kNotBitwise.count(GetParam()->name) && GetParam() != &cross_entropy_op;
  each([&](const Case& c) { return check_alignment(c, on_rows); });
}
TEST_P(Emulated, IsPure) {
  const std::vector<Case> all = cases();
  each([&](const Case& c) { return check_purity(c, all); });
  each(check_unread);
}
TEST_P(Emulated, HasPartsThatGiveItsBits) {
  each([](const Case& c) { return check_parts(c); });
}
TEST_P(Emulated, UpdatesWriteTheirState) {
  if (!GetParam()->writes_state) return;
  each(check_update);
  expect_none(check_groups(*GetParam(), GetParam()->examples, gpu()), "groups");
}

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

// Those that it has words for, but for groups of one channel, and 16-bit operands with an f32
// result; and none that it may not.
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
      EXPECT_EQ(cudnns, c.cudnn && !depthwise && one_type && cudnn_shape(shape))
          << op->name << " case " << c.seed - 1;
      taken += cudnns;
    }
  }
  EXPECT_GT(taken, 20);
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

INSTANTIATE_TEST_SUITE_P(Cuda, Emulated, testing::ValuesIn(ops_with_kernels()), name_of);

TEST(Kernels, EveryOperatorHasOneOrIsKnownToHaveNone) {
  for (const OpDef* op : all_ops()) {
    const bool has = op->cuda && op->cuda->run;
    EXPECT_NE(has, kWithout.count(op->name) == 1) << op->name;
  }
}

// Of every .cu file: the kernels it defines, and the places where it launches one.
struct Source {
  std::string file;
  std::set<std::string> kernels, launched;
  std::vector<int> launches;  // lines
};
std::vector<Source> sources() {
  std::vector<Source> out;
  for (const char* folder : {"core", "ops"}) {
    const auto path = std::filesystem::path(PAL_SOURCE_DIR) / folder;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      const std::string name = entry.path().filename().string();
      if (name.find("cuda") == std::string::npos && entry.path().extension() != ".cu") continue;
      Source source{.file = name};
      std::ifstream in(entry.path());
      std::stringstream text;
      text << in.rdbuf();
      const std::string all = text.str();
      static const std::regex kernel(
          R"(__global__\s+void\s+(?:__launch_bounds__\(\w+\)\s+)?(\w+)\()");
      static const std::regex launch(R"(\blaunch\(\s*(\w+_kernel))");
      for (std::sregex_iterator i(all.begin(), all.end(), kernel), end; i != end; ++i) {
        source.kernels.insert((*i)[1]);
      }
      for (std::sregex_iterator i(all.begin(), all.end(), launch), end; i != end; ++i) {
        source.launched.insert((*i)[1]);
        source.launches.push_back(1 +
                                  int(std::count(all.begin(), all.begin() + i->position(), '\n')));
      }
      out.push_back(std::move(source));
    }
  }
  return out;
}

// Every __global__ function is launched somewhere by that name, and every launch has been made.
TEST(Kernels, EveryOneIsLaunchedByTheExamples) {
  emulation::settings() = {};
  if (!gpu()) GTEST_SKIP() << "there is no GPU";
  for (const OpDef* op : ops_with_kernels()) {
    for (const Case& c : cases_of(*op, gpu())) {
      Problems problems;
      evaluate(c, {}, problems);
    }
  }
  std::set<std::string> defined, launched;
  for (const Source& source : sources()) {
    defined.insert(source.kernels.begin(), source.kernels.end());
    launched.insert(source.launched.begin(), source.launched.end());
    for (int line : source.launches) {
      bool made = false;  // the call may go on for some lines; the grid stands on one of them
      for (int l = line; l < line + 3; ++l)
        made |= emulation::launches().count({source.file, l}) > 0;
      EXPECT_TRUE(made) << source.file << ":" << line << " was not reached by any example";
    }
  }
  EXPECT_EQ(defined, launched);
  EXPECT_GT(defined.size(), 40u);
  RecordProperty("kernels", int(defined.size()));
  std::printf("%zu kernels, %lld grids run\n", defined.size(),
              static_cast<long long>(emulation::kernels_run()));
}

}  // namespace
}  // namespace pal::test
