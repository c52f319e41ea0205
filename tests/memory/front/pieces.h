// The beginnings of real networks, small: two bottlenecks of a residual network, VGG's first
// layers, two Transformer layers, four steps of an attention decoder. Each with a loss, its
// gradients, and gradient descent.
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "autograd/differentiate.h"
#include "autograd/optimizer.h"
#include "core/builder.h"
#include "core/scalars.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_context.h"
#include "ops/attention/attention_score.h"
#include "ops/convolution/conv2d.h"
#include "ops/convolution/max_pool.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/elementwise/self_gated.h"
#include "ops/losses/masked_softmax.h"
#include "ops/norms/batch_norm.h"
#include "ops/norms/layer_norm.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"

namespace pal::test {

class Pieces {
 public:
  static Program bottlenecks() {
    return Pieces().finish([](Pieces& p) {
      Val x = p.b_.input("x", {{8, 14, 14, 32}});
      for (int i = 0; i < 2; ++i) {
        Val y = relu(p.norm(p.conv(x, 8, 1)));
        y = relu(p.norm(p.conv(y, 8, 3)));
        x = relu(add(p.norm(p.conv(y, 32, 1)), x));
      }
      return x;
    });
  }
  static Program vgg_start() {
    return Pieces().finish([](Pieces& p) {
      Val x = p.b_.input("x", {{4, 32, 32, 3}});
      for (const int64_t channels : {8, 16, 32}) {
        x = relu(p.conv(x, channels, 3));
        x = relu(p.conv(x, channels, 3));
        x = max_pool(x, max_pool_attrs(2, 2)).y;
      }
      return x;
    });
  }
  static Program transformer_layers() {
    return Pieces().finish([](Pieces& p) {
      Val x = p.b_.input("x", {{16, 8, 32}});
      for (int i = 0; i < 2; ++i) {
        Val y = p.layer_norm_of(x);
        y = attention(p.product(y, 32), p.product(y, 32), p.product(y, 32), 4);
        x = add(x, p.product(y, 32));
        x = add(x, p.product(gelu(p.product(p.layer_norm_of(x), 128)), 32));
      }
      return x;
    });
  }
  static Program attention_steps() {
    return Pieces().finish([](Pieces& p) {
      Val x = p.b_.input("x", {{32, 16}}), lengths = p.b_.input("lengths", {{32}, DType::i32});
      Val keys = p.weight({12, 32, 16}), v = p.weight({16}), w = p.weight({16, 16});
      for (int t = 0; t < 4; ++t) {
        const Val scores = mlp_score_unfused(keys, matmul(x, w), v);
        x = tanh(add(x, attention_context(masked_softmax(scores, lengths), keys)));
      }
      return x;
    });
  }

 private:
  Val weight(Shape shape) {
    weights_.push_back(b_.state("w" + std::to_string(weights_.size()), {shape}, Role::weight));
    return weights_.back();
  }
  Val conv(Val x, int64_t channels, int64_t kernel) {
    return conv2d(x, weight({channels, kernel, kernel, x.shape().back()}),
                  conv2d_attrs(1, kernel / 2));
  }
  Val norm(Val x) {
    const int64_t channels = x.shape().back();
    return batch_norm(x, weight({channels}), weight({channels})).y;
  }
  Val layer_norm_of(Val x) {
    const int64_t width = x.shape().back();
    return layer_norm(x, weight({width}), weight({width}));
  }
  Val product(Val x, int64_t columns) { return matmul(x, weight({x.shape().back(), columns})); }

  Program finish(const std::function<Val(Pieces&)>& record) {
    const Val scalars = b_.input("scalars", scalars_spec());
    const Val loss = sum_all(tanh(record(*this)));
    b_.output("loss", loss);
    apply_optimizer(b_, {.kind = OptimizerSpec::Kind::sgd}, weights_,
                    differentiate(b_, loss, weights_), scalars, {});
    return b_.take();
  }

  Builder b_;
  std::vector<Val> weights_;
};

}  // namespace pal::test
