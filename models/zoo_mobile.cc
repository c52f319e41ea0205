// Networks of inverted residuals: MobileNetV2 (Sandler et al. 2018), MNASNet (Tan et al. 2019) and
// EfficientNet-B0 (Tan and Le 2019), without stochastic depth.
#include <algorithm>

#include "models/zoo_layers.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/scale_channels.h"
#include "ops/elementwise/self_gated.h"
#include "ops/tensors/views.h"

namespace pal {
namespace {

using Activation = Val (*)(Val);
Val relu6(Val x) { return clip(x, 0, 6); }

struct Style {
  Activation activation;
  bool squeeze_excite;  // EfficientNet's
  bool narrow_first;    // no expansion layer where it would not widen
};

// Hu et al. 2018: each channel times a factor that depends on the means of all.
Val squeeze_excite(ZooLayers& net, Val x, int64_t squeezed) {
  auto scope = net.scope("squeeze_excite");
  const Shape s = x.shape();
  Val mean = reshape(mean_pixels(x), {s[0], 1, 1, s[3]});
  Val y = silu(net.conv_bias("squeeze", mean, squeezed, square(1)));
  y = sigmoid(net.conv_bias("excite", y, s[3], square(1)));
  return scale_channels(x, reshape(y, {s[0], s[3]}));
}

// Sandler, figure 3(b): widen, filter each channel, narrow; the narrow ends are joined.
Val inverted_residual(ZooLayers& net, const std::string& name, Val x, int64_t expand, int64_t out,
                      int64_t kernel, int64_t stride, const Style& style) {
  auto scope = net.scope(name);
  const int64_t in = x.shape().back(), inner = in * expand;
  Val y = x;
  if (expand > 1 || !style.narrow_first) {
    y = style.activation(net.conv_norm("expand", y, inner, square(1)));
  }
  y = style.activation(net.conv_norm("depthwise", y, inner, square(kernel, stride), inner));
  if (style.squeeze_excite) y = squeeze_excite(net, y, std::max<int64_t>(1, in / 4));
  y = net.conv_norm("project", y, out, square(1));
  return stride == 1 && in == out ? add(x, y) : y;
}

struct Stage {
  int64_t expand, kernel, stride, out;
  int depth;
};

Val stages(ZooLayers& net, Val x, std::span<const Stage> list, const Style& style) {
  for (size_t k = 0; k < list.size(); ++k) {
    auto scope = net.scope("stage" + std::to_string(k + 1));
    const Stage& s = list[k];
    for (int i = 0; i < s.depth; ++i) {
      x = inverted_residual(net, std::to_string(i), x, s.expand, net.wide(s.out), s.kernel,
                            i == 0 ? s.stride : 1, style);
    }
  }
  return x;
}

// The wide last convolution and the classifier.
Val head(ZooLayers& net, Val x, Activation activation) {
  x = activation(net.conv_norm("head", x, net.wide(1280), square(1)));
  return net.linear("fc", net.dropout(mean_pixels(x), 0.2f), net.classes());
}

}  // namespace

Val mobilenet_v2(ZooLayers& net, Val x) {
  constexpr Stage table2[] = {{1, 3, 1, 16, 1}, {6, 3, 2, 24, 2}, {6, 3, 2, 32, 3},
                              {6, 3, 2, 64, 4}, {6, 3, 1, 96, 3}, {6, 3, 2, 160, 3},
                              {6, 3, 1, 320, 1}};
  x = relu6(net.conv_norm("stem", x, net.wide(32), square(3, 2)));
  x = stages(net, x, table2, {relu6, false, true});
  return head(net, x, relu6);
}

// MnasNet-A1's predecessor B1 (figure 7 of the paper's first version), depth multiplier 1.
Val mnasnet(ZooLayers& net, Val x) {
  net.momentum = 3e-4f;
  constexpr Stage figure7[] = {{3, 3, 2, 24, 3}, {3, 5, 2, 40, 3},  {6, 5, 2, 80, 3},
                               {6, 3, 1, 96, 2}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};
  x = net.conv_norm_relu("stem", x, net.wide(32), square(3, 2));
  x = net.conv_norm_relu("depthwise", x, net.wide(32), square(3), net.wide(32));
  x = net.conv_norm("project", x, net.wide(16), square(1));
  x = stages(net, x, figure7, {relu, false, false});
  return head(net, x, relu);
}

Val efficientnet_b0(ZooLayers& net, Val x) {
  constexpr Stage table1[] = {{1, 3, 1, 16, 1}, {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2},
                              {6, 3, 2, 80, 3}, {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4},
                              {6, 3, 1, 320, 1}};
  x = silu(net.conv_norm("stem", x, net.wide(32), square(3, 2)));
  x = stages(net, x, table1, {silu, true, true});
  return head(net, x, silu);
}

}  // namespace pal
