// Networks of parallel branches whose channels are joined: GoogLeNet (Szegedy et al. 2015, with the
// batch norm of Ioffe and Szegedy 2015 unless model.norm is false) and Inception v3 (Szegedy et al.
// 2016). Both without the auxiliary classifiers, and layer for layer as in torchvision, which the
// counts are of.
#include "models/zoo_layers.h"
#include "ops/convolution/avg_pool.h"
#include "ops/tensors/columns.h"

namespace pal {
namespace {

constexpr float kEps = 1e-3f;

// A chain of convolutions with batch norm and relu, in a scope of its own.
struct Link {
  int64_t out;
  Window2d window;
};
Val branch(ZooLayers& net, const std::string& name, Val x, const std::vector<Link>& chain) {
  auto scope = net.scope(name);
  for (size_t i = 0; i < chain.size(); ++i) {
    x = net.conv_norm_relu(std::to_string(i), x, net.wide(chain[i].out), chain[i].window);
  }
  return x;
}

Window2d wide_window(int64_t n) { return {1, n, 1, 0, n / 2}; }
Window2d high_window(int64_t n) { return {n, 1, 1, n / 2, 0}; }
Val mean3(Val x) { return avg_pool(x, avg_pool_attrs(3, 1, 1)); }

// GoogLeNet, figure 2(b); the large kernels are 3x3 in torchvision.
Val inception(ZooLayers& net, const std::string& name, Val x, int64_t one, int64_t three_in,
              int64_t three, int64_t five_in, int64_t five, int64_t pool) {
  auto scope = net.scope(name);
  Val a = branch(net, "one", x, {{one, square(1)}});
  Val b = branch(net, "three", x, {{three_in, square(1)}, {three, square(3)}});
  Val c = branch(net, "five", x, {{five_in, square(1)}, {five, square(3)}});
  Val d = branch(net, "pool", max_pool(x, 3, 1, 1, true), {{pool, square(1)}});
  return concatenate({a, b, c, d});
}

// Inception v3, figure 5.
Val inception_a(ZooLayers& net, const std::string& name, Val x, int64_t pool) {
  auto scope = net.scope(name);
  Val a = branch(net, "one", x, {{64, square(1)}});
  Val b = branch(net, "five", x, {{48, square(1)}, {64, square(5)}});
  Val c = branch(net, "three", x, {{64, square(1)}, {96, square(3)}, {96, square(3)}});
  Val d = branch(net, "pool", mean3(x), {{pool, square(1)}});
  return concatenate({a, b, c, d});
}

// Figure 10: half the size.
Val inception_b(ZooLayers& net, const std::string& name, Val x) {
  auto scope = net.scope(name);
  Val a = branch(net, "three", x, {{384, square(3, 2, 0)}});
  Val b = branch(net, "double", x, {{64, square(1)}, {96, square(3)}, {96, square(3, 2, 0)}});
  return concatenate({a, b, max_pool(x, 3, 2)});
}

// Figure 6, n = 7.
Val inception_c(ZooLayers& net, const std::string& name, Val x, int64_t inner) {
  auto scope = net.scope(name);
  Val a = branch(net, "one", x, {{192, square(1)}});
  Val b =
      branch(net, "seven", x, {{inner, square(1)}, {inner, wide_window(7)}, {192, high_window(7)}});
  Val c = branch(net, "double", x,
                 {{inner, square(1)},
                  {inner, high_window(7)},
                  {inner, wide_window(7)},
                  {inner, high_window(7)},
                  {192, wide_window(7)}});
  Val d = branch(net, "pool", mean3(x), {{192, square(1)}});
  return concatenate({a, b, c, d});
}

Val inception_d(ZooLayers& net, const std::string& name, Val x) {
  auto scope = net.scope(name);
  Val a = branch(net, "three", x, {{192, square(1)}, {320, square(3, 2, 0)}});
  Val b = branch(
      net, "seven", x,
      {{192, square(1)}, {192, wide_window(7)}, {192, high_window(7)}, {192, square(3, 2, 0)}});
  return concatenate({a, b, max_pool(x, 3, 2)});
}

// Figure 7.
Val inception_e(ZooLayers& net, const std::string& name, Val x) {
  auto scope = net.scope(name);
  auto fork = [&](const std::string& at, Val y) {
    Val wide = branch(net, at + "_wide", y, {{384, wide_window(3)}});
    return std::pair{wide, branch(net, at + "_high", y, {{384, high_window(3)}})};
  };
  Val a = branch(net, "one", x, {{320, square(1)}});
  const auto [b1, b2] = fork("three", branch(net, "three", x, {{384, square(1)}}));
  const auto [c1, c2] =
      fork("double", branch(net, "double", x, {{448, square(1)}, {384, square(3)}}));
  Val d = branch(net, "pool", mean3(x), {{192, square(1)}});
  return concatenate({a, b1, b2, c1, c2, d});
}

}  // namespace

Val googlenet(ZooLayers& net, Val x) {
  net.eps = kEps;
  x = branch(net, "conv1", x, {{64, square(7, 2)}});
  x = max_pool(x, 3, 2, 0, true);
  x = branch(net, "conv2", x, {{64, square(1)}, {192, square(3)}});
  x = max_pool(x, 3, 2, 0, true);
  x = inception(net, "3a", x, 64, 96, 128, 16, 32, 32);
  x = inception(net, "3b", x, 128, 128, 192, 32, 96, 64);
  x = max_pool(x, 3, 2, 0, true);
  x = inception(net, "4a", x, 192, 96, 208, 16, 48, 64);
  x = inception(net, "4b", x, 160, 112, 224, 24, 64, 64);
  x = inception(net, "4c", x, 128, 128, 256, 24, 64, 64);
  x = inception(net, "4d", x, 112, 144, 288, 32, 64, 64);
  x = inception(net, "4e", x, 256, 160, 320, 32, 128, 128);
  x = max_pool(x, 2, 2, 0, true);
  x = inception(net, "5a", x, 256, 160, 320, 32, 128, 128);
  x = inception(net, "5b", x, 384, 192, 384, 48, 128, 128);
  return net.linear("fc", net.dropout(mean_pixels(x), 0.2f), net.classes());
}

Val inception_v3(ZooLayers& net, Val x) {
  net.eps = kEps;
  x = branch(net, "stem", x, {{32, square(3, 2, 0)}, {32, square(3, 1, 0)}, {64, square(3)}});
  x = max_pool(x, 3, 2);
  x = branch(net, "stem2", x, {{80, square(1)}, {192, square(3, 1, 0)}});
  x = max_pool(x, 3, 2);
  x = inception_a(net, "5b", x, 32);
  x = inception_a(net, "5c", x, 64);
  x = inception_a(net, "5d", x, 64);
  x = inception_b(net, "6a", x);
  x = inception_c(net, "6b", x, 128);
  x = inception_c(net, "6c", x, 160);
  x = inception_c(net, "6d", x, 160);
  x = inception_c(net, "6e", x, 192);
  x = inception_d(net, "7a", x);
  x = inception_e(net, "7b", x);
  x = inception_e(net, "7c", x);
  return net.linear("fc", net.dropout(mean_pixels(x), 0.5f), net.classes());
}

}  // namespace pal
