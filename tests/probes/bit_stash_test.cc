// Probe 4: what a ReLU6 leaves for its gradient is one bit an element. A tiny Binarize (Gist),
// which knows no operator by name: it asks what the backward readers read.
#include <gtest/gtest.h>

#include <algorithm>

#include "autograd/differentiate.h"
#include "core/error.h"
#include "core/op.h"
#include "core/print.h"
#include "core/verify.h"
#include "memory/storages/lifetimes.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/casts.h"
#include "tests/probes/probe.h"

namespace pal::test {
namespace {

constexpr int64_t kRows = 64, kColumns = 100;

// loss = <c, f(x)> with f two ReLU6 and a scaling between them; d loss / dx is the result.
Program step(Val (*activation)(Val)) {
  Builder b;
  Val x = b.state("x", {{kRows, kColumns}}, Role::weight);
  Val c = b.input("c", {{kRows, kColumns}});
  Val y = activation(scale(x, 0.75f));
  Val loss = sum_all(mul(activation(scale(y, 1.5f)), c));
  b.output("loss", loss);
  b.output("dx", differentiate(b, loss, {x})[0]);
  return b.take();
}
Val relu6(Val x) { return clip(x, 0, 6); }

// The predicate that all backward readers of v have in common; kind `values` where there is none.
Reads common_predicate(const Program& p, ValueId v) {
  Reads common = reads_values();
  for (const Node& node : p.nodes) {
    for (size_t k = 0; k < node.in.size(); ++k) {
      if (node.in[k] != v || node.phase != Phase::backward) continue;
      const Reads reads = reads_of(*node.op, int(k), node.attrs);
      if (reads.kind != Reads::Kind::predicate) return reads_values();
      if (common.kind == Reads::Kind::predicate && !(common == reads)) return reads_values();
      common = reads;
    }
  }
  return common;
}

// Every forward value whose backward readers share a predicate gets an encode node, which they
// read. `wrong` asks a different question than they do.
Program binarized(const Program& p, bool wrong = false) {
  Builder b(p);
  std::vector<NodeId> order;
  for (NodeId n = 0; n < p.node_count(); ++n) {
    order.push_back(n);
    if (p.node(n).phase != Phase::forward) continue;
    const ValueId v = p.node(n).out[0];
    const Reads reads = common_predicate(p, v);
    if (reads.kind != Reads::Kind::predicate) continue;
    Builder::Within phase(b, p.node(n), Phase::encode);
    order.push_back(b.program().node_count());
    const Val bits = to_bits({&b, v}, reads.lo, wrong ? reads.hi / 2 : reads.hi);
    for (Node& node : b.program().nodes) {
      if (node.phase == Phase::backward) std::replace(node.in.begin(), node.in.end(), v, bits.id);
    }
  }
  return permuted(b.program(), order);
}

// Values on both sides of both ends, and the ends themselves.
std::vector<float> numbers() {
  auto x = random_floats(kRows * kColumns, 1, -4, 12);
  x[0] = 0, x[1] = 8, x[2] = -0.0f, x[3] = 1e-30f;
  return x;
}

std::vector<std::byte> gradient(const Program& program) {
  Planned planned(program);
  planned.set("x", numbers());
  planned.set("c", random_floats(kRows * kColumns, 2));
  planned.run();
  return planned.bytes("dx");
}

TEST(BitStash, SameBitsOfGradientFromOneBitAnElement) {
  const Program plain = step(relu6), encoded = binarized(plain);
  verify(encoded);
  EXPECT_EQ(count_nodes(encoded, "to_bits"), 2) << print(encoded);
  EXPECT_EQ(gradient(encoded), gradient(plain));
}

TEST(BitStash, StashIs32TimesSmaller) {
  const Program plain = step(relu6), encoded = binarized(plain);
  const Storages storages = assign_storages(encoded);
  const auto readers = readers_of(encoded);
  for (const Node& node : encoded.nodes) {
    if (node.phase != Phase::encode) continue;
    const int64_t whole = encoded.value(node.in[0]).spec.bytes();
    EXPECT_EQ(storages[storages.of[size_t(node.out[0])]].bytes * 32, whole);
    EXPECT_EQ(encoded.value(node.out[0]).role, Role::encoded);
    // And the whole one is gone before the backward phase begins.
    for (NodeId reader : readers[size_t(node.in[0])]) {
      EXPECT_NE(encoded.node(reader).phase, Phase::backward);
    }
  }
  const int64_t whole = kRows * kColumns * 4;
  EXPECT_LT(peak_bytes(encoded), peak_bytes(plain) - whole / 2);
}

TEST(BitStash, TheWrongPredicateIsNoticed) {
  const Program plain = step(relu6), wrong = binarized(plain, true);
  EXPECT_NO_THROW(verify(wrong));  // it is a program, but not the same function
  EXPECT_NE(gradient(wrong), gradient(plain));
}

// A gradient that needs values is left alone, and refuses bits.
TEST(BitStash, ReadersOfValuesKeepValues) {
  const Program smooth = step([](Val x) { return tanh(x); });
  EXPECT_EQ(print(binarized(smooth)), print(smooth));
  Program forced = binarized(step(relu6));
  Node& reader = forced.node(find_node(forced, "pass_inside"));
  reader.op = &tanh_grad_op, reader.attrs = {};
  EXPECT_NE(error_of([&] { verify(forced); }).find("[tanh_grad]"), std::string::npos);
}

}  // namespace
}  // namespace pal::test
