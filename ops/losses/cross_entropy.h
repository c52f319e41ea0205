// The loss of a classifier, label-smoothed and masked.
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef cross_entropy_grad_op, cross_entropy_op;
[[gnu::weak]] extern const Backend cross_entropy_grad_cuda, cross_entropy_cuda;

struct CrossEntropyAttrs {
  float smoothing = 0;
  int64_t ignore = 0;  // rows with this target count nothing; -1: none
  // The first columns, which count; zeros follow, in the gradient too. 0: all do.
  int64_t classes = 0;
  auto fields() const {
    return std::tuple{field("smoothing", smoothing), field("ignore", ignore),
                      rare_field("classes", classes)};
  }
  int64_t classes_of(const TensorSpec& logits) const { return classes ? classes : logits.shape[1]; }
};

// On a GPU, rows of so many classes have a block each, and their sums an order of their own.
constexpr int64_t kWideLossRow = 1024;

struct CrossEntropy {
  Val loss;  // f32[1]: smoothed, divided by the step's token count
  Val nll;  // f32[1]: sum of -log p(target), neither smoothed nor divided; no gradient goes through
  Val lse;  // f32 (N): log sum exp of each row, 0 where it is ignored
};

// logits (N, V), targets i32 (N), the step's scalars. With smoothing s, as in PyTorch's
// CrossEntropyLoss (uniform over all V, the target included):
//   loss = sum_n ((1 - s) (lse[n] - x[n,target]) + s (lse[n] - mean_v x[n,v])) / scalars.tokens
// A target outside [0, V) that is not `ignore` makes the loss NaN.
CrossEntropy cross_entropy(Val logits, Val targets, Val scalars, CrossEntropyAttrs attrs = {});

}  // namespace pal
