// Recomputation: which values Echo chooses on small graphs after the paper's figures, where clones
// go, and that no method ever changes a bit or raises the peak.
#include "memory/recompute.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "core/order.h"
#include "core/print.h"
#include "core/verify.h"
#include "memory/echo.h"
#include "memory/echo_cut.h"
#include "memory/echo_trials.h"
#include "ops/activations.h"
#include "tests/memory/running.h"

namespace pal::test {
namespace {

// Does so many flops for every byte.
template <int kFlopsAByte>
const OpDef& toy_with_cost(const char* name) {
  static const OpDef op = [name] {
    OpDef toy = toy_reverse;
    toy.name = name;
    toy.cost = [](SpecSpan in, SpecSpan, const Attrs&) {
      const double bytes = 8.0 * double(in[0].numel());
      return Cost{kFlopsAByte * bytes, bytes};
    };
    return toy;
  }();
  return op;
}
Val heavy(Val x) { return x.builder->emit1(toy_with_cost<1250>("heavy"), {x}); }
// As a 1x1 convolution of few channels is.
Val light_product(Val x) { return x.builder->emit1(toy_with_cost<20>("light_product"), {x}); }

std::string ops_of(const Program& p) {
  std::string out;
  for (const Node& node : p.nodes) {
    out += (out.empty() ? "" : " ") + std::string(node.phase == Phase::recompute ? "*" : "") +
           node.op->name;
  }
  return out;
}

// Without the limit on bytes moved, which toys are too small for.
RecomputeOptions small() { return {.exchange = 1e9, .overhead = 1e9}; }

int64_t footprint(const Program& p) { return peak_bytes(p); }

Program echo(const Program& p, std::string* note = nullptr) {
  return recompute(p, Recompute::echo, footprint, note, small());
}

// Ends the forward phase with something as large as all the rest, as a vocabulary's scores are, so
// that the peak lies where the stashes are all alive.
Val summit(Builder& b, int64_t size, Val x) {
  Val big = heavy(b.input("big", {Shape{size}}));
  Val loss = add(sum(big), sum(x));
  b.output("loss", loss);
  return loss;
}

TEST(Echo, EqualInputsAndOutputsAreNotWorthIt) {  // figures 11 and 12
  Builder b;
  Val p = heavy(b.input("x0", {Shape{64}})), q = heavy(b.input("x1", {Shape{64}}));
  Val y = affine(add(p, q));
  summit(b, 256, y);
  Builder::Within backward(b, Phase::backward);
  b.output("dy", reverse(y));  // as tanh's gradient reads tanh
  std::string note;
  const Program out = echo(b.program(), &note);
  EXPECT_EQ(note, "nothing to recompute");
  EXPECT_EQ(print(out), print(b.program()));
}

// T sums of one shared operand with T others, which gradients read one by one, last first.
Program shared(int count, bool small_queries) {
  Builder b;
  Val keys = heavy(b.input("x0", {Shape{64}}));
  std::vector<Val> y;
  Val total = sum(keys);
  for (int t = 0; t < count; ++t) {
    if (small_queries) {
      Val q = heavy(b.input("q" + std::to_string(t), {Shape{16}}));
      y.push_back(add(keys, join({affine(q), affine(q), affine(q), affine(q)})));
    } else {
      y.push_back(affine(keys, float(t)));
    }
    total = add(total, sum(y.back()));
  }
  Val d = summit(b, 1024, total);
  Builder::Within backward(b, Phase::backward);
  for (size_t t = y.size(); t-- > 0;) d = add(d, sum(reverse(y[t])));
  b.output("d", d);
  return b.take();
}

TEST(Echo, ASharedOperandIsCountedOnce) {  // figures 8 and 13
  const Program p = shared(4, false);
  const Program out = echo(p);
  EXPECT_EQ(ops_of(out), "heavy sum affine sum add affine sum add affine sum add affine sum add "
                         "heavy sum sum add "
                         "*affine reverse sum add *affine reverse sum add *affine reverse sum add "
                         "*affine reverse sum add");
  EXPECT_LT(peak_bytes(out), peak_bytes(p));
  EXPECT_EQ(reference(out, 1), reference(p, 1));
  // One alone: its operand is as large as itself.
  EXPECT_EQ(ops_of(echo(shared(1, false))), ops_of(shared(1, false)));
}

TEST(Echo, AnOperandBroadcastToManyIsStashedInTheirPlace) {  // figure 6, the attention's score
  const Program p = shared(4, true);
  const Program out = echo(p);
  const std::string piece = " *affine *affine *affine *affine *join *add reverse sum add";
  EXPECT_NE(ops_of(out).find(piece + piece + piece + piece), std::string::npos) << ops_of(out);
  EXPECT_EQ(reference(out, 1), reference(p, 1));
}

TEST(Echo, AHeavyNodeWhoseGradientNeedsItsInputIsDead) {  // figure 14d
  Builder b;
  Val y = affine(b.input("x0", {Shape{64}}));
  Val z = heavy(y);
  summit(b, 256, z);
  Builder::Within backward(b, Phase::backward);
  b.output("dw", reverse(y));
  EXPECT_EQ(ops_of(echo(b.program())), "affine heavy heavy sum sum add *affine reverse");
}

TEST(Echo, HeavyNodesAreStashedNotRunAgain) {
  Builder b;
  Val y = heavy(affine(b.input("x0", {Shape{64}})));
  summit(b, 256, y);
  Builder::Within backward(b, Phase::backward);
  b.output("dy", reverse(y));
  EXPECT_EQ(ops_of(echo(b.program())), ops_of(b.program()));
}

// y is read now, and again after `between` other nodes.
Program read_twice(int between, bool from_input) {
  Builder b;
  Val x = b.input("x0", {Shape{64}});
  Val y = affine(from_input ? x : add(x, heavy(x)));
  Val loss = summit(b, 256, y);
  Builder::Within backward(b, Phase::backward);
  Val d = sum(reverse(y));
  for (int i = 0; i < between; ++i) d = add(d, loss);
  b.output("d", add(d, sum(reverse(y))));
  return b.take();
}

TEST(Echo, ReadersThatAreNearShareAClone) {
  auto clones = [](const Program& p, NodeId near) {
    const StepView view(p);
    return insert_clones(view, choose_echo(view, {.near = near, .exchange = 1e9}), near).count;
  };
  EXPECT_EQ(clones(read_twice(10, true), 64), 1);
  EXPECT_EQ(clones(read_twice(100, true), 64), 2) << "made of an input: again for each";
  EXPECT_EQ(clones(read_twice(100, false), 64), 0) << "made of a stash: kept";
}

// u and v are made of y, which nothing else reads, one soon and one after `near` nodes and more; y
// could be made of something smaller.
TEST(Echo, WhatClonesFarApartReadIsKept) {
  Builder b;
  Val h = heavy(b.input("x0", {Shape{16}}));
  Val y = join({affine(h), affine(h), affine(h), affine(h)});
  Val u = affine(y), v = affine(y);
  Val loss = summit(b, 256, add(u, v));
  {
    Builder::Within backward(b, Phase::backward);
    Val d = sum(reverse(u));
    for (int i = 0; i < 100; ++i) d = add(d, loss);
    b.output("d", add(d, sum(reverse(v))));
  }
  const StepView view(b.program());
  auto clones = [&](NodeId near) {
    return insert_clones(view, choose_echo(view, {.near = near, .exchange = 1e9}), near).count;
  };
  EXPECT_EQ(clones(64), 2) << "u and v, of the y that is there";
  EXPECT_EQ(clones(1000), 7) << "and y with its parts";
}

// A bit an element is less than what y could be made of; without bits, y is made again.
TEST(Echo, CountsOnBitsWhereTheyAreAllowed) {
  Builder b;
  Val h = heavy(b.input("x0", {Shape{16}})), dy = b.input("dy", {Shape{64}});
  Val y = relu(join({affine(h), affine(h), affine(h), affine(h)}));
  summit(b, 256, y);
  {
    Builder::Within backward(b, Phase::backward);
    b.output("dx", pass_inside(dy, y, 0, std::numeric_limits<float>::infinity()));
  }
  const StepView view(b.program());
  auto clones = [&](bool bits) {
    return insert_clones(view, choose_echo(view, {.exchange = 1e9, .bits = bits}), 64).count;
  };
  EXPECT_EQ(clones(false), 6);
  EXPECT_EQ(clones(true), 0);
}

// 512 bytes moved and 20 flops for each, against the 256 bytes that are saved, at four moved for one.
TEST(Echo, ArithmeticCostsWhatCouldBeMovedMeanwhile) {
  Builder b;
  Val y = light_product(b.input("x0", {Shape{64}}));
  summit(b, 256, y);
  {
    Builder::Within backward(b, Phase::backward);
    b.output("dy", reverse(y));
  }
  const StepView view(b.program());
  auto clones = [&](double flops_a_byte) {
    const EchoTrial trial{.exchange = 4, .balance = flops_a_byte};
    return insert_clones(view, choose_echo(view, trial), 64).count;
  };
  EXPECT_EQ(clones(std::numeric_limits<double>::infinity()), 1);
  EXPECT_EQ(clones(1), 0);
}

TEST(Echo, AChainIsCutIntoPieces) {
  Builder b;
  std::vector<Val> c{heavy(b.input("x0", {Shape{64}}))};
  Val f = b.state("f", {Shape{64}}, Role::weight);
  for (int t = 0; t < 12; ++t) c.push_back(add(c.back(), f));
  summit(b, 2048, c.back());
  Builder::Within backward(b, Phase::backward);
  Val d = sum(c.back());
  for (size_t t = c.size(); t-- > 0;) d = add(d, sum(reverse(c[t])));
  b.output("d", d);
  const Program p = b.take();
  const StepView view(p);
  const Clones cut = insert_clones(view, choose_echo(view, {.near = 9, .exchange = 1e9}), 9);
  const Clones whole = insert_clones(view, choose_mirror(view), 1 << 20);
  EXPECT_EQ(whole.count, 12);
  EXPECT_GT(cut.count, 5);
  EXPECT_LT(cut.count, 12);
  EXPECT_LT(peak_bytes(cut.program), peak_bytes(p));
  EXPECT_EQ(reference(cut.program, 1), reference(p, 1));
}

// Large nodes are worth the time at a price at which small ones are not, which are then run again as
// far as the time allows.
TEST(Echo, SpendsTheTimeThatItMay) {
  constexpr int64_t kSmall = 1 << 18, kLarge = 1 << 20;
  Builder b;
  std::vector<Val> y;
  for (int64_t size : {kLarge, kSmall}) {
    const std::string name = std::to_string(size);
    const Val f = b.state("f" + name, {Shape{size}}, Role::weight);
    const Val x = b.input("x" + name, {Shape{size}});
    for (int i = 0; i < 20; ++i) y.push_back(add(x, f));
  }
  summit(b, 20 * kLarge, y[0]);
  Builder::Within backward(b, Phase::backward);
  Val d = sum(y[0]);
  for (Val v : y) d = add(d, sum(reverse(v)));
  b.output("d", d);
  const Program p = b.take();

  const double plain = predict(p, kEchoDevice).step_ms;
  auto overhead = [&](const Program& q) { return predict(q, kEchoDevice).step_ms / plain - 1; };
  auto within = [&](double exchange, double limit) {
    return recompute(p, Recompute::echo, footprint, nullptr,
                     {.exchange = exchange, .overhead = limit});
  };
  const Program all = within(8, 1e9);
  const StepView view(p);
  const Program large =
      insert_clones(view, choose_echo(view, {.exchange = 4, .launch_bytes = kEchoLaunch}), 64)
          .program;
  const double least = overhead(large), most = overhead(all);
  ASSERT_GT(least, 0);
  ASSERT_GT(most, least);
  ASSERT_LT(peak_bytes(all), peak_bytes(large));
  for (const double part : {0.2, 0.5, 0.8}) {
    const double limit = least + part * (most - least);
    const Program q = within(8, limit);
    EXPECT_LE(overhead(q), limit);
    EXPECT_GT(overhead(q), limit - 0.1 * (most - least));
    EXPECT_LT(peak_bytes(q), peak_bytes(large));
  }
}

TEST(Echo, WhatIsAliveAnywayIsReadAgain) {
  Builder b;
  Val x = heavy(b.input("x0", {Shape{64}}));
  Val y = affine(x), z = affine(y), both = join({y, z});
  Val top = heavy(both);
  summit(b, 512, top);
  Builder::Within backward(b, Phase::backward);
  b.output("dboth", reverse(both));
  b.output("dy", reverse(y));
  // x alone costs 64, both 128: y, z and the join are made again from x, the view y with them.
  EXPECT_EQ(ops_of(echo(b.program())), "heavy affine affine join heavy heavy sum sum add "
                                       "*affine *affine *join reverse reverse");
  // But where the join must be kept, its parts are.
  const StepView view(b.program());
  Choice choice(b.program().values.size(), 0);
  choice[size_t(y.id)] = 1;
  EXPECT_EQ(insert_clones(view, choice, 64).count, 0);
}

TEST(Recompute, NothingReadsStateThatWasWritten) {
  Builder b;
  Val w = b.state("w0", {Shape{64}}, Role::weight);
  Val x = b.input("x0", {Shape{64}});
  Val y = add(x, w);
  summit(b, 256, y);
  Builder::Within backward(b, Phase::backward);
  Val g = reverse(x);
  update(w, g);
  b.output("dy", reverse(y));  // after the update: a clone of y would see the new w
  for (Recompute m : {Recompute::mirror, Recompute::sqrt, Recompute::echo}) {
    const Program out = recompute(b.program(), m, footprint);
    EXPECT_EQ(ops_of(out), ops_of(b.program())) << to_string(m);
  }
}

TEST(Recompute, MirrorRunsAllThatIsCheap) {
  Builder b;
  Val p = heavy(b.input("x0", {Shape{64}}));
  Val y = affine(affine(p));
  summit(b, 256, y);
  Builder::Within backward(b, Phase::backward);
  b.output("dy", reverse(y));
  const StepView view(b.program());
  EXPECT_EQ(ops_of(insert_clones(view, choose_mirror(view), 1 << 20).program),
            "heavy affine affine heavy sum sum add *affine *affine reverse");
  std::string note;
  const Program out = recompute(b.program(), Recompute::mirror,
                                footprint, &note);
  EXPECT_EQ(note.find("undone: with 2 nodes recomputed"), 0u) << note;
  EXPECT_EQ(print(out), print(b.program()));
}

TEST(Recompute, EchoRunsLightProductsAgainAndMirrorDoesNot) {
  Builder b;
  Val y = light_product(b.input("x0", {Shape{64}}));
  summit(b, 256, y);
  Builder::Within backward(b, Phase::backward);
  b.output("dy", reverse(y));
  const Program p = b.take();
  EXPECT_EQ(print(recompute(p, Recompute::mirror, footprint)), print(p));
  EXPECT_NE(ops_of(echo(p)).find("*light_product"), std::string::npos) << ops_of(echo(p));
}

TEST(Recompute, SqrtKeepsWhatCrossesSegments) {
  Builder b;
  Val x = b.input("x0", {Shape{64}});
  std::vector<Val> y{affine(x)};
  for (int i = 1; i < 15; ++i) y.push_back(affine(y.back()));
  b.output("loss", sum(y.back()));  // 16 forward nodes: four segments of four
  Builder::Within backward(b, Phase::backward);
  Val d = sum(y.back());
  for (size_t i = y.size(); i-- > 0;) d = add(d, sum(reverse(y[i])));
  b.output("d", d);
  const Program p = b.take();
  const StepView view(p);
  const Choice choice = choose_sqrt(view);
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(choice[size_t(y[i].id)], i % 4 != 3) << i;
  const Clones out = insert_clones(view, choice, 1 << 20);
  EXPECT_EQ(out.count, 12);
  EXPECT_LT(peak_bytes(out.program), peak_bytes(p));
  EXPECT_EQ(reference(out.program, 1), reference(p, 1));
}

// The second half of a random program as its backward pass.
Program random_step(uint64_t seed, bool two_queues) {
  Program p = random_program(seed, {.nodes = 60, .states = 3, .two_queues = two_queues});
  for (NodeId n = p.node_count() / 2; n < p.node_count(); ++n) {
    if (p.node(n).phase == Phase::forward) p.node(n).phase = Phase::backward;
  }
  for (Node& node : p.nodes) {
    if (node.op->writes_state) node.phase = Phase::update;
  }
  return p;
}

TEST(Recompute, RandomProgramsKeepTheirBitsAndTheirPeak) {
  int changed = 0, undone = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Program p = random_step(seed, seed % 10 == 0);
    const Results expected = reference(p, 2);
    for (Recompute m : {Recompute::mirror, Recompute::sqrt, Recompute::echo}) {
      std::string note;
      // 0.1: some of the toys are heavy.
      const Program out = recompute(p, m, footprint, &note,
                                    {.heavy = seed % 2 ? 12 : 0.1, .exchange = 1e9, .overhead = 1e9});
      ASSERT_NO_THROW(verify(out)) << "seed " << seed << " " << to_string(m);
      ASSERT_LE(peak_bytes(out), peak_bytes(p)) << "seed " << seed << " " << to_string(m);
      ASSERT_EQ(reference(out, 2), expected) << "seed " << seed << " " << to_string(m);
      changed += out.nodes.size() > p.nodes.size(), undone += note.find("undone") == 0;
    }
    const StepView view(p);  // and whatever is chosen
    std::mt19937_64 random(seed);
    Choice any(p.values.size());
    for (char& c : any) c = char(random() % 2);
    if (queue_count(p) > 1) continue;
    const Program out = insert_clones(view, any, NodeId(random() % 20)).program;
    ASSERT_NO_THROW(verify(out)) << "seed " << seed;
    ASSERT_EQ(reference(out, 2), expected) << "seed " << seed;
  }
  EXPECT_GT(changed, 30);
  EXPECT_GT(undone, 30);
}

TEST(Recompute, CompiledStepsGiveTheSameBits) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Program p = random_step(seed, false);
    const Results expected = reference(p, 2);
    for (int bits = 0; bits < 12; ++bits) {
      KernelCache cache{Device{}};
      const StateLayout layout(p);
      CompileOptions options{.inplace = bool(bits & 1), .recompute = Recompute(1 + bits / 4),
                             .schedule = Schedule(bits >> 1 & 1)};
      Compiled c = compile(p, cache, layout, options);
      const PassReport& first = c.passes[c.passes[0].name == "delay" ? 1 : 0];
      EXPECT_EQ(first.name, to_string(options.recompute));
      if (options.schedule == Schedule::program) {  // else judged by what scheduling leaves of it
        EXPECT_LE(first.after_bytes, first.before_bytes);
      }
      Ready r(c.program);
      r.storages = c.storages;
      Arena arena(c.plan);
      StaticPlan memory(r.storages, c.plan, arena);
      ASSERT_EQ(run_with(r, memory, 2), expected) << "seed " << seed << " options " << bits;
    }
  }
}

