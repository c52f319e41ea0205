// Networks that are one chain of convolutions and pooling: AlexNet, NiN, Overfeat, VGG.
#include "models/zoo_layers.h"
#include "ops/elementwise/activations.h"
#include "ops/norms/lrn.h"

namespace pal {
namespace {

std::string numbered(const char* name, int i) { return name + std::to_string(i); }

// A convolution with bias, and relu.
Val conv_relu(ZooLayers& net, const std::string& name, Val x, int64_t out, const Window2d& window,
              int64_t groups = 1) {
  x = net.conv_bias(name, x, net.wide(out), window, groups);
  auto scope = net.scope(name);
  return relu(x);
}
Val linear_relu(ZooLayers& net, const std::string& name, Val x, int64_t out) {
  x = net.linear(name, x, net.wide(out));
  auto scope = net.scope(name);
  return relu(x);
}

// Two hidden layers with dropout, and the output layer.
Val hidden_layers(ZooLayers& net, Val x, int64_t first, int64_t second) {
  x = net.dropout(flatten(x), 0.5f);
  x = linear_relu(net, "fc6", x, first);
  x = net.dropout(x, 0.5f);
  x = linear_relu(net, "fc7", x, second);
  return net.linear("fc8", x, net.classes());
}

}  // namespace

// Krizhevsky 2014: one tower, no normalisation; as torchvision has it.
Val alexnet(ZooLayers& net, Val x) {
  x = max_pool(conv_relu(net, "conv1", x, 64, square(11, 4, 2)), 3, 2);
  x = max_pool(conv_relu(net, "conv2", x, 192, square(5)), 3, 2);
  x = conv_relu(net, "conv3", x, 384, square(3));
  x = conv_relu(net, "conv4", x, 256, square(3));
  x = max_pool(conv_relu(net, "conv5", x, 256, square(3)), 3, 2);
  return hidden_layers(net, x, 4096, 4096);
}

// Krizhevsky et al. 2012: two towers, which meet in the third convolution, as groups; and local
// response normalisation.
Val alexnet_2012(ZooLayers& net, Val x) {
  x = max_pool(lrn(conv_relu(net, "conv1", x, 96, square(11, 4, 2))), 3, 2);
  x = max_pool(lrn(conv_relu(net, "conv2", x, 256, square(5), 2)), 3, 2);
  x = conv_relu(net, "conv3", x, 384, square(3));
  x = conv_relu(net, "conv4", x, 384, square(3), 2);
  x = max_pool(conv_relu(net, "conv5", x, 256, square(3), 2), 3, 2);
  return hidden_layers(net, x, 4096, 4096);
}

// Lin et al. 2014: every convolution is followed by a small network on each pixel; the last makes
// one map a class, whose mean is the logit. Widths as in the authors' network for ImageNet.
Val nin(ZooLayers& net, Val x) {
  auto block = [&](int i, int64_t channels, int64_t last, const Window2d& window) {
    auto scope = net.scope(numbered("mlpconv", i));
    x = conv_relu(net, "conv", x, channels, window);
    x = conv_relu(net, "pixel1", x, channels, square(1));
    x = relu(net.conv_bias("pixel2", x, last, square(1)));
  };
  block(1, 96, net.wide(96), square(11, 4, 0));
  x = max_pool(x, 3, 2, 0, true);
  block(2, 256, net.wide(256), square(5));
  x = max_pool(x, 3, 2, 0, true);
  block(3, 384, net.wide(384), square(3));
  x = net.dropout(max_pool(x, 3, 2, 0, true), 0.5f);
  block(4, 1024, net.classes(), square(3));
  return mean_pixels(x);
}

// Sermanet et al. 2014, the fast model of table 1: no normalisation, pooling without overlap.
Val overfeat(ZooLayers& net, Val x) {
  x = max_pool(conv_relu(net, "conv1", x, 96, square(11, 4, 0)), 2, 2);
  x = max_pool(conv_relu(net, "conv2", x, 256, square(5, 1, 0)), 2, 2);
  x = conv_relu(net, "conv3", x, 512, square(3));
  x = conv_relu(net, "conv4", x, 1024, square(3));
  x = max_pool(conv_relu(net, "conv5", x, 1024, square(3)), 2, 2);
  return hidden_layers(net, x, 3072, 4096);
}

// Simonyan and Zisserman 2015, configuration D.
Val vgg16(ZooLayers& net, Val x) {
  const int depth[] = {2, 2, 3, 3, 3};
  const int64_t channels[] = {64, 128, 256, 512, 512};
  for (int stage = 0; stage < 5; ++stage) {
    for (int i = 0; i < depth[stage]; ++i) {
      const std::string name = numbered("conv", stage + 1) + "_" + std::to_string(i + 1);
      x = conv_relu(net, name, x, channels[stage], square(3));
    }
    x = max_pool(x, 2, 2);
  }
  x = linear_relu(net, "fc6", flatten(x), 4096);
  x = net.dropout(x, 0.5f);
  x = net.dropout(linear_relu(net, "fc7", x, 4096), 0.5f);
  return net.linear("fc8", x, net.classes());
}

}  // namespace pal
