// Inputs, dropout and loss that translation models share.
#include "models/translation.h"

#include <algorithm>

#include "ops/elementwise/add.h"
#include "ops/elementwise/dropout.h"
#include "ops/losses/cross_entropy.h"
#include "ops/tensors/views.h"

namespace pal {

TranslationBatch::TranslationBatch(Builder& b, const TranslationShape& shape) {
  namespace in = translation_input;
  const auto [S, T, B] = shape;
  source = b.input(in::kSource, {{S, B}, DType::i32});
  lengths = b.input(in::kSourceLengths, {{B}, DType::i32});
  target_in = b.input(in::kTargetIn, {{T, B}, DType::i32});
  target_out = b.input(in::kTargetOut, {{T, B}, DType::i32});
}

Val dropped(Val x, float p, Val scalars, bool fused) {
  if (!scalars || p == 0) return x;
  if (fused) return dropout(x, scalars, p);
  return dropout_apply(x, dropout_mask(scalars, x.spec(), p), p);
}

TranslationLoss output_loss(Val x, Val targets, Val scalars, float smoothing, int64_t chunks,
                            const std::function<Val(Val)>& logits) {
  const int64_t rows = targets.spec().numel();
  chunks = std::min(chunks, rows);
  x = reshape(x, {rows, x.shape().back()}), targets = reshape(targets, {rows});
  std::vector<Val> losses, nlls;
  for (int64_t k = 0; k < chunks; ++k) {
    const int64_t begin = k * rows / chunks, end = (k + 1) * rows / chunks;
    Val part_x = chunks == 1 ? x : slice(x, begin, end);
    Val part_targets = chunks == 1 ? targets : slice(targets, begin, end);
    const CrossEntropy part =
        cross_entropy(logits(part_x), part_targets, scalars, {.smoothing = smoothing});
    losses.push_back(part.loss), nlls.push_back(part.nll);
  }
  return {sum_of(losses), sum_of(nlls)};
}

}  // namespace pal
