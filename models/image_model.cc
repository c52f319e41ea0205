// The loss that all image classifiers share.
#include "models/image_model.h"

#include "ops/elementwise/add.h"
#include "ops/losses/cross_entropy.h"
#include "ops/sums/scale_by.h"

namespace pal {

Shape ImageModel::input(int64_t batch, int64_t height, int64_t width) const {
  if (frames == 0) return {batch, height, width, channels};
  return {batch, frames, height, width, channels};
}

ImageLoss image_loss(Builder& b, const ImageModel& model, int64_t batch, int64_t height,
                     int64_t width, Val scalars, bool training, const ImageLossOptions& options) {
  namespace in = image_input;
  Val x = b.input(in::kImages, {model.input(batch, height, width)});
  Val labels = b.input(in::kLabels, {{batch}, DType::i32});
  ImageLoss out;
  out.logits = model.logits(b, x, scalars, training, out.moved);
  Builder::Within scope(b, "loss");
  const CrossEntropyAttrs attrs{training ? options.label_smoothing : 0.0f, -1};
  const CrossEntropy own = cross_entropy(out.logits, labels, scalars, attrs);
  out.loss = own.loss, out.nll = own.nll;
  if (training && options.mixup) {
    Val others = b.input(in::kOther, {{batch}, DType::i32});
    const CrossEntropy other = cross_entropy(out.logits, others, scalars, attrs);
    out.loss = add(scale_by(own.loss, b.input(in::kMix, {{1}})),
                   scale_by(other.loss, b.input(in::kOtherMix, {{1}})));
  }
  return out;
}

}  // namespace pal
