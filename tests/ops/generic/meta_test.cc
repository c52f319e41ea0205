// Proof that the checks of kernels can fail: operators broken in one way each, which the check that
// is meant for it must report; and a sound one, in which no check finds anything.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/kernels/rows.h"
#include "tests/ops/generic/toys.h"

namespace pal::test {
namespace {

// All checks but gradient and listing, whose toys are not in all_ops().
Problems all_checks(const Case& c) {
  Problems out;
  for (auto check : {check_writes, check_shares, check_windows, check_predicates, check_shape_only,
                     check_threads, +[](const Case& one) { return check_alignment(one); },
                     check_unread, check_rounding, check_infer, check_update, check_facts}) {
    for (auto& p : check(c)) out.push_back(p);
  }
  for (auto& p : check_purity({c})) out.push_back(p);
  return out;
}

TEST(GenericMeta, FindsNothingWrongWithASoundOperator) {
  const OpDef op = sound();
  EXPECT_EQ(all_checks(case_of(op)), Problems{});
}

TEST(GenericMeta, RowsThatAreNotAsItSays) {
  OpDef op = sound();
  const auto check = [&](Rows (*rows)(const Attrs&)) {
    op.rows = rows;
    return check_rows(case_of(op));
  };
  EXPECT_EQ(check(rows_of_each), Problems{});
  EXPECT_EQ(check_rows_exercised({case_of(op)}), Problems{});
  op.cpu.run = [](const KernelArgs& a) {  // the last row first
    const int64_t row = a.in_spec[0].shape.back(), n = count(a);
    for (int64_t i = 0; i < n; ++i) a.output(0)[n - row - i / row * row + i % row] = a.input(0)[i];
  };
  EXPECT_TRUE(mentions(check(rows_of_each), "output 0 differs by rows, in 5 parts"));
  EXPECT_EQ(check(nullptr), Problems{});
  op.cpu.run = [](const KernelArgs& a) {  // by place in the whole
    for (int64_t i = 0; i < count(a); ++i) a.output(0)[i] = float(i);
  };
  EXPECT_TRUE(mentions(check(rows_of_each), "differs by rows"));
  op.cpu.run = [](const KernelArgs& a) {  // not a number, where there are few rows
    for (int64_t i = 0; i < count(a); ++i) a.output(0)[i] = count(a) < 45 ? NAN : a.input(0)[i];
  };
  EXPECT_TRUE(mentions(check(rows_of_each), "differs by rows"));
  op.infer = [](SpecSpan in, const Attrs&) {
    require(in[0].shape[0] == 5, "five rows");
    return Specs{in[0]};
  };
  EXPECT_TRUE(mentions(check_rows_exercised({case_of(op)}), "no example is run by rows"));
}

TEST(GenericMeta, SumsOverRowsThatForgetTheSumSoFar) {
  OpDef op = sound();
  op.infer = [](SpecSpan in, const Attrs&) { return Specs{{{in[0].shape[1]}}}; };
  op.shares = {}, op.optional_from = 1;
  op.examples = {{.operands = {{.spec = {{5, 9}}}, {.spec = {{9}}, .absent = true}}}};
  op.rows = [](const Attrs&) -> Rows { return {.operands = 1, .sum = 1}; };
  op.cpu.run = [](const KernelArgs& a) {
    const int64_t width = a.in_spec[0].shape[1];
    for (int64_t c = 0; c < width; ++c) {
      float sum = a.input(1) ? a.input(1)[c] : 0;
      for (int64_t i = c; i < count(a); i += width) sum += a.input(0)[i];
      a.output(0)[c] = sum;
    }
  };
  EXPECT_EQ(check_rows(case_of(op)), Problems{});
  op.cpu.run = [](const KernelArgs& a) {
    const int64_t width = a.in_spec[0].shape[1];
    for (int64_t c = 0; c < width; ++c) {
      a.output(0)[c] = 0;
      for (int64_t i = c; i < count(a); i += width) a.output(0)[c] += a.input(0)[i];
    }
  };
  EXPECT_TRUE(mentions(check_rows(case_of(op)), "output 0 differs by rows"));
}

TEST(GenericMeta, UnwrittenTail) {
  const OpDef op = with_kernel([](const KernelArgs& a) {
    for (int64_t i = 0; i < count(a) / 8 * 8; ++i) a.output(0)[i] = a.input(0)[i];
  });
  EXPECT_TRUE(mentions(check_writes(case_of(op)), "other bytes were there before"));
}

TEST(GenericMeta, ReadsItsOutputBeforeWritingIt) {
  const OpDef op = with_kernel([](const KernelArgs& a) {
    for (int64_t i = 0; i < count(a); ++i) a.output(0)[i] += a.input(0)[i];
  });
  EXPECT_FALSE(check_writes(case_of(op)).empty());
}

TEST(GenericMeta, WritesPastTheEndAndBeforeTheBeginning) {
  // Rounded up to whole vectors: what lies past the operand is copied past the output.
  const OpDef past = with_kernel([](const KernelArgs& a) {
    std::memcpy(a.out[0], a.in[0], size_t((count(a) + 7) / 8 * 8) * 4);
  });
  EXPECT_TRUE(mentions(check_writes(case_of(past)), "past its end"));
  const OpDef before = with_kernel([](const KernelArgs& a) {
    std::memcpy(a.out[0], a.in[0], size_t(count(a)) * 4);
    a.output<char>(0)[-1] = 1;
  });
  EXPECT_TRUE(mentions(check_writes(case_of(before)), "before its beginning"));
}

TEST(GenericMeta, WritesPastItsWorkspace) {
  OpDef op = with_kernel([](const KernelArgs& a) {
    std::memcpy(a.out[0], a.in[0], size_t(count(a)) * 4);
    a.workspace[40] = std::byte{1};
  });
  op.cpu.prepare = [](const Device&, SpecSpan, SpecSpan, const Attrs&) {
    return Prepared{.workspace = 40};
  };
  EXPECT_TRUE(mentions(check_writes(case_of(op)), "workspace"));
}

TEST(GenericMeta, ModifiesItsOperand) {
  const OpDef op = with_kernel([](const KernelArgs& a) {
    std::memcpy(a.out[0], a.in[0], size_t(count(a)) * 4);
    static_cast<float*>(a.in[0])[7] = 0;
  });
  EXPECT_TRUE(mentions(check_writes(case_of(op)), "of operand 0 was modified"));
}

TEST(GenericMeta, IllegalShare) {
  const OpDef op = with_kernel([](const KernelArgs& a) {  // reversal
    const int64_t n = count(a);
    for (int64_t i = 0; i < n; ++i) a.output(0)[i] = a.input(0)[n - 1 - i];
  });
  EXPECT_TRUE(check_writes(case_of(op)).empty());
  EXPECT_TRUE(mentions(check_shares(case_of(op)), "output 0 on operand 0"));
}

TEST(GenericMeta, ShareThatNoExampleMeets) {
  OpDef op = sound();
  EXPECT_TRUE(check_shares_exercised({case_of(op)}).empty());
  op.shares = {{0, 0}, {0, 1}};
  EXPECT_TRUE(mentions(check_shares_exercised({case_of(op)}), "output 0 on operand 1"));
}

TEST(GenericMeta, WrongWindow) {
  OpDef op = sound();
  op.examples = {{.operands = {{.spec = {{4, 6}}}}}};
  op.infer = [](SpecSpan in, const Attrs&) { return Specs{{in[0].shape.without(0)}}; };
  op.cpu.run = [](const KernelArgs& a) {  // row 1, which a window at row 2 must not be taken for
    if (a.out[0] == a.input(0) + 12) return;
    std::memcpy(a.out[0], a.input(0) + 6, 24);
  };
  op.windows = [](SpecSpan, SpecSpan, const Attrs&) {
    return std::vector<Window>{{Window::Of::operand, 0, 0, 48}};
  };
  EXPECT_FALSE(check_windows(case_of(op)).empty());
  op.cpu.run = [](const KernelArgs& a) { std::memmove(a.out[0], a.input(0) + 12, 24); };
  EXPECT_TRUE(check_windows(case_of(op)).empty());
  op.windows = [](SpecSpan, SpecSpan, const Attrs&) {  // beyond the operand
    return std::vector<Window>{{Window::Of::operand, 0, 0, 80}};
  };
  EXPECT_TRUE(mentions(check_windows(case_of(op)), "does not fit"));
}

TEST(GenericMeta, PartsThatDoSomethingElse) {
  const OpDef op = sound();  // x^2 = relu(x^2) = x x
  Rewrite split{.op = &op, .anchor = &op, .when = Rewrite::When::split};
  auto problems = [&] {
    const Rewrite* const rewrites[] = {&split};
    return check_parts(case_of(op), rewrites);
  };
  split.patterns = [](SpecSpan in, const Attrs&) {
    Builder b;
    const Val x = b.input("x", in[0]), y = relu(mul(x, x));
    return std::vector<FusedPattern>{{.program = b.take(), .in = {x.id}, .out = {y.id}}};
  };
  EXPECT_EQ(problems(), Problems{});
  split.patterns = [](SpecSpan in, const Attrs&) {
    Builder b;
    const Val x = b.input("x", in[0]), y = mul(relu(x), x);
    return std::vector<FusedPattern>{{.program = b.take(), .in = {x.id}, .out = {y.id}}};
  };
  EXPECT_TRUE(mentions(problems(), "in parts"));
  split.patterns = [](SpecSpan in, const Attrs&) {
    Builder b;
    const Val x = b.input("x", in[0]), y = mul(x, x);
    return std::vector<FusedPattern>{{.program = b.take(), .in = {x.id}, .out = {y.id}}};
  };
  EXPECT_TRUE(mentions(problems(), "one node"));
}

TEST(GenericMeta, PredicateThatIsALie) {
  OpDef op = sound();
  op.infer = [](SpecSpan in, const Attrs&) { return Specs{{in[0].shape}}; };
  op.reads = [](int, const Attrs&) { return reads_predicate(0); };
  op.cpu.run = [](const KernelArgs& a) {
    std::vector<float> x = decode(
        a.in_spec[0], {static_cast<const std::byte*>(a.in[0]), size_t(a.in_spec[0].bytes())});
    std::copy(x.begin(), x.end(), a.output(0));
  };
  EXPECT_TRUE(mentions(check_predicates(case_of(op)), "as bits"));
  op.cpu.run = [](const KernelArgs& a) {
    std::vector<float> x = decode(
        a.in_spec[0], {static_cast<const std::byte*>(a.in[0]), size_t(a.in_spec[0].bytes())});
    for (size_t i = 0; i < x.size(); ++i) a.output(0)[i] = x[i] > 0 ? 1.0f : 0.0f;
  };
  EXPECT_EQ(check_predicates(case_of(op)), Problems{});
  op.infer = sound().infer;  // refuses bits
  EXPECT_TRUE(mentions(check_predicates(case_of(op)), "refused"));
}

TEST(GenericMeta, ShapeOnlyThatIsALie) {
  OpDef op = sound();
  op.reads = [](int, const Attrs&) { return reads_shape(); };
  EXPECT_FALSE(check_shape_only(case_of(op)).empty());
}

TEST(GenericMeta, SumThatDependsOnThreads) {
  OpDef op = sound();
  op.infer = [](SpecSpan, const Attrs&) { return Specs{{Shape{1}}}; };
  op.shares = {};
  op.examples = {{.operands = {{.spec = {{5, 199}}}}}};
  op.cpu.run = [](const KernelArgs& a) {
    const int64_t n = count(a), part = (n + a.queue.workers - 1) / a.queue.workers;
    float total = 0;
    for (int64_t begin = 0; begin < n; begin += part) {
      float sum = 0;
      for (int64_t i = begin; i < std::min(n, begin + part); ++i) sum += a.input(0)[i];
      total += sum;
    }
    *a.output(0) = total;
  };
  EXPECT_TRUE(mentions(check_threads(case_of(op)), "threads"));
}

TEST(GenericMeta, SumThatDependsOnAlignment) {
  OpDef op = sound();
  op.infer = [](SpecSpan, const Attrs&) { return Specs{{Shape{1}}}; };
  op.shares = {};
  op.cpu.run = [](const KernelArgs& a) {  // peels to a boundary, then eight sums side by side
    const auto address = std::bit_cast<uintptr_t>(a.in[0]);
    const int64_t peel = int64_t((32 - address % 32) % 32 / 4);
    float lanes[8] = {}, total = 0;
    for (int64_t i = 0; i < count(a); ++i)
      (i < peel ? total : lanes[(i - peel) % 8]) += a.input(0)[i];
    for (float lane : lanes) total += lane;
    *a.output(0) = total;
  };
  EXPECT_TRUE(check_threads(case_of(op)).empty());
  EXPECT_TRUE(mentions(check_alignment(case_of(op)), "past a boundary"));
}

TEST(GenericMeta, SumThatIsRoundedOnTheWay) {
  OpDef op = sound();
  op.infer = [](SpecSpan in, const Attrs&) { return Specs{{Shape{1}, in[0].dtype}}; };
  op.shares = {};
  op.examples = {{.operands = {{.spec = {{1999}, DType::bf16}, .lo = 0}}}};
  op.cpu.run = [](const KernelArgs& a) {
    float sum = 0;
    for (int64_t i = 0; i < count(a); ++i) sum += load_one(a.in[0], a.in_spec[0].dtype, i);
    store_one(a.out[0], a.out_spec[0].dtype, 0, sum);
  };
  EXPECT_EQ(check_rounding(case_of(op)), Problems{});
  op.cpu.run = [](const KernelArgs& a) {
    const DType type = a.out_spec[0].dtype;
    store_one(a.out[0], type, 0, 0);
    for (int64_t i = 0; i < count(a); ++i) {
      store_one(a.out[0], type, 0, load_one(a.out[0], type, 0) + load_one(a.in[0], type, i));
    }
  };
  EXPECT_TRUE(mentions(check_rounding(case_of(op)), "rounded from f32"));
}

TEST(GenericMeta, KernelThatRemembers) {
  OpDef op = sound();
  op.cpu.prepare = [](const Device&, SpecSpan, SpecSpan, const Attrs&) {
    return Prepared{.state = std::make_shared<float>(0.0f)};
  };
  op.cpu.run = [](const KernelArgs& a) {
    float& calls = *static_cast<float*>(a.state);
    calls += 1;
    for (int64_t i = 0; i < count(a); ++i) a.output(0)[i] = calls;
  };
  EXPECT_TRUE(mentions(check_purity({case_of(op)}), "when example 0 runs twice"));
}

TEST(GenericMeta, KernelThatOthersChange) {
  OpDef op = sound();
  const auto most = std::make_shared<float>(0.0f);
  op.cpu.prepare = [](const Device&, SpecSpan, SpecSpan, const Attrs&) { return Prepared{}; };
  static float* seen = nullptr;
  seen = most.get();
  op.cpu.run = [](const KernelArgs& a) {
    *seen = std::max(*seen, float(count(a)));
    for (int64_t i = 0; i < count(a); ++i) a.output(0)[i] = *seen;
  };
  const Case small = make_case(op, {.operands = {example({3})}}, 1),
             large = make_case(op, {.operands = {example({7})}}, 2);
  EXPECT_EQ(check_purity({small}), Problems{});
  EXPECT_TRUE(mentions(check_purity({small, large}), "when example 0 runs again behind all"));
}

TEST(GenericMeta, OutputThatChangesWhenAnotherIsUnread) {
  OpDef op = sound();
  op.infer = [](SpecSpan in, const Attrs&) { return Specs{in[0], in[0]}; };
  op.shares = {};
  op.cpu.run = [](const KernelArgs& a) {
    for (int64_t i = 0; i < count(a); ++i) {
      if (a.out[0]) a.output(0)[i] = a.input(0)[i];
      if (a.out[1]) a.output(1)[i] = a.out[0] ? 2 : 3;
    }
  };
  EXPECT_TRUE(mentions(check_unread(case_of(op)), "when output 0 is unread"));
}

TEST(Evaluator, RoundsToStorageTypes) {
  const std::vector<float> x{0, 1, -2.5f, 65504, 0x1p-24f, 1 + 0x1p-9f, 3.0f, -0x1.8p-15f};
  const TensorSpec bf16{{8}, DType::bf16}, f16{{8}, DType::f16}, bit{{8}, DType::bit};
  EXPECT_EQ(decode(f16, encode(f16, x)), x);
  EXPECT_EQ(decode(bf16, encode(bf16, x)),
            (std::vector<float>{0, 1, -2.5f, 65536, 0x1p-24f, 1, 3, -0x1.8p-15f}));
  EXPECT_EQ(encode(bit, x), Bytes{std::byte{0b01111010}});
  const TensorSpec u4{{5}, DType::u4};
  EXPECT_EQ(encode(u4, {1, 15, 0, 9, 7}), (Bytes{std::byte{0xF1}, std::byte{0x90}, std::byte{7}}));
  EXPECT_EQ(decode(u4, encode(u4, {1, 15, 0, 9, 7})), (std::vector<float>{1, 15, 0, 9, 7}));
  EXPECT_EQ(encode({{2}, DType::f16}, {65520, 1}),
            (Bytes{std::byte{0x00}, std::byte{0x7C}, std::byte{0x00}, std::byte{0x3C}}));
}

TEST(Evaluator, ReportsByExceptionAndByList) {
  const OpDef op = with_kernel([](const KernelArgs& a) { a.output(0)[count(a)] = 1; });
  const Case c = case_of(op);
  Evaluator eval(c.program);
  EXPECT_THROW(eval.run(), ProgramError);
  EXPECT_EQ(eval.check_run().size(), 1u);
  EXPECT_THROW(eval.set("x0", {1, 2}), ProgramError);
  EXPECT_THROW(eval.set("nothing", {1, 2}), ProgramError);
}

TEST(Evaluator, CarriesStateToTheNextStep) {
  const OpDef op = update();
  for (bool in_place : {true, false}) {
    Evaluator eval(case_of(op).program, {.updates_in_place = in_place});
    eval.set("x0", std::vector<float>(7, 1));
    eval.set("x1", std::vector<float>(7, 4));
    eval.set("x2", {1, 1, 1, 0});
    for (int step = 0; step < 3; ++step) {
      eval.run();
      EXPECT_EQ(eval.floats("x0"), std::vector<float>(7, float(-1 - 2 * step)));
      eval.next_step();
    }
    EXPECT_EQ(eval.floats("x0"), std::vector<float>(7, -5));
  }
}

TEST(Evaluator, PlacesBuffersWhereItIsTold) {
  const OpDef op = sound();
  const Case c = case_of(op);
  Evaluator eval(c.program, {.offset = 12, .aliases = {{c.out[0], c.in[0]}}});
  EXPECT_EQ(std::bit_cast<uintptr_t>(eval.as<float>(c.in[0])) % 64, 12u);
  EXPECT_EQ(eval.as<float>(c.in[0]), eval.as<float>(c.out[0]));
  EXPECT_THROW(Evaluator(c.program, {.aliases = {{c.out[0], c.in[0], 4}}}), ProgramError);
}

}  // namespace
}  // namespace pal::test
