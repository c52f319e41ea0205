// The small graphs in Echo's paper (Zheng et al. 2020, figures 6 to 8 and 11 to 14), recorded with
// the translator's own operators: what is run again (*), and which forward values are stashed.
#include <gtest/gtest.h>

#include "autograd/differentiate.h"
#include "core/print.h"
#include "core/verify.h"
#include "memory/recompute/clones.h"
#include "memory/recompute/mirror_sqrt.h"
#include "memory/recompute/recompute.h"
#include "memory/storages/lifetimes.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "tests/memory/bits.h"

namespace pal::test {
namespace {

constexpr int64_t kN = 256;  // (kN, kN) products are compute-heavy

struct Figure {
  Builder b;
  std::vector<Val> wrt;

  Val weight(const std::string& name, Shape shape) {
    wrt.push_back(b.state(name, {shape}, Role::weight));
    return wrt.back();
  }
  // A fully connected layer of something.
  Val product(const std::string& name) {
    return matmul(b.input("x" + name, {{kN, kN}}), weight("w" + name, {kN, kN}));
  }
  // The step: the loss weighs y; after that comes something large, as a vocabulary's scores would
  // be, so that the peak lies where all stashes are alive.
  Program step(const std::vector<Val>& y) {
    Val loss;
    for (Val v : y) {
      Val part = sum_all(mul(v, b.input("c" + std::to_string(v.id), v.spec())));
      loss = loss ? add(loss, part) : part;
    }
    return finish(add(loss, sum_all(scale(b.input("scores", {{64, kN, kN}}), 1))));
  }
  Program finish(Val loss) {
    b.output("loss", loss);
    const std::vector<Val> d = differentiate(b, loss, wrt);
    for (size_t i = 0; i < d.size(); ++i) b.output("d" + std::to_string(i), d[i]);
    return b.take();
  }
};

// The nodes that are run again, in order.
std::string again(const Program& p) {
  std::string out;
  for (const Node& node : p.nodes) {
    if (node.phase == Phase::recompute)
      out += (out.empty() ? "" : " ") + std::string(node.op->name);
  }
  return out;
}

// Bytes of feature maps: what forward nodes make and later ones read.
int64_t stashed(const Program& p) {
  int64_t bytes = 0;
  const auto readers = readers_of(p);
  for (size_t v = 0; v < p.values.size(); ++v) {
    const NodeId producer = p.values[v].producer;
    if (producer == kNone || p.node(producer).phase != Phase::forward) continue;
    for (NodeId r : readers[v]) {
      if (p.node(r).phase == Phase::forward) continue;
      bytes += p.values[v].spec.bytes();
      break;
    }
  }
  return bytes;
}

struct Echoed {
  Program before, after;
  std::string note;

