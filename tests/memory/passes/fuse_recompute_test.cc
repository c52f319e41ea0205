// fuse_recompute: which patterns are found in toy programs and which are not, and that the fused
// forms of the real operators give the bits of the nodes that they stand for.
#include "memory/passes/fuse_recompute.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "autograd/differentiate.h"
#include "core/print.h"
#include "core/scalars.h"
#include "core/verify.h"
#include "memory/recompute/clones.h"
#include "memory/recompute/mirror_sqrt.h"
#include "memory/recompute/recompute.h"
#include "ops/attention/attention_score.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/elementwise/dropout.h"
#include "ops/products/matmul.h"
#include "ops/recurrent/gru.h"
#include "ops/recurrent/lstm.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/fill.h"
#include "ops/tensors/views.h"
#include "tests/memory/bits.h"
#include "tests/support/random_program.h"

namespace pal::test {
namespace {

// A toy that stands for reverse(affine(x)) with the affine run again, and for reverse(x +
// affine(x)).
std::vector<FusedPattern> toy_patterns(SpecSpan in, const Attrs&) {
  std::vector<FusedPattern> out;
  for (const bool sum : {true, false}) {
    Builder b;
    Val x = b.input("x", in[0]);
    b.set_phase(Phase::recompute);
    Val y = affine(x, 3);
    b.set_phase(Phase::backward);
    Val d = reverse(sum ? test::plus(x, y) : y);
    FusedPattern pattern{.in = {x.id}, .out = {d.id}, .attrs = ToyAttrs{sum ? 1.0f : 0.0f}};
    pattern.program = b.take();
    out.push_back(std::move(pattern));
  }
  return out;
}
const OpDef& toy_fused() {
  static const OpDef op{.name = "fused",
                        .formula = "reverse(3 x + 1), or of its mean with x",
                        .infer = [](SpecSpan in, const Attrs&) -> Specs { return {in[0]}; },
                        .cpu = {.run = [](const KernelArgs& a) {
                          const float* x = a.input(0);
                          const int64_t n = a.in_spec[0].numel();
                          const bool sum = a.attrs.as<ToyAttrs>().k != 0;
                          for (int64_t i = 0; i < n; ++i) {
                            const float y = 3 * x[n - 1 - i] + 1;
                            a.output(0)[i] =
                                sum ? 0.5f * (x[n - 1 - i] + y) : y;  // as the toy adds
                          }
                        }}};
  return op;
}

Program fuse(const Program& p, std::string* note = nullptr) {
  static const Rewrite rewrite{
      .op = &toy_fused(), .anchor = &toy_reverse, .patterns = toy_patterns};
  static const std::array<const Rewrite*, 1> rewrites{&rewrite};
  const Program out = fuse_recompute(p, note, rewrites);
  verify(out);
  EXPECT_EQ(difference_of(p, bits_of(p), bits_of(out)), "");
  return out;
}

struct Toy {
  Builder b;
  Val x = b.input("x0", {Shape{16}});
  Val again(float k = 3) {
    Builder::Within phase(b, Phase::recompute);
    return affine(x, k);
  }
  Val back(Val y) {
    Builder::Within phase(b, Phase::backward);
    return reverse(y);
  }
  Val plus(Val a, Val c) {
    Builder::Within phase(b, Phase::backward);
    return test::plus(a, c);
  }
};

TEST(FuseRecompute, AChainWithOneReaderBecomesANode) {
  Toy t;
  t.b.output("d", t.back(t.again()));
  std::string note;
  EXPECT_EQ(ops_in(fuse(t.b.program(), &note)), "fused");
  EXPECT_EQ(note.find("2 nodes became 1"), 0u) << note;
}

// reverse(the first row of x), where the second row is not read.
Program first_row_reversed(const TensorSpec& spec, bool second_is_read) {
  Builder b;
  Val x = b.input("x", spec);
  b.set_phase(Phase::recompute);
  const std::vector<Val> rows = unbind(x);
  b.set_phase(Phase::backward);
  b.output("d", reverse(rows[0]));
  if (second_is_read) b.output("second", rows[1]);
  Program p = b.take();
  if (!second_is_read) p.node(0).out[1] = kNone;
  p.relink();
  return p;
}

TEST(FuseRecompute, AnOutputThatAPatternDoesNotReadIsReadByNobody) {
  static const TensorSpec two_rows{{2, 16}};
  const Rewrite rewrite{
      .op = &toy_fused(), .anchor = &toy_reverse, .patterns = [](SpecSpan, const Attrs&) {
        FusedPattern out{.attrs = ToyAttrs{}};
        out.program = first_row_reversed(two_rows, false);
        out.in = {out.program.input("x")}, out.out = {out.program.output("d")};
        return std::vector<FusedPattern>{out};
      }};
  const std::array<const Rewrite*, 1> rewrites{&rewrite};
  auto ops_after = [&](bool second_is_read) {
    return ops_in(fuse_recompute(first_row_reversed(two_rows, second_is_read), nullptr, rewrites));
  };
  EXPECT_EQ(ops_after(false), "fused");
  EXPECT_EQ(ops_after(true), "*unbind reverse");
}

TEST(FuseRecompute, TheLargerPatternIsTaken) {
  Toy t;
  Val y = t.again();
  t.b.output("d", t.back(t.plus(t.x, y)));
  EXPECT_EQ(ops_in(fuse(t.b.program())), "fused");
}

TEST(FuseRecompute, OperandsStandInOrder) {  // y + x is not x + y, as far as a pattern says
  Toy t;
  Val y = t.again();
  t.b.output("d", t.back(t.plus(y, t.x)));
  EXPECT_EQ(ops_in(fuse(t.b.program())), "*affine add reverse");
}

TEST(FuseRecompute, OnlyWhatWasRecomputed) {
  Toy t;
  t.b.output("d", t.back(affine(t.x, 3)));
  std::string note;
  EXPECT_EQ(ops_in(fuse(t.b.program(), &note)), "affine reverse");
  EXPECT_EQ(note, "nothing to fuse");
}

TEST(FuseRecompute, OnlyWithTheseAttributes) {
  Toy t;
  t.b.output("d", t.back(t.again(2)));
  EXPECT_EQ(ops_in(fuse(t.b.program())), "*affine reverse");
}

TEST(FuseRecompute, AGradientThatSomebodyElseReadsIsNotFused) {
  Toy t;
  Val s = t.plus(t.x, t.again());
  t.b.output("d", t.back(s));
  EXPECT_EQ(ops_in(fuse(t.b.program())), "fused");
  t.b.output("e", t.plus(s, s));
  EXPECT_EQ(ops_in(fuse(t.b.program())), "*affine add reverse add");
}

TEST(FuseRecompute, AGradientThatTheCallerReadsIsNotFused) {
  Toy t;
  Val s = t.plus(t.x, t.again());
  t.b.output("d", t.back(s)), t.b.output("s", s);
  EXPECT_EQ(ops_in(fuse(t.b.program())), "*affine add reverse");
}

TEST(FuseRecompute, ACloneThatSomebodyElseReadsStays) {
  Toy t;
  Val y = t.again();
  t.b.output("d", t.back(y));
  t.b.output("e", t.plus(t.x, y));
  EXPECT_EQ(ops_in(fuse(t.b.program())), "*affine fused add");
}

TEST(FuseRecompute, ACloneThatTheCallerReadsStays) {
  Toy t;
  Val y = t.again();
  t.b.output("d", t.back(y));
  t.b.output("y", y);
  EXPECT_EQ(ops_in(fuse(t.b.program())), "*affine fused");
}

TEST(FuseRecompute, ReadersMayShareAClone) {
  Toy t;
  Val y = t.again();
  t.b.output("d", t.back(y));
  t.b.output("e", t.back(t.plus(t.x, y)));
  EXPECT_EQ(ops_in(fuse(t.b.program())), "fused fused");
  t.b.output("f", t.plus(y, y));
  EXPECT_EQ(ops_in(fuse(t.b.program())), "*affine fused fused add");
}

TEST(FuseRecompute, NotAcrossAnUpdate) {  // x might be what it wrote over
  for (const bool between : {true, false}) {
    Toy t;
    Val w = t.b.state("w0", {Shape{16}}, Role::weight);
    Val y = t.again();
    if (between) update(w, t.x);
    t.b.output("d", t.back(y));
    if (!between) update(w, t.x);
    EXPECT_EQ(count_of(fuse(t.b.program()), "fused"), between ? 0 : 1);
  }
}

TEST(Rewrites, NameListedOperators) {
  const std::set<const OpDef*> listed(all_ops().begin(), all_ops().end());
  for (const Rewrite* rewrite : all_rewrites()) {
    ASSERT_TRUE(rewrite->op && rewrite->anchor && rewrite->patterns);
    EXPECT_TRUE(listed.count(rewrite->op)) << rewrite->op->name;
    EXPECT_TRUE(listed.count(rewrite->anchor)) << rewrite->op->name;
    if (rewrite->when == Rewrite::When::split) {
      EXPECT_EQ(rewrite->op, rewrite->anchor);
    }
  }
  EXPECT_GE(all_rewrites().size(), 13u);
}

// All that is cheap run again, and fused; the bits of the step as it was. The op's nodes are
// counted.
int fused_nodes(const Program& step, const std::string& op, bool sigmoid_cheap = true) {
  verify(step);
  const Bits expected = bits_of(step);
  const StepView view(step, {.heavy = sigmoid_cheap ? 1e9 : 12});
  const Program again = insert_clones(view, choose_mirror(view), 1 << 20).program;
  EXPECT_EQ(difference_of(step, expected, bits_of(again)), "");
  const Program out = fuse_recompute(again);
  verify(out);
  EXPECT_EQ(difference_of(step, expected, bits_of(out)), "") << print(out);
  EXPECT_LT(out.nodes.size(), again.nodes.size());
  return count_of(out, op);
}

// `count` queries over keys of S steps, each scored; gradients of everything.
Program scores(int64_t S, int64_t B, int64_t A, int count) {
  Builder b;
  Val keys = b.state("keys", {{S, B, A}}, Role::weight), v = b.state("v", {{A}}, Role::weight);
  std::vector<Val> wrt{keys, v};
  Val loss;
  for (int t = 0; t < count; ++t) {
    wrt.push_back(b.state("q" + std::to_string(t), {{B, A}}, Role::weight));
    Val c = b.input("c" + std::to_string(t), {{S, B}});
    Val part = sum_all(mul(mlp_score_unfused(keys, wrt.back(), v), c));
    loss = loss ? pal::add(loss, part) : part;
  }
  b.output("loss", loss);
  const std::vector<Val> d = differentiate(b, loss, wrt);
  for (size_t i = 0; i < d.size(); ++i) b.output("d" + std::to_string(i), d[i]);
  return b.take();
}

TEST(FuseRecompute, AttentionScore) {
  EXPECT_EQ(fused_nodes(scores(3, 2, 5, 3), "mlp_score_replay_grad"), 3);
  EXPECT_EQ(fused_nodes(scores(7, 19, 140, 2), "mlp_score_replay_grad"), 2);
  EXPECT_EQ(fused_nodes(scores(kSumRows + 30, 2, 9, 2), "mlp_score_replay_grad"), 2);
  EXPECT_EQ(fused_nodes(scores(3 * kSumRows, 1, 3, 1), "mlp_score_replay_grad"), 1);
}

// An unrolled layer; with lengths, as the encoder's, states are held past a sequence's end.
Program layer(int64_t T, int64_t B, int64_t H, bool lengths) {
  Builder b;
  Val w = b.state("w", {{H, 4 * H}}, Role::weight), x = b.state("x", {{T, B, 4 * H}}, Role::weight);
  Val ended = lengths ? b.input("lengths", {{B}, DType::i32}) : Val{};
  LstmState s{fill(b, {{B, H}}, 0), fill(b, {{B, H}}, 0)};
  std::vector<Val> gates = unbind(x), h;
  for (int64_t t = 0; t < T; ++t) {
    Val g = matmul(s.h, w, false, false, gates[size_t(t)]);
    s = lengths ? lstm_cell_unfused(g, s, ended, t) : lstm_cell_unfused(g, s.c);
    h.push_back(s.h);
  }
  Val c = b.input("c", {{T, B, H}});
  Val loss = sum_all(mul(stack(h), c));
  b.output("loss", loss);
  const std::vector<Val> d = differentiate(b, loss, {w, x});
  b.output("dw", d[0]), b.output("dx", d[1]);
  return b.take();
}

TEST(FuseRecompute, LstmCell) {
  for (const bool lengths : {false, true}) {
    EXPECT_EQ(fused_nodes(layer(4, 3, 5, lengths), "lstm_cell_replay_grad", false), 4) << lengths;
    EXPECT_EQ(fused_nodes(layer(3, 2, 530, lengths), "lstm_cell_replay_grad", false), 3) << lengths;
  }
}

TEST(FuseRecompute, LstmCellWhoseNewStateIsKept) {
  const Program step = layer(4, 3, 5, false);
  const StepView view(step);
  Choice choice = choose_mirror(view);
  const auto readers = readers_of(step);
  for (NodeId n = 0; n < step.node_count(); ++n) {  // c: what the forward tanh of a sum reads
    const Node& node = step.node(n);
    if (node.phase == Phase::forward && std::string(node.op->name) == "add") {
      choice[size_t(node.out[0])] = 0;
    }
  }
  const Program again = insert_clones(view, choice, 1 << 20).program;
  const Program out = fuse_recompute(again);
  EXPECT_EQ(count_of(out, "lstm_cell_replay_grad"), 4) << print(again);
  EXPECT_EQ(difference_of(step, bits_of(step), bits_of(out)), "");
}

// The same of a GRU; the state's product has a bias, as the model's.
Program gru_layer(int64_t T, int64_t B, int64_t H, bool lengths) {
  Builder b;
  Val w = b.state("w", {{H, 3 * H}}, Role::weight), x = b.state("x", {{T, B, 3 * H}}, Role::weight);
  Val bias = b.state("bias", {{3 * H}}, Role::weight);
  Val ended = lengths ? b.input("lengths", {{B}, DType::i32}) : Val{};
  Val s = fill(b, {{B, H}}, 0);
  std::vector<Val> gates = unbind(x), h;
  for (int64_t t = 0; t < T; ++t) {
    Val y = linear(s, w, bias);
    s = lengths ? gru_cell_unfused(gates[size_t(t)], y, s, ended, t)
                : gru_cell_unfused(gates[size_t(t)], y, s);
    h.push_back(s);
  }
  Val loss = sum_all(mul(stack(h), b.input("c", {{T, B, H}})));
  b.output("loss", loss);
  const std::vector<Val> d = differentiate(b, loss, {w, x, bias});
  for (size_t i = 0; i < d.size(); ++i) b.output("d" + std::to_string(i), d[i]);
  return b.take();
}

TEST(FuseRecompute, GruCell) {
  for (const bool lengths : {false, true}) {
    EXPECT_EQ(fused_nodes(gru_layer(4, 3, 5, lengths), "gru_cell_replay_grad"), 4) << lengths;
    EXPECT_EQ(fused_nodes(gru_layer(3, 2, 530, lengths), "gru_cell_replay_grad"), 3) << lengths;
  }
}

TEST(FuseRecompute, GruCellWhoseActivationsAreKept) {
  for (const bool lengths : {false, true}) {
    const Program step = gru_layer(4, 3, 5, lengths);
    const StepView view(step);
    Choice choice(step.values.size(), 0);
    for (const Node& node : step.nodes) {  // all that is run again is h' - n
      if (node.phase == Phase::forward && node.op == &sub_op) choice[size_t(node.out[0])] = 1;
    }
    const Program again = insert_clones(view, choice, 1 << 20).program;
    EXPECT_EQ(count_of(again, "sub"), 8);
    const Program out = fuse_recompute(again);
    EXPECT_EQ(count_of(out, "gru_cell_replay_grad"), 4) << print(again);
    EXPECT_EQ(count_of(out, "sub"), 4) << print(out);
    EXPECT_EQ(difference_of(step, bits_of(step), bits_of(out)), "");
  }
}

TEST(FuseRecompute, DropoutMasksNeedNotExist) {
  Builder b;
  Val scalars = b.input("scalars", scalars_spec());
  Val x = b.state("x", {{9, 70}}, Role::weight), c = b.input("c", {{9, 70}});
  Val y = dropout_apply(x, dropout_mask(scalars, x.spec(), 0.4f), 0.4f);
  Val z = tanh(dropout_apply(tanh(y), dropout_mask(scalars, x.spec(), 0.2f), 0.2f));
  Val loss = sum_all(mul(z, c));
  b.output("loss", loss);
  b.output("dx", differentiate(b, loss, {x})[0]);
  const Program step = b.take();
  // Forward and backward draw for themselves, whether the masks were recomputed or kept.
  for (const bool again : {true, false}) {
    const StepView view(step);
    Choice choice(step.values.size(), 0);
    if (again) choice = choose_mirror(view);
    const Program clones = insert_clones(view, choice, 1 << 20).program;
    const Program out = fuse_recompute(clones);
    verify(out);
    EXPECT_EQ(count_of(out, "dropout_mask"), 0) << print(out);
    EXPECT_GE(count_of(out, "dropout"), 4) << print(out);
    EXPECT_EQ(difference_of(step, bits_of(step), bits_of(out)), "");
  }
}

}  // namespace
}  // namespace pal::test
