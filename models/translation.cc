// The loss that translation models share.
#include "models/translation.h"

#include <algorithm>

#include "ops/elementwise/add.h"
#include "ops/losses/cross_entropy.h"
#include "ops/tensors/views.h"

namespace pal {

TranslationLoss output_loss(Val x, Val targets, Val scalars, float smoothing, int64_t chunks,
                            const std::function<Val(Val)>& logits) {
  const int64_t rows = targets.spec().numel();
  chunks = std::min(chunks, rows);
  x = reshape(x, {rows, x.shape().back()}), targets = reshape(targets, {rows});
  TranslationLoss sum;
  for (int64_t k = 0; k < chunks; ++k) {
    const int64_t begin = k * rows / chunks, end = (k + 1) * rows / chunks;
    Val part_x = chunks == 1 ? x : slice(x, begin, end);
    Val part_targets = chunks == 1 ? targets : slice(targets, begin, end);
    const CrossEntropy part =
        cross_entropy(logits(part_x), part_targets, scalars, {.smoothing = smoothing});
    sum = k == 0 ? TranslationLoss{part.loss, part.nll}
                 : TranslationLoss{add(sum.loss, part.loss), add(sum.nll, part.nll)};
  }
  return sum;
}

}  // namespace pal
