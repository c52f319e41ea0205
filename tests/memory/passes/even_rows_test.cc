// Logits get wider rows where all that reads them takes those, and stay as they are elsewhere.
#include "memory/passes/even_rows.h"

#include <gtest/gtest.h>

#include "autograd/differentiate.h"
#include "core/builder.h"
#include "core/scalars.h"
#include "core/verify.h"
#include "ops/losses/cross_entropy.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/casts.h"
#include "tests/memory/running.h"

namespace pal::test {
namespace {

struct OutputLayer {
  bool by_row = true, biased = false, added = false, reads_logits = false, reads_weights = false,
       sums_weights = false;
  int64_t rows = 300, classes = 477, chunks = 1;
};

Program step(const OutputLayer& layer) {
  Builder b;
  b.read_weights_as(DType::bf16, cast);
  const int64_t classes = layer.classes, hidden = 16;
  Val x = b.input("x", {{layer.rows, hidden}, DType::bf16});
  Val targets = b.input("targets", {{layer.rows}, DType::i32});
  Val scalars = b.input("scalars", scalars_spec());
  const Shape shape = layer.by_row ? Shape{classes, hidden} : Shape{hidden, classes};
  Val master = b.state("w", {shape}, Role::weight), w = cast(master, DType::bf16);
  Val bias = b.state("bias", {{classes}}, Role::weight);
  std::vector<Val> wanted{master, bias};
  Val total;
  for (int64_t k = 0; k < layer.chunks; ++k) {
    const Val c = layer.biased ? bias : Val{};
    Val y = b.emit1(matmul_op, {x, w, {}, c}, MatmulAttrs{false, layer.by_row, DType::bf16});
    if (layer.added) y = add_bias(y, bias);
    if (layer.reads_logits) b.output("logits", y);
    const Val loss = cross_entropy(y, targets, scalars, {.smoothing = 0.1f}).loss;
    total = total ? add_broadcast(total, loss) : loss;
  }
  if (layer.reads_weights) b.output("w16", w);
  if (layer.sums_weights) b.output("sum", sum_all(w));
  b.output("loss", total);
  if (!layer.biased && !layer.added) wanted.pop_back();
  const std::vector<Val> gradients = differentiate(b, total, wanted);
  for (size_t i = 0; i < gradients.size(); ++i) b.output("d" + std::to_string(i), gradients[i]);
  return b.take();
}

TEST(EvenRows, WidenTheLogitsAndTheirGradientsAlone) {
  for (const bool by_row : {true, false}) {
    for (const int bias : {0, 1, 2}) {
      for (const int64_t chunks : {1, 2}) {
        const Program narrow =
            step({.by_row = by_row, .biased = bias == 1, .added = bias == 2, .chunks = chunks});
        std::string note;
        const std::optional<Program> wide = even_rows(narrow, &note);
        ASSERT_TRUE(wide) << by_row << bias << chunks;
        EXPECT_EQ(note, "477 classes as 480");
        EXPECT_NO_THROW(verify(*wide));
        EXPECT_EQ(wide->nodes.size(), narrow.nodes.size());
        ASSERT_EQ(wide->values.size(), narrow.values.size());
        for (const NamedValue& output : narrow.outputs) {
          EXPECT_EQ(wide->value(output.value).spec, narrow.value(output.value).spec) << output.name;
        }
        for (const StateSlot& slot : narrow.state) {
          EXPECT_EQ(wide->value(slot.start).spec, narrow.value(slot.start).spec) << slot.name;
        }
        int losses = 0;
        for (const Node& node : wide->nodes) {
          if (node.op != &cross_entropy_op) continue;
          ++losses;
          EXPECT_EQ(wide->value(node.in[0]).spec, (TensorSpec{{300, 480}, DType::bf16}));
          EXPECT_EQ(node.attrs.as<CrossEntropyAttrs>().classes, 477);
        }
        EXPECT_EQ(losses, chunks);
        EXPECT_FALSE(even_rows(*wide)) << "they are";
      }
    }
  }
}

TEST(EvenRows, StayWhereOthersReadThem) {
  EXPECT_FALSE(even_rows(step({.reads_logits = true})));
  EXPECT_FALSE(even_rows(step({.reads_weights = true})));
  EXPECT_FALSE(even_rows(step({.sums_weights = true})));
}

TEST(EvenRows, StayWhereTheyAreEvenOrFew) {
  EXPECT_FALSE(even_rows(step({.classes = 480})));
  EXPECT_FALSE(even_rows(step({.rows = 30})));
}

}  // namespace
}  // namespace pal::test
