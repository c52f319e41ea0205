// The stem, four (or three) stages of blocks, the mean, and the output layer.
#include "models/resnet.h"

#include "core/error.h"
#include "models/conv_layers.h"
#include "ops/convolution/global_avg_pool.h"
#include "ops/convolution/max_pool.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/tensors/subsample.h"

namespace pal {
namespace {

class ResidualNetwork {
 public:
  ResidualNetwork(Builder& b, const ResNetOptions& o, bool training,
                  std::vector<MovedStatistic>& moved)
      : o_(o), stages_(resnet_stages(o)), layers_(b, training, moved), b_(b) {}

  Val logits(Val x) {
    int64_t width = o_.width.value_or(o_.family == ResNetOptions::Family::cifar ? 16 : 64);
    x = stem(x, width);
    for (size_t s = 0; s < stages_.blocks.size(); ++s, width *= 2) {
      Builder::Within stage(b_, "layer" + std::to_string(s + 1));
      for (int64_t i = 0; i < stages_.blocks[s]; ++i) {
        Builder::Within block(b_, std::to_string(i));
        const int64_t stride = i == 0 && s > 0 ? 2 : 1;
        const bool projects = i == 0 && s == 0 && stages_.projects_first;
        x = o_.version == ResNetOptions::Version::v2 ? block_v2(x, width, stride, projects)
                                                     : block_v1(x, width, stride, projects);
      }
    }
    if (o_.version == ResNetOptions::Version::v2) x = relu(layers_.norm("norm", x));
    return layers_.linear("fc", global_avg_pool(x), o_.classes);
  }

 private:
  Val stem(Val x, int64_t width) {
    const bool cifar = o_.family == ResNetOptions::Family::cifar;
    x = layers_.conv("conv1", x, width, cifar ? 3 : 7, cifar ? 1 : 2);
    // Of v2, CIFAR's first block begins with this norm.
    if (cifar && o_.version == ResNetOptions::Version::v2) return x;
    x = relu(layers_.norm("bn1", x));
    return cifar ? x : max_pool(x, max_pool_attrs(3, 2, 1)).y;
  }

  int64_t outputs(int64_t width) const { return stages_.bottleneck ? 4 * width : width; }

  // The block's other way: x itself, where neither size nor width changes. `from` is what a
  // projection reads.
  Val shortcut(Val x, Val from, int64_t width, int64_t stride, bool projects, bool normed) {
    const int64_t wanted = outputs(width);
    if (stride == 1 && x.shape().back() == wanted && !projects) return x;
    if (o_.shortcut == ResNetOptions::Shortcut::identity && !projects) {
      return subsample(x, stride, wanted);
    }
    Builder::Within scope(b_, "downsample");
    Val projected = layers_.conv("0", from, wanted, 1, stride);
    return normed ? layers_.norm("1", projected) : projected;
  }

  // relu(F(x) + shortcut)
  Val block_v1(Val x, int64_t width, int64_t stride, bool projects) {
    const float last_gain = o_.zero_init ? 0 : 1;
    Val y;
    if (stages_.bottleneck) {
      y = relu(layers_.norm("bn1", layers_.conv("conv1", x, width, 1)));
      y = relu(layers_.norm("bn2", layers_.conv("conv2", y, width, 3, stride)));
      y = layers_.norm("bn3", layers_.conv("conv3", y, 4 * width, 1), last_gain);
    } else {
      y = relu(layers_.norm("bn1", layers_.conv("conv1", x, width, 3, stride)));
      y = layers_.norm("bn2", layers_.conv("conv2", y, width, 3), last_gain);
    }
    return relu(add(y, shortcut(x, x, width, stride, projects, true)));
  }

  // F(relu(norm(x))) + shortcut; a projection reads what F reads.
  Val block_v2(Val x, int64_t width, int64_t stride, bool projects) {
    Val before = relu(layers_.norm("bn1", x)), y;
    Val other = shortcut(x, before, width, stride, projects, false);
    if (stages_.bottleneck) {
      y = layers_.conv("conv1", before, width, 1);
      y = layers_.conv("conv2", relu(layers_.norm("bn2", y)), width, 3, stride);
      y = layers_.conv("conv3", relu(layers_.norm("bn3", y)), 4 * width, 1, 1, o_.zero_init);
    } else {
      y = layers_.conv("conv1", before, width, 3, stride);
      y = layers_.conv("conv2", relu(layers_.norm("bn2", y)), width, 3, 1, o_.zero_init);
    }
    return add(y, other);
  }

  const ResNetOptions& o_;
  ResNetStages stages_;
  ConvLayers layers_;
  Builder& b_;
};

}  // namespace

ResNetStages resnet_stages(const ResNetOptions& o) {
  const std::string depth = "depth: " + std::to_string(o.depth);
  if (o.family == ResNetOptions::Family::cifar) {
    const int64_t n = (o.depth - 2) / 6, rest = (o.depth - 2) % 6;
    if (n < 1 || (rest != 0 && rest != 3)) {
      throw UsageError("model." + depth +
                       " is not 6n + 2 (20, 56, 110, 1202), nor 6n + 5 with a "
                       "projection in every stage (509, 851)");
    }
    if (rest == 3 && o.shortcut == ResNetOptions::Shortcut::identity) {
      throw UsageError("model." + depth +
                       ", 6n + 5, counts a projection in every stage; use "
                       "model.shortcut projection, or a depth of 6n + 2");
    }
    return {.blocks = {n, n, n}, .projects_first = rest == 3};
  }
  switch (o.depth) {
    case 18: return {false, {2, 2, 2, 2}};
    case 34: return {false, {3, 4, 6, 3}};
    case 50: return {true, {3, 4, 6, 3}};
    case 101: return {true, {3, 4, 23, 3}};
    case 152: return {true, {3, 8, 36, 3}};
    case 200: return {true, {3, 24, 36, 3}};
    case 269: return {true, {3, 30, 48, 8}};
    default:
      throw UsageError("model." + depth +
                       " is none of 18, 34, 50, 101, 152, 200, 269; model.family "
                       "cifar has 6n + 2");
  }
}

ImageModel resnet_model(const ResNetOptions& options) {
  resnet_stages(options);  // its errors, now
  return {.channels = options.channels,
          .classes = options.classes,
          .logits = [options](Builder& b, Val x, Val, bool training,
                              std::vector<MovedStatistic>& moved) {
            return ResidualNetwork(b, options, training, moved).logits(x);
          }};
}

}  // namespace pal
