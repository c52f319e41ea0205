// The gradients of cells with what was recomputed for them in one pass: each of the patterns that
// they stand for has the same bits, and no operand that it lacks.
#include <gtest/gtest.h>

#include <set>

#include "core/builder.h"
#include "core/error.h"
#include "ops/recurrent/gru.h"
#include "ops/recurrent/lstm.h"
#include "ops/tensors/columns.h"
#include "tests/support/eval.h"
#include "tests/support/numbers.h"

namespace pal::test {
namespace {

// Of a state (3, 5), and so many gates beside each other. Which operands the patterns have.
std::vector<std::string> check_patterns(const Rewrite& rewrite, int64_t gates) {
  const TensorSpec part{{3, 5}}, whole{{3, 5 * gates}};
  std::vector<std::string> operands;
  for (const FusedPattern& pattern :
       rewrite.patterns(Specs{part, whole}, ColumnsGradAttrs{5 * gates, 0})) {
    Builder b;
    Program apart = pattern.program;
    std::vector<Val> in;
    std::string present;
    for (const ValueId v : pattern.in) {
      present += v == kNone ? "-" : "+";
      in.push_back(v == kNone ? Val{} : b.input("x" + std::to_string(v), apart.value(v).spec));
    }
    const std::vector<Val> out = b.emit(*rewrite.op, in, pattern.attrs);
    Evaluator fused(b.take()), nodes(apart);
    for (const ValueId v : pattern.in) {
      if (v == kNone) continue;
      const std::vector<float> values = numbers(apart.value(v).spec.numel(), int(v));
      fused.set("x" + std::to_string(v), values), nodes.set(v, values);
    }
    fused.run(), nodes.run();
    for (size_t i = 0; i < out.size(); ++i) {
      const ValueId v = pattern.out[i];
      if (v == kNone) continue;
      EXPECT_EQ(first_difference(apart.value(v).spec, fused.bytes(out[i].id), nodes.bytes(v)), "")
          << rewrite.op->name << " of " << present << ", output " << i;
    }
    operands.push_back(present);
  }
  return operands;
}

TEST(Replay, GruGradientsAreThoseOfEveryPattern) {
  const std::vector<std::string> with = check_patterns(gru_replay_rewrite, 3);
  EXPECT_EQ(with, (std::vector<std::string>{"++++----+", "++++-----", "++++-----", "++--+++++",
                                            "++--++++-", "++--++++-"}));
}

TEST(Replay, LstmGradientsAreThoseOfEveryPattern) {
  const std::vector<std::string> with = check_patterns(lstm_replay_rewrite, 4);
  EXPECT_EQ(with.size(), 16u);
  EXPECT_EQ(std::set(with.begin(), with.end()).size(), 8u);
}

// In other types each node would round what it stores.
TEST(Replay, StatesAreMatricesOfF32) {
  const auto refuses = [](const OpDef& op, int64_t gates, const TensorSpec& state, size_t wholes) {
    Specs in(9);  // the activations, as they were
    in[0] = in[1] = state;
    for (size_t k = 2 + wholes; k < 6 + wholes; ++k) in[k] = state;
    try {
      const Specs out = infer_specs(op, in, {});
      EXPECT_EQ(out[0], (TensorSpec{{state.shape[0], gates * state.shape[1]}}));
    } catch (const ProgramError&) {
      return true;
    }
    return false;
  };
  for (const TensorSpec& state :
       {TensorSpec{{3, 5}, DType::bf16}, TensorSpec{{3, 5, 2}}, TensorSpec{{3}}}) {
    EXPECT_TRUE(refuses(gru_cell_replay_grad_op, 3, state, 2)) << to_string(state);
    EXPECT_TRUE(refuses(lstm_cell_replay_grad_op, 4, state, 1)) << to_string(state);
  }
  EXPECT_FALSE(refuses(gru_cell_replay_grad_op, 3, {{3, 5}}, 2));
  EXPECT_FALSE(refuses(lstm_cell_replay_grad_op, 4, {{3, 5}}, 1));
}

}  // namespace
}  // namespace pal::test
