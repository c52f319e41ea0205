// What is taken of an operator that says nothing itself, and how groups of operands are counted.
#include "core/op.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/prepare.h"

namespace pal {
namespace {

TEST(Op, CostIsItsBytesAndAFlopAnElement) {
  OpDef op{.name = "made_up", .formula = "", .infer = nullptr};
  const TensorSpec in[] = {{{2, 3}, DType::f32}, {}, {{}, DType::i32}};  // the second is absent
  const TensorSpec out[] = {{{3, 2}, DType::bf16}, {{}, DType::f32}};
  const Cost cost = cost_of(op, in, out, Attrs());
  EXPECT_EQ(cost.bytes, 24 + 4 + 12 + 4);
  EXPECT_EQ(cost.flops, 6 + 1);
  op.windows = [](SpecSpan, SpecSpan, const Attrs&) { return std::vector<Window>(); };
  EXPECT_EQ(cost_of(op, in, out, Attrs()).flops, 0);
  EXPECT_EQ(cost_of(op, in, out, Attrs()).bytes, 44);
  op.windows = nullptr;
  Program p;
  Node node;
  node.op = &op, node.in = {p.values.add({.spec = in[0]}), kNone},
  node.out = {p.values.add({.spec = out[0]})};
  EXPECT_EQ(cost_of(p, node).bytes, 24 + 12);
  EXPECT_EQ(cost_of(p, node).flops, 6);
}

TEST(Op, NodesAreCountedByWhoseCodeTheyRunBy) {
  const OpDef product{.name = "product", .formula = "", .infer = nullptr},
      sum{.name = "sum", .formula = "", .infer = nullptr};
  Program p;
  ByNode<std::shared_ptr<const Kernel>> kernels;
  const auto node = [&](const OpDef& op, const char* by) {
    p.nodes.push_back({.op = &op});
    kernels.push_back(std::make_shared<Kernel>(Kernel{.prepared = {.by = by}}));
  };
  node(product, "a library"), node(sum, ""), node(product, "windows"), node(product, "a library");
  const auto nodes = nodes_by_code(p, kernels);
  ASSERT_EQ(nodes.size(), 1u);
  EXPECT_EQ(nodes.at("product").at("a library"), 2);
  EXPECT_EQ(text_of_code(nodes), "product: 2 by a library, 1 by windows");
  EXPECT_EQ(text_of_code({}), "");
}

// Three operands a group, of which the first and the last are written.
OpDef grouped() {
  return {
      .name = "grouped", .formula = "", .infer = nullptr, .arity = 3, .shares = {{0, 0}, {1, 2}}};
}

TEST(Op, SharesRepeatWithEachGroup) {
  const OpDef op = grouped();
  std::vector<std::pair<int, int>> shares;
  for (Share s : shares_of(op, 9)) shares.push_back({s.output, s.operand});
  EXPECT_EQ(shares,
            (std::vector<std::pair<int, int>>{{0, 0}, {1, 2}, {2, 3}, {3, 5}, {4, 6}, {5, 8}}));
  EXPECT_EQ(place_in_group(op, 7), 1);
  for (auto [output, operand] : shares) EXPECT_EQ(written_operand(op, output), operand);
}

TEST(Op, WithoutGroupsOperandsAreCountedOn) {
  const OpDef op{.name = "whole", .formula = "", .infer = nullptr, .shares = {{1, 4}}};
  EXPECT_EQ(place_in_group(op, 7), 7);
  EXPECT_EQ(shares_of(op, 9).size(), 1u);
  EXPECT_EQ(written_operand(op, 1), 4);
  try {
    written_operand(op, 0);
    FAIL();
  } catch (const ProgramError& error) {
    EXPECT_STREQ(error.what(),
                 "[whole] output 0 of an update must share bytes with the state that it writes");
  }
}

// A node of one operator for each way to have zeros, over values of given types.
TEST(Op, ZerosAreMadeKeptAndGathered) {
  const OpDef makes{.name = "makes", .formula = "", .infer = nullptr, .zeros = makes_zeros};
  const OpDef keeps{.name = "keeps", .formula = "", .infer = nullptr, .zeros = keeps_zeros};
  const OpDef gathers{.name = "gathers", .formula = "", .infer = nullptr, .zeros = gathers_zeros};
  const OpDef few{.name = "few", .formula = "", .infer = nullptr};
  Program p;
  auto value = [&](DType type) { return p.values.add({.spec = {{4}, type}}); };
  auto made = [&](const OpDef& op, std::vector<ValueId> in, DType type = DType::f32) {
    Node node;
    node.op = &op, node.in = std::move(in), node.out = {value(type)};
    p.nodes.push_back(node);
    return node.out[0];
  };
  const ValueId x = value(DType::f32), zeros = made(makes, {x});
  const ValueId kept = made(keeps, {zeros, x}), lost = made(keeps, {x, zeros});
  const ValueId gathered = made(gathers, {zeros, kNone, kept});
  const ValueId mixed = made(gathers, {zeros, x}), none = made(few, {zeros});
  const ValueId halves = made(makes, {x}, DType::bf16), other = made(makes, {x}, DType::f16);
  const ValueId codes = made(makes, {x}, DType::u8);
  const ByValue<char> many = values_with_zeros(p);
  for (ValueId v : {zeros, kept, gathered, halves, other}) EXPECT_TRUE(many[v]) << int(v);
  for (ValueId v : {x, lost, mixed, none, codes}) EXPECT_FALSE(many[v]) << int(v);
}

TEST(Op, WindowsAreOfTheLargerOneAndOnlyWhereBothAreThere) {
  OpDef op{.name = "windows", .formula = "", .infer = nullptr};
  op.windows = [](SpecSpan, SpecSpan, const Attrs&) {
    return std::vector<Window>{{Window::Of::operand, 0, 0, 64}, {Window::Of::output, 1, 1, 128}};
  };
  Program p;
  Node node;
  node.op = &op;
  for (int i = 0; i < 4; ++i) p.values.add({.spec = {{4}}});
  node.in = {0, 1}, node.out = {2, 3};
  const std::vector<NodeWindow> windows = windows_of(p, node);
  ASSERT_EQ(windows.size(), 2u);
  EXPECT_EQ(windows[0].small, 2);
  EXPECT_EQ(windows[0].large, 0);
  EXPECT_EQ(windows[0].offset, 64);
  EXPECT_TRUE(windows[0].is_view);
  EXPECT_EQ(windows[1].small, 1);
  EXPECT_EQ(windows[1].large, 3);
  EXPECT_EQ(windows[1].offset, 128);
  EXPECT_EQ(windows[1].output, 1);
  EXPECT_FALSE(windows[1].is_view);
  node.in[0] = kNone;
  EXPECT_EQ(windows_of(p, node).size(), 1u);
  node.out[1] = kNone;
  EXPECT_EQ(windows_of(p, node).size(), 0u);
}

TEST(Op, AMisfitNamesTheOperator) {
  const OpDef op{.name = "picky", .formula = "", .infer = [](SpecSpan, const Attrs&) -> Specs {
                   misfit("does not fit");
                   return {};
                 }};
  try {
    infer_specs(op, {}, Attrs());
    FAIL();
  } catch (const ProgramError& error) {
    EXPECT_STREQ(error.what(), "[picky] does not fit");
  }
}

// Kernels are shared where operator, specs and attributes are the same; the device's own backend is
// taken, and prepared once.
TEST(KernelCache, PreparesOnceForEachDistinctNode) {
  struct Count {
    int64_t n = 0;
    auto fields() const { return std::tuple{field("n", n)}; }
  };
  OpDef op{.name = "made_up", .formula = "", .infer = nullptr};
  KernelCache cache(cpu_device(1));
  const TensorSpec two{{2}}, three{{3}};
  try {
    cache.get(op, {}, {&two, 1}, Attrs());
    FAIL();
  } catch (const ProgramError& error) {
    EXPECT_STREQ(error.what(), "[made_up] has no kernel for this device");
  }
  op.cpu.run = [](const KernelArgs&) {};
  op.cpu.prepare = [](const Device&, SpecSpan in, SpecSpan out, const Attrs&) {
    return Prepared{.workspace = 100 * int64_t(in.size()) + out[0].numel()};
  };
  const auto kernel = cache.get(op, {}, {&two, 1}, Count{1});
  EXPECT_EQ(kernel->prepared.workspace, 2);
  EXPECT_EQ(cache.get(op, {&two, 1}, {&three, 1}, Count{1})->prepared.workspace, 103);
  EXPECT_EQ(cache.get(op, {}, {&two, 1}, Count{1}), kernel);
  EXPECT_NE(cache.get(op, {}, {&two, 1}, Count{2}), kernel);
  EXPECT_NE(cache.get(op, {}, {&three, 1}, Count{1}), kernel);
  const OpDef other = op;
  EXPECT_NE(cache.get(other, {}, {&two, 1}, Count{1}), kernel);
  EXPECT_EQ(cache.size(), 5u);
}

}  // namespace
}  // namespace pal
