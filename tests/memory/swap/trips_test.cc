// Units, their gaps, and the step with the copies of some trips, on steps small enough to be read.
#include "memory/swap/trips.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/builder.h"
#include "core/verify.h"
#include "memory/passes/assign_queues.h"
#include "memory/storages/lifetimes.h"
#include "memory/swap/swap.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/views.h"
#include "tests/memory/running.h"
#include "tests/memory/toy_card.h"

namespace pal::test {
namespace {

constexpr int64_t kEdge = 64;

// y and a view of it are read at the beginning and at the end; four nodes in between know nothing
// of them.
//   0 tanh y   1 reshape v   2 mul a = v v   3 to 6 tanh of a   7 sum_all   8 mul v v   9 sum_all
//   10 mul y y   11 sum_all
Program idle() {
  Builder b;
  Val x = b.input("x", {{kEdge, kEdge}});
  Val y = tanh(x), v = reshape(y, {kEdge * kEdge});
  Val a = mul(v, v);
  for (int i = 0; i < 4; ++i) a = tanh(a);
  b.output("early", sum_all(a));
  Val last = mul(v, v);
  b.output("last", sum_all(last));
  Val whole = mul(y, y);
  b.output("whole", sum_all(whole));
  return b.take();
}

std::string nodes_of(const Program& p) {
  std::string out;
  for (const Node& node : p.nodes) {
    out += (out.empty() ? "" : " ") + std::string(node.op->name);
    for (NodeId w : node.waits) out += "<" + std::to_string(w);
  }
  return out;
}

const SwapUnit& unit_of(const std::vector<SwapUnit>& units, const Program& p, ValueId value) {
  for (const SwapUnit& unit : units) {
    if (std::count(unit.copied.begin(), unit.copied.end(), value)) return unit;
  }
  ADD_FAILURE() << "no unit of " << name_of(p, value);
  return units.front();
}

TEST(SwapTrips, AUnitHasTheGapsOfItsViewsToo) {
  const Program p = idle();
  const std::vector<SwapUnit> units = swap_units(p, 1);
  const SwapUnit& y = unit_of(units, p, p.node(0).out[0]);
  EXPECT_EQ(y.copied.size(), 1u) << "a view is made again, not copied";
  EXPECT_EQ(y.made, 0);
  ASSERT_EQ(y.gaps.size(), 2u);  // and one around a sum
  EXPECT_EQ(y.gaps[0].after, 2);
  EXPECT_EQ(y.gaps[0].before, 8);
  for (const SwapUnit& unit : units) {
    for (ValueId v : unit.copied) EXPECT_NE(v, p.outputs[0].value);
  }
  EXPECT_TRUE(swap_units(p, kEdge * kEdge * 4 + 64).empty());
  EXPECT_EQ(swap_units(p, kEdge * kEdge * 4).size(), swap_units(p, 5).size());
}

// Two halves of one storage, made far apart: it is idle in between, but half of it is not there
// yet.
TEST(SwapTrips, NothingLeavesBeforeAllOfItIsMade) {
  Builder b;
  Val x = b.input("x", {{kEdge, kEdge}});
  Val y = tanh(x), a = x;
  for (int i = 0; i < 3; ++i) a = tanh(a);
  Val z = tanh(x);
  for (int i = 0; i < 3; ++i) a = tanh(a);
  Val both = stack({y, z});
  for (int i = 0; i < 3; ++i) a = tanh(a);
  b.output("early", sum_all(a));
  b.output("late", sum_all(tanh(both)));
  const Program p = b.take();
  const std::vector<SwapUnit> units = swap_units(p, 1);
  const SwapUnit& unit = unit_of(units, p, p.node(8).out[0]);
  EXPECT_EQ(unit.made, 8) << "the gathering";
  EXPECT_EQ(unit.touches.front(), 0);
  ASSERT_EQ(unit.gaps.size(), 1u);
  EXPECT_EQ(unit.gaps[0].after, 8);
}

TEST(SwapTrips, ViewsAreMadeAgainOverWhatCameBack) {
  const Program p = idle();
  const std::vector<SwapUnit> units = swap_units(p, 1);
  const size_t y = size_t(&unit_of(units, p, p.node(0).out[0]) - units.data());
  const Program out = with_trips(p, units, {{y, 3, 6}});
  EXPECT_EQ(nodes_of(out),
            "tanh reshape mul tanh copy_out tanh tanh copy_in tanh sum_all reshape mul sum_all mul "
            "sum_all");
  verify(out);
  EXPECT_EQ(reference(out, 2), reference(p, 2));
  const Program queued = assign_queues(out).value();
  EXPECT_EQ(reference(queued, 2), reference(p, 2));
  // Away where it is not needed, and the name that is read afterwards is the copy's.
  EXPECT_EQ(out.node(11).in[0], out.node(10).out[0]);
  EXPECT_EQ(out.node(13).in[0], out.node(7).out[0]);
}

// Of a unit with two gaps: one copy out, two back.
TEST(SwapTrips, ASecondTripCopiesOutNothing) {
  Builder b;
  Val x = b.input("x", {{kEdge, kEdge}});
  Val y = tanh(x), a = mul(y, y);
  for (int i = 0; i < 3; ++i) a = tanh(a);
  a = mul(a, y);
  for (int i = 0; i < 3; ++i) a = tanh(a);
  b.output("loss", sum_all(mul(a, y)));
  const Program p = b.take();
  const std::vector<SwapUnit> units = swap_units(p, 1);
  const SwapUnit& unit = unit_of(units, p, p.node(0).out[0]);
  ASSERT_EQ(unit.gaps.size(), 2u);
  const size_t u = size_t(&unit - units.data());
  const Program out = with_trips(
      p, units,
      {{u, unit.gaps[0].after, unit.gaps[0].before}, {u, unit.gaps[1].after, unit.gaps[1].before}});
  EXPECT_EQ(nodes_of(out),
            "tanh mul copy_out tanh tanh tanh copy_in mul tanh tanh tanh copy_in mul sum_all");
  verify(out);
  EXPECT_EQ(reference(assign_queues(out).value(), 2), reference(p, 2));
}

// What left first is read last, as the backward phase has it.
TEST(SwapTrips, OfWhatComesBackAtOnceTheFirstToBeReadIsFirst) {
  Builder b;
  Val x = b.input("x", {{kEdge, kEdge}});
  const Val early = tanh(x), late = tanh(early);
  Val a = mul(late, late);
  for (int i = 0; i < 4; ++i) a = tanh(a);
  b.output("loss", sum_all(mul(mul(a, late), early)));
  const Program p = b.take();
  const std::vector<SwapUnit> units = swap_units(p, 1);
  std::vector<Trip> trips;
  for (const Val& val : {early, late}) {
    const SwapUnit& unit = unit_of(units, p, val.id);
    const Gap& gap = unit.gaps.back();
    trips.push_back({size_t(&unit - units.data()), gap.after, 6});
  }
  const Program out = with_trips(p, units, trips);
  verify(out);
  std::vector<ValueId> back, read;
  for (const Node& node : out.nodes) {
    if (node.phase == Phase::reload) back.push_back(node.out[0]);
    for (ValueId v : node.in) {
      if (std::count(back.begin(), back.end(), v)) read.push_back(v);
    }
  }
  EXPECT_EQ(back.size(), 2u);
  EXPECT_EQ(back, read);
  EXPECT_EQ(reference(assign_queues(out).value(), 2), reference(p, 2));
}

TEST(SwapTrips, ACopyDoesNotBeginBeforeItMay) {
  const Program p = idle();
  const std::vector<SwapUnit> units = swap_units(p, 1);
  const size_t y = size_t(&unit_of(units, p, p.node(0).out[0]) - units.data());
  const auto copy_of = [&](NodeId not_before) {
    const Program queued = assign_queues(with_trips(p, units, {{y, 4, 7, not_before}})).value();
    for (NodeId n : queued.nodes.ids()) {
      if (queued.node(n).phase == Phase::offload) return std::pair(n, queued.node(n).waits);
    }
    return std::pair(NodeId(kNone), std::vector<NodeId>());
  };
  EXPECT_EQ(copy_of(kNone), std::pair(NodeId(1), std::vector<NodeId>{0})) << "behind its maker";
  EXPECT_EQ(copy_of(4), std::pair(NodeId(4), std::vector<NodeId>{3})) << "behind what it waits for";
}

// What is read whole and in pieces is copied in pieces, each with what a copy costs beyond its
// bytes.
TEST(SwapTrips, AUnitsCopiesTakeWhatTheyTakeInTheStep) {
  Builder b;
  Val x = b.input("x", {{kEdge, kEdge}});
  std::vector<Val> pieces{tanh(x)};
  for (int i = 0; i < 7; ++i) pieces.push_back(tanh(pieces.back()));
  Val all = stack(pieces), a = tanh(all);
  for (int i = 0; i < 3; ++i) a = tanh(a);
  b.output("early", sum_all(a));
  for (size_t i = 0; i < pieces.size(); ++i) {
    b.output("piece" + std::to_string(i), sum_all(mul(pieces[i], pieces[i])));
  }
  const Program p = b.take();
  DeviceProfile card = toy_card(1e8);
  card.launch = 1e-4;
  const std::vector<SwapUnit> units = swap_units(p, 1);
  size_t most = 0;
  for (size_t u = 0; u < units.size(); ++u) {
    const Gap gap = units[u].gaps.front();
    const Program out = with_trips(p, units, {{u, gap.after, gap.before}});
    const Prediction times = predict(out, card);
    double away = 0;
    for (NodeId n : out.nodes.ids()) {
      if (out.node(n).phase == Phase::offload) away += times.node_ms[n];
    }
    EXPECT_DOUBLE_EQ(copy_ms(p, units[u], card), away) << u;
    most = std::max(most, units[u].copied.size());
  }
  EXPECT_GE(most, pieces.size());
}

// naive: nothing overlaps, so the step takes what its nodes take, one after the other.
// vDNN's rule: every map that waits for its gradient leaves behind its last reader of the forward
// pass, and comes while the gradient before that which needs it runs.
TEST(SwapTrips, VdnnSendsEveryMapThatWaits) {
  Builder b;
  std::vector<Val> y{tanh(b.input("x", {{1 << 12}}))};
  while (y.size() < 6) y.push_back(tanh(y.back()));
  Val g = mul(y[5], y[5]);
  for (size_t i = 5; i-- > 0;) g = mul(g, y[i]);
  b.output("loss", sum_all(g));
  Program p = b.take();
  for (NodeId n = 6; n < p.node_count(); ++n) p.node(n).phase = Phase::backward;
  for (ValueId v = 1; v <= 6; ++v) p.value(v).role = Role::feature_map;
  const std::vector<SwapUnit> units = swap_units(p, 1);
  const std::vector<Trip> trips = vdnn_trips(p, units, VdnnInputs::all);
  std::vector<ValueId> sent;
  for (const Trip& trip : trips) {
    const SwapUnit& unit = units[trip.unit];
    ASSERT_EQ(unit.copied.size(), 1u);
    const ValueId v = unit.copied[0];
    sent.push_back(v);
    NodeId last = kNone, first = kNone;  // readers in the forward pass, and after it
    for (const NodeId n : unit.touches) {
      if (n < 6) last = n;
      if (n >= 6 && first == kNone) first = n;
    }
    EXPECT_EQ(trip.leave, last) << v;
    EXPECT_GT(trip.come, trip.leave) << v;
    EXPECT_LE(trip.come, first) << v;
    EXPECT_GE(trip.come, std::max(NodeId(6), NodeId(first - 1))) << v;
  }
  EXPECT_GE(sent.size(), 5u);
  std::sort(sent.begin(), sent.end());
  EXPECT_EQ(std::unique(sent.begin(), sent.end()), sent.end());
  // No heavy operator reads any of them.
  EXPECT_TRUE(vdnn_trips(p, units, VdnnInputs::conv).empty());
}

TEST(SwapTrips, NaiveCopiesRunAlone) {
  Program p = idle();
  for (NodeId n = 8; n < p.node_count(); ++n) p.node(n).phase = Phase::backward;
  const DeviceProfile card{
      .name = "card", .f32 = 1e12, .vector = 1e12, .memory = 1e11, .link = 1e10, .tile = 1};
  const ByNode<int64_t> workspace(p.nodes.size(), 0);
  const auto out = swapped(p, {.method = Swap::naive}, {.device = card, .workspace = workspace});
  ASSERT_TRUE(out);
  const Program queued = assign_queues(*out).value();
  const Storages storages = assign_storages(queued);
  const Prediction times = predict(queued, card, &storages);
  double all = 0;
  for (const double ms : times.node_ms) all += ms;
  EXPECT_NEAR(times.step_ms, all, 1e-9 * all);
  EXPECT_GT(times.of(Phase::reload), 0);
}

}  // namespace
}  // namespace pal::test
