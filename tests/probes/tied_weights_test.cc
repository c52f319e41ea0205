// Probe 1: one weight is embedding and output matrix (twice). Its gradient is the sum of all uses,
// folded in place by the operators' own accumulating forms: the program has no `add`.
#include <gtest/gtest.h>

#include "autograd/differentiate.h"
#include "core/op.h"
#include "core/print.h"
#include "core/verify.h"
#include "memory/storages/lifetimes.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/embedding.h"
#include "tests/probes/probe.h"
#include "tests/support/eval.h"

namespace pal::test {
namespace {

constexpr int64_t kWords = 11, kSize = 6, kTokens = 9;

// loss = <c1, h W^T> - <c2, sigmoid(h W^T)> with h = tanh(W[ids] M). Untied, the three uses of W
// are weights of their own.
Program step(bool tied) {
  Builder b;
  auto table = [&](const std::string& name) {
    return b.state(tied ? "W" : name, {{kWords, kSize}}, Role::weight);
  };
  Val ids = b.input("ids", {{kTokens}, DType::i32});
  Val c1 = b.input("c1", {{kTokens, kWords}}), c2 = b.input("c2", {{kTokens, kWords}});
  Val m = b.state("M", {{kSize, kSize}}, Role::weight);
  Val w_in = table("W/in"), w1 = table("W/out1"), w2 = table("W/out2");
  Val h = tanh(matmul(embedding(w_in, ids), m));
  Val logits1 = matmul(h, w1, false, true), logits2 = sigmoid(matmul(h, w2, false, true));
  Val loss = sub(sum_all(mul(logits1, c1)), sum_all(mul(logits2, c2)));
  b.output("loss", loss);
  const auto wrt = tied ? std::vector<Val>{w_in} : std::vector<Val>{w_in, w1, w2};
  const auto gradient = differentiate(b, loss, wrt);
  for (size_t i = 0; i < gradient.size(); ++i) b.output("g" + std::to_string(i), gradient[i]);
  Program p = b.take();
  verify(p);
  return p;
}

const auto kTable = random_floats(kWords * kSize, 1);

template <class Machine>  // Planned or Evaluator
void feed(Machine& machine, const std::vector<std::string>& tables,
          const std::vector<float>& table = kTable) {
  machine.set("ids", random_ids(kTokens, 2, int(kWords)));
  machine.set("c1", random_floats(kTokens * kWords, 3));
  machine.set("c2", random_floats(kTokens * kWords, 4));
  machine.set("M", random_floats(kSize * kSize, 5));
  for (auto& name : tables) machine.set(name, table);
}

std::vector<float> gradient(Program program) {
  Planned planned(std::move(program));
  feed(planned, {"W"});
  planned.run();
  return planned.floats("g0");
}

std::vector<float> untied_sum() {
  Planned planned(step(false));
  feed(planned, {"W/in", "W/out1", "W/out2"});
  planned.run();
  std::vector<float> sum(size_t(kWords * kSize), 0);
  for (auto name : {"g2", "g1", "g0"}) {  // in the order of accumulation
    const auto part = planned.floats(name);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  return sum;
}

std::vector<float> finite_differences() {
  Evaluator eval(step(true));
  std::vector<float> out;
  auto loss_at = [&](size_t i, float shift) {
    auto table = kTable;
    table[i] += shift;
    feed(eval, {"W"}, table);
    eval.run_quietly();
    return double(eval.floats("loss")[0]);
  };
  for (size_t i = 0; i < kTable.size(); ++i) {
    out.push_back(float((loss_at(i, 0x1p-6f) - loss_at(i, -0x1p-6f)) / 0x1p-5));
  }
  return out;
}

// The last node of this operator with a sum to add onto (operand 2 of both operators) loses it, as
// if its gradient had ignored the sum.
Program forgetting(Program p, const std::string& op) {
  for (NodeId n = p.node_count(); n-- > 0;) {
    Node& node = p.node(n);
    const bool of_table = p.value(node.out[0]).spec == TensorSpec{{kWords, kSize}};
    if (node.op->name != op || !of_table) continue;
    node.in[2] = kNone;
    break;
  }
  return p;
}

TEST(TiedWeights, GradientIsTheSumOfAllUses) {
  const auto g = gradient(step(true));
  EXPECT_LT(difference(g, untied_sum()), 1e-6);
  EXPECT_LT(difference(g, finite_differences()), 2e-3);
}

TEST(TiedWeights, AForgottenSumIsNoticed) {
  const auto expected = untied_sum();
  for (auto op : {"matmul", "embedding_grad"}) {
    const Program broken = forgetting(step(true), op);
    EXPECT_NE(print(broken), print(step(true))) << op;
    EXPECT_GT(difference(gradient(broken), expected), 0.05) << op;
  }
}

TEST(TiedWeights, NothingIsAddedSeparately) {
  const Program program = step(true);
  EXPECT_EQ(print(program).find(" add("), std::string::npos) << print(program);
  EXPECT_EQ(count_nodes(program, "embedding_grad"), 1);
  EXPECT_EQ(program.value(program.output("g0")).role, Role::weight_gradient);
}

// The values from the first use's gradient to the total, in the order in which they are made.
std::vector<ValueId> partial_sums(const Program& p) {
  std::vector<ValueId> sums;
  for (const Node& node : p.nodes) {
    for (ValueId v : node.out) {
      if (node.phase == Phase::backward && v != kNone &&
          p.value(v).spec == TensorSpec{{kWords, kSize}}) {
        sums.push_back(v);
      }
    }
  }
  return sums;
}

TEST(TiedWeights, TheSumStaysInPlace) {
  const Program program = step(true);
  const auto sums = partial_sums(program);
  ASSERT_EQ(sums.size(), 3u) << print(program);
  auto places = [&](const StorageOptions& options) {
    const Storages storages = assign_storages(program, {}, options);
    std::vector<StorageId> out;
    for (ValueId v : sums) out.push_back(storages.of[size_t(v)]);
    return out;
  };
  const auto shared = places({}), separate = places({.inplace = false});
  EXPECT_EQ(shared[0], shared[1]);
  EXPECT_EQ(shared[1], shared[2]);
  EXPECT_NE(separate[0], separate[1]);
  EXPECT_NE(separate[1], separate[2]);
  // In place or not, the same bits.
  Planned in_place(step(true)), apart(step(true), 1, {.inplace = false});
  for (Planned* p : {&in_place, &apart}) feed(*p, {"W"}), p->run();
  EXPECT_EQ(in_place.bytes("g0"), apart.bytes("g0"));
}

}  // namespace
}  // namespace pal::test