TEST(MinCut, AsTryingEverySide) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const int inner = 1 + int(random() % 7), n = inner + 2;
    std::vector<std::array<int64_t, 3>> edges;
    for (int e = 0; e < 3 * n; ++e) {
      const int from = int(random() % size_t(n)), to = int(random() % size_t(n));
      if (from != to) edges.push_back({from, to, int64_t(random() % 10)});
    }
    auto cost = [&](auto side) {
      int64_t sum = 0;
      for (auto [from, to, capacity] : edges) {
        if (side(int(from)) && !side(int(to))) sum += capacity;
      }
      return sum;
    };
    int64_t least = MinCut::kInfinite;
    for (int mask = 0; mask < 1 << inner; ++mask) {
      least = std::min(least, cost([&](int v) {
        return v == MinCut::kSource || (v != MinCut::kSink && (mask >> (v - 2) & 1));
      }));
    }
    MinCut cut;
    cut.add_vertices(inner);
    for (auto [from, to, capacity] : edges) cut.add_edge(int(from), int(to), capacity);
    const std::vector<char> side = cut.source_side();
    ASSERT_FALSE(side[MinCut::kSink]);
    ASSERT_EQ(cost([&](int v) { return bool(side[size_t(v)]); }), least) << "seed " << seed;
  }
}

}  // namespace
}  // namespace pal::test
