// Probe 8: a weight in bf16, which the forward and backward pass read, with its master in f32,
// which Adam updates; `assign` rounds the master into the copy at the end of the step.
#include <gtest/gtest.h>

#include "autograd/differentiate.h"
#include "core/error.h"
#include "core/op.h"
#include "core/print.h"
#include "core/verify.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/optimizer/adam.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/casts.h"
#include "ops/tensors/state.h"
#include "ops/tensors/transfers.h"
#include "tests/probes/probe.h"
#include "tests/support/eval.h"

namespace pal::test {
namespace {

constexpr int64_t kRows = 20, kIn = 12, kOut = 9;
constexpr int kSteps = 6;

enum class How {
  copied,     // a bf16 copy in the state, written at the end of each step
  cast_anew,  // the reference: the master is rounded at the beginning of each step
  no_assign,  // broken: nobody writes the copy
  no_master,  // broken: Adam starts from the rounded weight
};

Program step(How how) {
  Builder b;
  Val scalars = step_scalars(b.input("scalars", scalars_spec(), Space::host));
  Val x = b.input("x", {{kRows, kIn}}), c = b.input("c", {{kRows, kOut}});
  const TensorSpec f32{{kIn, kOut}}, bf16{{kIn, kOut}, DType::bf16};
  Val master = b.state("master", f32, Role::optimizer_state);
  Val m = b.state("m", f32, Role::optimizer_state), v = b.state("v", f32, Role::optimizer_state);
  Val w = how == How::cast_anew ? cast(master, DType::bf16) : b.state("W", bf16, Role::weight);
  b.program().value(w.id).role = Role::weight;  // whose gradient is f32
  Val y = tanh(matmul(cast(x, DType::bf16), w, false, false, {}, DType::f32));
  Val loss = sum_all(mul(y, c));
  b.output("loss", loss);
  Val g = differentiate(b, loss, {w})[0];
  {
    Builder::Within phase(b, Phase::backward);
    g = cast(g, DType::f32);
    if (how == How::no_master) {
      Val rounded = cast(w, DType::f32);
      master = assign(master, rounded);
    }
  }
  Val next = adam(master, g, m, v, scalars);
  if (how == How::copied || how == How::no_master) assign(w, next);
  return b.take();
}

struct Trace {
  std::vector<float> losses;
  std::vector<float> master, copy;
};

Trace train(How how, float learning_rate = 1e-3f) {
  Planned p(step(how));
  const auto start = random_floats(kIn * kOut, 1, 0.5f, 1);
  p.set("master", start);
  p.set("m", std::vector<float>(start.size(), 0)), p.set("v", std::vector<float>(start.size(), 0));
  if (how != How::cast_anew) p.set("W", start);  // rounded by set
  p.set("x", random_floats(kRows * kIn, 2));
  p.set("c", random_floats(kRows * kOut, 3));
  Trace out;
  for (int i = 0; i < kSteps; ++i) {
    StepScalars s;
    s.step = i, s.learning_rate = learning_rate;
    p.set_scalars("scalars", s);
    p.run();
    out.losses.push_back(p.floats("loss")[0]);
  }
  out.master = p.floats("master");
  if (how != How::cast_anew) out.copy = p.floats("W");
  return out;
}

std::vector<float> rounded(const std::vector<float>& x) {
  const TensorSpec spec{{int64_t(x.size())}, DType::bf16};
  return decode(spec, encode(spec, x));
}

TEST(MasterWeights, CopyFollowsTheMaster) {
  verify(step(How::copied));
  const Trace copied = train(How::copied), reference = train(How::cast_anew);
  EXPECT_EQ(copied.losses, reference.losses);
  EXPECT_EQ(copied.master, reference.master);
  EXPECT_EQ(copied.copy, rounded(copied.master));
  EXPECT_NE(copied.copy, copied.master);
  EXPECT_NE(copied.losses.front(), copied.losses.back());
}

TEST(MasterWeights, ForwardReadsTheCopy) {
  const Program p = step(How::copied);
  const auto readers = readers_of(p);
  for (NodeId reader : readers[size_t(p.find_state("master")->start)]) {
    EXPECT_EQ(p.node(reader).phase, Phase::update) << print_node(p, reader);
  }
  EXPECT_EQ(p.value(p.find_state("W")->start).spec.bytes() * 2,
            p.value(p.find_state("master")->start).spec.bytes());
}

TEST(MasterWeights, ACopyThatNobodyWritesIsNoticed) {
  const Trace right = train(How::copied), wrong = train(How::no_assign);
  EXPECT_EQ(wrong.losses[0], right.losses[0]);
  EXPECT_NE(wrong.losses, right.losses);
  EXPECT_NE(wrong.copy, rounded(wrong.master));
}

// Steps below half a unit in the last place of bf16 add up in the master, and are lost without it.
TEST(MasterWeights, SmallStepsAddUpInTheMasterAlone) {
  const float small = 5e-4f;  // bf16 in [0.5, 1): 2^-8 apart
  const Trace with = train(How::copied, small), without = train(How::no_master, small);
  const auto start = rounded(random_floats(kIn * kOut, 1, 0.5f, 1));
  EXPECT_EQ(without.copy, start);
  EXPECT_NE(with.copy, start);
}

// The copy is written after everybody has read it, and that is checked.
TEST(MasterWeights, AnEarlyAssignIsRefused) {
  const Program p = step(How::copied);
  const NodeId writer = find_node(p, "assign");
  std::vector<NodeId> order;
  const NodeId reader = find_node(p, "matmul");
  for (NodeId n = 0; n < p.node_count(); ++n) {
    if (n == reader) order.push_back(writer);
    if (n != writer) order.push_back(n);
  }
  EXPECT_NE(error_of([&] { verify(permuted(p, order)); }).find("[assign]"), std::string::npos);
}

}  // namespace
}  // namespace pal::test
