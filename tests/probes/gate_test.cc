// Probe 7: clipping by norm is a gate, a value that every update reads and that every gradient goes
// into. So no update can come early, and the schedule says so; without the gate they do.
#include "ops/kernels/gate.h"

#include <gtest/gtest.h>

#include "autograd/differentiate.h"
#include "autograd/optimizer.h"
#include "core/error.h"
#include "core/op.h"
#include "core/print.h"
#include "core/verify.h"
#include "memory/schedule/schedule.h"
#include "memory/storages/lifetimes.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/products/matmul.h"
#include "ops/sums/gates.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/state.h"
#include "ops/tensors/transfers.h"
#include "tests/probes/probe.h"
#include "tests/support/eval.h"

namespace pal::test {
namespace {

constexpr int kLayers = 5;
constexpr int64_t kRows = 4, kWidth = 48;  // gradients of weights are the large values

enum class Gating { none, loss_alone, clip_norm };

Program step(Gating kind) {
  Builder b;
  Val scalars = step_scalars(b.input("scalars", scalars_spec(), Space::host));
  Val h = b.input("x", {{kRows, kWidth}});
  Val c = b.input("c", {{kRows, kWidth}});
  std::vector<Val> weights;
  for (int i = 0; i < kLayers; ++i) {
    weights.push_back(b.state("W" + std::to_string(i), {{kWidth, kWidth}}, Role::weight));
    h = tanh(matmul(h, weights.back()));
  }
  Val loss = sum_all(mul(h, c));
  b.output("loss", loss);
  const auto gradients = differentiate(b, loss, weights);
  Val gate;
  {
    Builder::Within phase(b, Phase::backward);
    std::vector<Val> partials;
    if (kind == Gating::clip_norm) {
      for (Val g : gradients) partials.push_back(sum_of_squares(g));
    }
    if (kind != Gating::none) gate = clip_norm_gate(scalars, loss, partials, {.max_norm = 0.5f});
  }
  apply_optimizer(b, {.kind = OptimizerSpec::Kind::sgd}, weights, gradients, scalars, gate);
  Program p = b.take();
  verify(p);
  return p;
}

NodeId last_update(const Program& p) {
  NodeId last = kNone;
  for (NodeId n = 0; n < p.node_count(); ++n) {
    if (p.node(n).op->writes_state) last = n;
  }
  return last;
}
NodeId first_update(const Program& p) {
  NodeId n = 0;
  while (!p.node(n).op->writes_state) ++n;
  return n;
}
NodeId gate_of(const Program& p) {
  NodeId n = 0;
  while (n < p.node_count() && p.node(n).op != &clip_norm_gate_op) ++n;
  return n;
}
// The program with one node moved to just before another.
Program moved(const Program& p, NodeId node, NodeId before) {
  std::vector<NodeId> order;
  for (NodeId n = 0; n < p.node_count(); ++n) {
    if (n == before) order.push_back(node);
    if (n != node) order.push_back(n);
  }
  return permuted(p, order);
}

template <class Machine>
std::vector<std::vector<float>> trained(Machine& machine, void (*run)(Machine&)) {
  machine.set("x", random_floats(kRows * kWidth, 1));
  machine.set("c", random_floats(kRows * kWidth, 2));
  for (int i = 0; i < kLayers; ++i) {
    const auto weight = random_floats(kWidth * kWidth, uint32_t(3 + i), -0.2f, 0.2f);
    machine.set("W" + std::to_string(i), weight);
  }
  run(machine);
  std::vector<std::vector<float>> out;
  for (int i = 0; i < kLayers; ++i) out.push_back(machine.floats("W" + std::to_string(i)));
  return out;
}

std::vector<std::vector<float>> planned_weights(const Program& p) {
  Planned planned(p);
  StepScalars scalars;
  scalars.learning_rate = 0.1f;
  planned.set_scalars("scalars", scalars);
  return trained<Planned>(planned, [](Planned& m) { m.run(); });
}

// Without a plan, and without asking whether the order is allowed.
std::vector<std::vector<float>> unverified_weights(const Program& p) {
  Evaluator eval(p);
  StepScalars scalars;
  scalars.learning_rate = 0.1f;
  eval.set_bytes(eval.find("scalars"), std::as_bytes(std::span(&scalars, 1)));
  return trained<Evaluator>(eval, [](Evaluator& m) { m.run_quietly(); });
}

TEST(Gate, ClippingByNormBlocksEarlyUpdates) {
  const Program p = step(Gating::clip_norm);
  std::string note;
  const Program scheduled = schedule_early_updates(p, &note);
  EXPECT_EQ(note.find("early updates blocked by clip_norm"), 0u) << note;
  EXPECT_GT(first_update(scheduled), gate_of(scheduled)) << print(scheduled);
  EXPECT_EQ(planned_weights(scheduled), planned_weights(p));
}

TEST(Gate, WithoutItUpdatesComeEarlyAndThePeakFalls) {
  for (auto kind : {Gating::none, Gating::loss_alone}) {
    const Program p = step(kind);
    std::string note;
    const Program scheduled = schedule_early_updates(p, &note);
    verify(scheduled);
    EXPECT_NE(note.find(std::to_string(kLayers - 1) + " updates moved"), std::string::npos) << note;
    EXPECT_EQ(note.find("blocked"), std::string::npos) << note;
    EXPECT_LT(first_update(scheduled), first_update(p));
    // Of the five gradients, two at most live at once.
    EXPECT_LE(peak_bytes(scheduled), peak_bytes(p) - (kLayers - 2) * kWidth * kWidth * 4);
    EXPECT_EQ(planned_weights(scheduled), planned_weights(p));
  }
}

TEST(Gate, AnUpdateBeforeTheGateIsRefused) {
  const Program p = step(Gating::clip_norm);
  const Program early = moved(p, first_update(p), gate_of(p));
  EXPECT_NE(error_of([&] { verify(early); }).find("before it is made"), std::string::npos);
}

TEST(Gate, AnUpdateBeforeAReaderOfTheOldWeightIsRefused) {
  const Program p = step(Gating::none);
  // The last layer's update, moved before the product that takes its gradient to the layer below.
  const NodeId update = last_update(p);
  const ValueId weight = p.node(update).in[size_t(written_operand(*p.node(update).op, 0))];
  const NodeId reader = readers_of(p)[size_t(weight)][1];
  ASSERT_EQ(p.node(reader).phase, Phase::backward) << print(p);
  const ValueId gradient = p.node(update).in[1];
  // Its gradient has to be there first, or it would be refused for that.
  const Program late_reader = moved(p, reader, p.value(gradient).producer + 1);
  // The schedule keeps the update behind that reader.
  const Program scheduled = schedule_early_updates(late_reader);
  verify(scheduled);
  EXPECT_EQ(planned_weights(scheduled), planned_weights(p));
  // By hand it goes before it.
  const NodeId new_update = last_update(late_reader);
  const Program early = moved(late_reader, new_update, late_reader.value(gradient).producer + 1);
  const std::string error = error_of([&] { verify(early); });
  EXPECT_NE(error.find("has read the old value"), std::string::npos) << error << print(early);
  EXPECT_EQ(unverified_weights(p), planned_weights(p));
  EXPECT_NE(unverified_weights(early), planned_weights(p));
}

TEST(Gate, AnUpdateBeforeTheLossIsRefused) {
  // An update whose operands are there, but not the loss: one of a weight by a constant input.
  Builder b;
  Val x = b.input("x", {{kWidth}});
  Val w = b.state("w", {{kWidth}}, Role::weight);
  Val y = mul(x, w);
  assign(w, x);
  b.output("loss", sum_all(y));
  const std::string error = error_of([&] { verify(b.program()); });
  EXPECT_NE(error.find("before the loss exists"), std::string::npos) << error;
}

}  // namespace
}  // namespace pal::test
