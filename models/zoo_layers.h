// What the image networks of the zoo are made of: convolutions, batch norm, pooling, and the layers
// of classifiers, each a scope of its own with its weights.
#pragma once
#include <string>
#include <vector>

#include "core/builder.h"
#include "models/moved_statistic.h"
#include "models/zoo_options.h"

namespace pal {

// A window over images: the kernel, its stride, and the zeros on each side.
struct Window2d {
  int64_t height = 1, width = 1, stride = 1, pad_h = 0, pad_w = 0;
};
// Square, padded so that stride 1 keeps the image's size, unless told otherwise.
inline Window2d square(int64_t kernel, int64_t stride = 1) {
  return {kernel, kernel, stride, kernel / 2, kernel / 2};
}
inline Window2d square(int64_t kernel, int64_t stride, int64_t pad) {
  return {kernel, kernel, stride, pad, pad};
}

class ZooLayers {
 public:
  // `training`: batch norm has the batch's own statistics, and appends to `moved` what the running
  // ones are to become; dropout is recorded, which `scalars`, the step's, are for.
  ZooLayers(Builder& builder, const ZooOptions& options, Val scalars, bool training,
            std::vector<MovedStatistic>& moved)
      : b_(builder), o_(options), scalars_(scalars), training_(training), moved_(moved) {}

  // Of batch norm.
  float eps = 1e-5f;
  float momentum = 0.1f;

  // So many channels, by the width that was asked for.
  int64_t wide(int64_t channels) const;

  // x (N, H, W, C) -> (N, H', W', out). Depthwise: groups = C.
  Val conv(const std::string& name, Val x, int64_t out, const Window2d& window, int64_t groups = 1);
  Val conv_bias(const std::string& name, Val x, int64_t out, const Window2d& window,
                int64_t groups = 1);
  // Batch norm, and a classifier's layer (N, C) -> (N, out): as other networks have them.
  Val norm(const std::string& name, Val x);
  Val linear(const std::string& name, Val x, int64_t out);
  // Within one scope: a convolution without bias, and batch norm (without model.norm a convolution
  // with bias); `.._relu`: relu too.
  Val conv_norm(const std::string& name, Val x, int64_t out, const Window2d& window,
                int64_t groups = 1);
  Val conv_norm_relu(const std::string& name, Val x, int64_t out, const Window2d& window,
                     int64_t groups = 1);
  Val dropout(Val x, float p);

  Builder::Within scope(const std::string& name) { return {b_, name}; }
  Builder& builder() { return b_; }
  int64_t classes() const { return o_.classes; }

 private:
  Builder& b_;
  const ZooOptions& o_;
  Val scalars_;
  bool training_;
  std::vector<MovedStatistic>& moved_;
};

// `ceil`: the last window may reach over the image's edge.
Val max_pool(Val x, int64_t kernel, int64_t stride, int64_t pad = 0, bool ceil = false);
// (N, .., C) -> (N, C): the mean over all pixels.
Val mean_pixels(Val x);
// (N, .., C) -> (N, ..·C)
Val flatten(Val x);

}  // namespace pal