  // As the paper has it: what is heavy is never run again, whatever time is left.
  explicit Echoed(Program step, RecomputeOptions options = {.heavier = 0, .overhead = 1e9})
      : before(std::move(step)) {
    auto footprint = [](const Program& p) { return peak_bytes(p); };
    after = recompute(before, Recompute::echo, footprint, &note, options);
    verify(after);
    EXPECT_LE(peak_bytes(after), peak_bytes(before));
    EXPECT_EQ(difference_of(before, bits_of(before), bits_of(after)), "");
  }
  int64_t released() const { return stashed(before) - stashed(after); }
};

TEST(EchoFigure, F6_AChainIsKeptAtItsBeginning) {
  Figure f;
  Val y = f.product("");
  for (int i = 0; i < 4; ++i) y = tanh(y);
  const Echoed e(f.step({y}));
  // The gradients read all four; with the first stashed the others can be made again.
  EXPECT_EQ(again(e.after), "tanh tanh tanh");
  EXPECT_EQ(e.released(), 3 * kN * kN * 4);
}

// Not the paper's: where time is left and it is worth it, the products that chains begin with are
// made again as well.
TEST(EchoFigure, WhereTimeIsLeftHeavierNodesAreRunAgain) {
  const auto chains = [](int count, int64_t ballast = 0) {
    Figure f;
    if (ballast) f.b.input("ballast", {{ballast}});
    const TensorSpec rows{{32 * kN, kN}};  // 62 flops for each byte of a product
    Val x = f.b.input("x", rows), c = f.b.input("c", rows), loss;
    for (int i = 0; i < count; ++i) {
      Val y = tanh(tanh(matmul(x, f.weight("w" + std::to_string(i), {kN, kN}))));
      Val part = sum_all(mul(y, c));
      loss = loss ? add(loss, part) : part;
    }
    return f.finish(loss);
  };
  const auto products = [](const std::string& nodes) {
    int count = 0;
    for (size_t at = 0; (at = nodes.find("matmul", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  const auto run_again = [&](const Program& step, const RecomputeOptions& options) {
    return products(again(Echoed(step, options).after));
  };
  const Program step = chains(6);
  EXPECT_EQ(run_again(step, {.heavier = 0, .overhead = 0.5}), 0);
  EXPECT_EQ(run_again(step, {.heavier = 40, .overhead = 0.5}), 0);
  EXPECT_GT(run_again(step, {.overhead = 0.5}), 3);
  EXPECT_EQ(run_again(step, {.overhead = 0.01}), 0) << "no time";
  EXPECT_EQ(run_again(chains(1), {.overhead = 0.5}), 0) << "no lower at its peak";
  // A per cent of the step's time must save one of its footprint, whatever that is made of.
  const std::string nodes =
      again(recompute(chains(6, int64_t{1} << 30), Recompute::echo,
                      [](const Program& p) { return peak_bytes(p); }, nullptr, {.overhead = 0.5}));
  EXPECT_EQ(products(nodes), 0);
  EXPECT_NE(nodes, "") << "light nodes save what they may";
}

TEST(EchoFigure, F7_11_12_TwoOperandsForOneResultAreNotWorthIt) {
  Figure f;
  Val z = tanh(add(f.product("0"), f.product("1")));
  const Echoed e(f.step({z}));
  EXPECT_EQ(e.note, "nothing to recompute");
  EXPECT_EQ(print(e.after), print(e.before));
  // While recomputing all that is cheap would stash two values for one (figure 7b).
  const StepView view(e.before);
  const Program mirrored = insert_clones(view, choose_mirror(view), 1 << 20).program;
  EXPECT_EQ(again(mirrored), "add tanh");
  EXPECT_EQ(stashed(mirrored) - stashed(e.before), kN * kN * 4);
}

TEST(EchoFigure, F8_13_AnOperandSharedByManyIsStashedForAll) {
  constexpr int kT = 4;
  auto scores = [](int count) {
    Figure f;
    Val keys = matmul(f.b.input("x", {{kT, kN, kN}}), f.weight("w", {kN, kN}));  // (T, N, N)
    std::vector<Val> y;
    for (int t = 0; t < count; ++t) {
      y.push_back(tanh(add_broadcast(keys, f.product(std::to_string(t)))));
    }
    return f.step(y);
  };
  const Echoed e(scores(kT));
  EXPECT_EQ(again(e.after),
            "add_broadcast tanh add_broadcast tanh add_broadcast tanh "
            "add_broadcast tanh");
  // T results of T rows each, for the shared operand's T rows and T rows of the others.
  EXPECT_EQ(e.released(), (kT * kT - 2 * kT) * kN * kN * 4);
  // One alone is made of more than itself.
  EXPECT_EQ(again(Echoed(scores(1)).after), "");
}

TEST(EchoFigure, F14_AHeavyLayersOperandIsReleasedAndTheLayerIsNotRunAgain) {
  Figure f;
  Val scaled = tanh(mul(f.b.input("x", {{kN, kN}}), f.weight("s", {kN, kN})));
  Val z = matmul(scaled, f.weight("w", {kN, kN}));  // its gradient reads `scaled`, not z
  const Echoed e(f.step({z}));
  EXPECT_EQ(again(e.after), "mul tanh");
  EXPECT_EQ(e.released(), kN * kN * 4);
}

TEST(EchoFigure, F14_AHeavyLayersResultIsStashedWhereAGradientNeedsIt) {
  Figure f;
  Val z = f.product("0");
  const Echoed e(f.step({mul(z, z)}));
  EXPECT_EQ(again(e.after), "");
}

}  // namespace
}  // namespace pal::test
