// Layers of image networks, and their first weights.
#include "models/zoo_layers.h"

#include <algorithm>
#include <cmath>

#include "models/conv_layers.h"
#include "ops/convolution/conv2d.h"
#include "ops/convolution/global_avg_pool.h"
#include "ops/convolution/max_pool.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/dropout.h"
#include "ops/tensors/views.h"

namespace pal {
namespace {

Conv2dAttrs attrs_of(const Window2d& w, int64_t groups) {
  return {.stride_h = w.stride,
          .stride_w = w.stride,
          .top = w.pad_h,
          .left = w.pad_w,
          .bottom = w.pad_h,
          .right = w.pad_w,
          .groups = groups};
}

// He et al. 2015, by what the layer reads.
Init he(int64_t fan_in) { return {Init::Kind::normal, std::sqrt(2.0f / float(fan_in))}; }

Val kernel(Builder& b, Val x, int64_t out, const Window2d& w, int64_t groups) {
  const int64_t in = x.shape().back() / groups;
  return b.weight("weight", {{out, w.height, w.width, in}}, he(w.height * w.width * in));
}

}  // namespace

int64_t ZooLayers::wide(int64_t channels) const {
  return std::max<int64_t>(1, int64_t(std::floor(double(channels) * o_.width)));
}

Val ZooLayers::conv(const std::string& name, Val x, int64_t out, const Window2d& window,
                    int64_t groups) {
  Builder::Within scope(b_, name);
  return conv2d(x, kernel(b_, x, out, window, groups), attrs_of(window, groups));
}

Val ZooLayers::conv_bias(const std::string& name, Val x, int64_t out, const Window2d& window,
                         int64_t groups) {
  Builder::Within scope(b_, name);
  Val w = kernel(b_, x, out, window, groups);
  return conv2d(x, w, attrs_of(window, groups), b_.weight("bias", {{out}}, {}));
}

Val ZooLayers::norm(const std::string& name, Val x) {
  return ConvLayers(b_, training_, moved_, eps, momentum).norm(name, x);
}

Val ZooLayers::linear(const std::string& name, Val x, int64_t out) {
  return ConvLayers(b_, training_, moved_).linear(name, x, out);
}

Val ZooLayers::conv_norm(const std::string& name, Val x, int64_t out, const Window2d& window,
                         int64_t groups) {
  Builder::Within scope(b_, name);
  if (!o_.norm) return conv_bias("conv", x, out, window, groups);
  return norm("norm", conv("conv", x, out, window, groups));
}

Val ZooLayers::conv_norm_relu(const std::string& name, Val x, int64_t out, const Window2d& window,
                              int64_t groups) {
  Val y = conv_norm(name, x, out, window, groups);
  Builder::Within scope(b_, name);
  return relu(y);
}

Val ZooLayers::dropout(Val x, float p) {
  return training_ ? pal::dropout(x, scalars_, o_.dropout.value_or(p)) : x;
}

Val max_pool(Val x, int64_t kernel, int64_t stride, int64_t pad, bool ceil) {
  MaxPoolAttrs attrs = max_pool_attrs(kernel, stride, pad);
  auto beyond = [&](int64_t extent) {  // what the last window lacks
    const int64_t left = (extent + 2 * pad - kernel) % stride;
    return ceil && left ? stride - left : 0;
  };
  attrs.bottom += beyond(x.shape()[1]), attrs.right += beyond(x.shape()[2]);
  return max_pool(x, attrs).y;
}

Val mean_pixels(Val x) {
  const Shape s = x.shape();
  if (s.rank() == 4) return global_avg_pool(x);
  return global_avg_pool(reshape(x, {s[0], s.numel() / (s[0] * s.back()), 1, s.back()}));
}

Val flatten(Val x) { return reshape(x, {x.shape()[0], x.shape().numel() / x.shape()[0]}); }

}  // namespace pal
