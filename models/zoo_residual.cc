// Residual networks beside models/resnet: ResNeXt-50 (Xie et al. 2017) and the film network
// ResNet3D of 18 layers (Tran et al. 2018, "R3D").
#include <cmath>

#include "models/zoo_layers.h"
#include "ops/convolution/conv3d.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"

namespace pal {
namespace {

constexpr int64_t kCardinality = 32;

// Figure 1, right: a bottleneck whose 3x3 convolution is in groups, 4 channels each at first.
Val grouped_bottleneck(ZooLayers& net, const std::string& name, Val x, int64_t channels,
                       int64_t stride) {
  auto scope = net.scope(name);
  const int64_t inner = net.wide(2 * channels), out = net.wide(4 * channels);
  Val y = net.conv_norm_relu("reduce", x, inner, square(1));
  y = net.conv_norm_relu("grouped", y, inner, square(3, stride), net.wide(kCardinality));
  y = net.conv_norm("expand", y, out, square(1));
  const bool same = stride == 1 && x.shape().back() == out;
  return relu(add(y, same ? x : net.conv_norm("shortcut", x, out, square(1, stride))));
}

// (N, D, H, W, C) by kernels of one extent and stride, or those of the first layer.
Val conv3_norm(ZooLayers& net, const std::string& name, Val x, int64_t out, const Shape& kernel,
               const Conv3dAttrs& attrs) {
  auto scope = net.scope(name);
  const Shape shape{out, kernel[0], kernel[1], kernel[2], x.shape().back()};
  const float deviation = std::sqrt(2.0f / float(shape.numel() / out));
  Val w = net.builder().weight("weight", {shape}, {Init::Kind::normal, deviation});
  return net.norm("norm", conv3d(x, w, attrs));
}

Val basic_block3d(ZooLayers& net, const std::string& name, Val x, int64_t out, int64_t stride) {
  auto scope = net.scope(name);
  Val y = relu(conv3_norm(net, "conv1", x, out, {3, 3, 3}, conv3d_attrs(stride, 1)));
  y = conv3_norm(net, "conv2", y, out, {3, 3, 3}, conv3d_attrs(1, 1));
  if (stride == 1 && x.shape().back() == out) return relu(add(y, x));
  return relu(add(y, conv3_norm(net, "shortcut", x, out, {1, 1, 1}, conv3d_attrs(stride, 0))));
}

}  // namespace

// Table 1: ResNeXt-50 (32x4d).
Val resnext50(ZooLayers& net, Val x) {
  x = net.conv_norm_relu("conv1", x, net.wide(64), square(7, 2));
  x = max_pool(x, 3, 2, 1);
  const int depth[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    auto scope = net.scope("conv" + std::to_string(stage + 2));
    for (int i = 0; i < depth[stage]; ++i) {
      const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      x = grouped_bottleneck(net, std::to_string(i), x, int64_t{64} << stage, stride);
    }
  }
  return net.linear("fc", mean_pixels(x), net.classes());
}

// Section 3.3, table 1: every convolution over 3 frames; no pooling but at the end.
Val resnet3d_18(ZooLayers& net, Val x) {
  const Conv3dAttrs first{.stride_h = 2, .stride_w = 2, .pad_d = 1, .pad_h = 3, .pad_w = 3};
  x = relu(conv3_norm(net, "conv1", x, net.wide(64), {3, 7, 7}, first));
  for (int stage = 0; stage < 4; ++stage) {
    auto scope = net.scope("conv" + std::to_string(stage + 2));
    for (int i = 0; i < 2; ++i) {
      const int64_t out = net.wide(int64_t{64} << stage);
      x = basic_block3d(net, std::to_string(i), x, out, stage > 0 && i == 0 ? 2 : 1);
    }
  }
  return net.linear("fc", mean_pixels(x), net.classes());
}

}  // namespace pal
