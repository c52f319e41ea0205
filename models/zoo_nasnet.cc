// NASNet-A (Zoph et al. 2018, figure 4), 4 @ 1056: the mobile network. A cell reads the outputs of
// the two cells before it. Strided layers are padded evenly on all sides.
#include "models/zoo_layers.h"
#include "ops/convolution/avg_pool.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/tensors/columns.h"

namespace pal {
namespace {

constexpr int64_t kLast = 1056, kStem = 32, kCells = 4;

Val pixel_conv(ZooLayers& net, const std::string& name, Val x, int64_t out) {
  return net.conv_norm(name, relu(x), out, square(1));
}

// Depthwise, then pointwise; twice, each after relu and before batch norm (section A.4).
Val separable(ZooLayers& net, const std::string& name, Val x, int64_t out, int64_t kernel,
              int64_t stride = 1) {
  auto scope = net.scope(name);
  for (int i = 0; i < 2; ++i) {
    auto inner = net.scope(std::to_string(i));
    const int64_t in = x.shape().back();
    x = net.conv("depthwise", relu(x), in, square(kernel, i == 0 ? stride : 1), in);
    x = net.norm("norm", net.conv("pointwise", x, out, square(1)));
  }
  return x;
}

Val mean3x3(Val x, int64_t stride = 1) { return avg_pool(x, avg_pool_attrs(3, stride, 1, false)); }

// The pixels (0, 0), (2, 2), .., and those one further down and to the right: no pixel is lost.
Val halved(ZooLayers& net, Val x, int64_t out) {
  AvgPoolAttrs even = avg_pool_attrs(1, 2), odd = even;
  odd.top = odd.left = -1, odd.bottom = odd.right = 1;
  x = relu(x);
  Val a = net.conv("even", avg_pool(x, even), out / 2, square(1));
  Val b = net.conv("odd", avg_pool(x, odd), out - out / 2, square(1));
  return net.norm("norm", concatenate({a, b}));
}

struct Cells {
  Val now, before;  // the newest cell's output, and that of the one before
};

// The output before last, in the newest one's size and `out` channels.
Val adjusted(ZooLayers& net, const Cells& in, int64_t out) {
  if (!in.before) return in.now;
  auto scope = net.scope("before");
  if (in.before.shape()[1] != in.now.shape()[1]) return halved(net, in.before, out);
  return in.before.shape().back() == out ? in.before : pixel_conv(net, "conv", in.before, out);
}

Cells normal_cell(ZooLayers& net, const std::string& name, const Cells& in, int64_t out) {
  auto scope = net.scope(name);
  Val p = adjusted(net, in, out), h = pixel_conv(net, "now", in.now, out);
  Val x1 = add(separable(net, "1a", h, out, 5), separable(net, "1b", p, out, 3));
  Val x2 = add(separable(net, "2a", p, out, 5), separable(net, "2b", p, out, 3));
  Val x3 = add(mean3x3(h), p);
  Val mean = mean3x3(p);
  Val x4 = add(mean, mean);
  Val x5 = add(separable(net, "5a", h, out, 3), h);
  return {concatenate({p, x1, x2, x3, x4, x5}), in.now};
}

Cells reduction_cell(ZooLayers& net, const std::string& name, const Cells& in, int64_t out) {
  auto scope = net.scope(name);
  Val p = adjusted(net, in, out), h = pixel_conv(net, "now", in.now, out);
  Val x1 = add(separable(net, "1a", h, out, 5, 2), separable(net, "1b", p, out, 7, 2));
  Val largest = max_pool(h, 3, 2, 1);
  Val x2 = add(largest, separable(net, "2b", p, out, 7, 2));
  Val x3 = add(mean3x3(h, 2), separable(net, "3b", p, out, 5, 2));
  Val x4 = add(mean3x3(x1), x2);
  Val x5 = add(separable(net, "5a", x1, out, 3), largest);
  return {concatenate({x2, x3, x4, x5}), in.now};
}

}  // namespace

Val nasnet_a_mobile(ZooLayers& net, Val x) {
  net.eps = 1e-3f;
  const int64_t filters = net.wide(kLast / 24);
  Cells cells{net.conv_norm("stem", x, net.wide(kStem), square(3, 2, 0)), {}};
  cells = reduction_cell(net, "stem1", cells, std::max<int64_t>(1, filters / 4));
  cells = reduction_cell(net, "stem2", cells, std::max<int64_t>(2, filters / 2));
  for (int stage = 0; stage < 3; ++stage) {
    const int64_t out = filters << stage;
    auto name = [&](const std::string& cell) { return std::to_string(stage + 1) + cell; };
    if (stage > 0) cells = reduction_cell(net, name("reduction"), cells, out);
    for (int i = 0; i < kCells; ++i) {
      cells = normal_cell(net, name("normal" + std::to_string(i)), cells, out);
    }
  }
  return net.linear("fc", net.dropout(mean_pixels(relu(cells.now)), 0.5f), net.classes());
}

}  // namespace pal
