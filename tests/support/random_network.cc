// The layers, and which of them comes next.
#include "tests/support/random_network.h"

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "autograd/differentiate.h"
#include "autograd/optimizer.h"
#include "core/scalars.h"
#include "ops/attention/attention_context.h"
#include "ops/attention/attention_score.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/elementwise/dropout.h"
#include "ops/losses/masked_softmax.h"
#include "ops/products/matmul.h"
#include "ops/recurrent/lstm.h"
#include "ops/sums/reduce.h"

namespace pal::test {
namespace {

class Network {
 public:
  Network(uint64_t seed, const NetworkOptions& o) : o_(o), random_(seed) {
    scalars_ = b_.input("scalars", scalars_spec());
    lengths_ = b_.input("lengths", {{o.batch}, DType::i32});
    keys_ = weight("keys", {o.steps, o.batch, o.width}), v_ = weight("v", {o.width});
    Val x = b_.input("x", {{o.batch, o.width}});
    pool_ = {product(x), x};
  }

  Program run() {
    for (int i = 0; i < o_.layers; ++i) pool_.push_back(layer(int32_t(i)));
    Val loss = sum_all(mul(add(pool_.back(), recent()), b_.input("c", recent().spec())));
    b_.output("loss", loss);
    const std::vector<Val> gradients = differentiate(b_, loss, weights_);
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i]) b_.output("d" + std::to_string(i), gradients[i]);
    }
    apply_optimizer(b_, {.kind = OptimizerSpec::Kind::sgd}, weights_, gradients, scalars_, {});
    return b_.take();
  }

 private:
  size_t below(size_t n) { return size_t(random_() % n); }
  Val recent() { return pool_[pool_.size() - 1 - below(std::min<size_t>(pool_.size(), 4))]; }
  Val weight(const std::string& name, Shape shape) {
    weights_.push_back(b_.state(name, {shape}, Role::weight));
    return weights_.back();
  }
  Val product(Val x, int64_t columns = 1) {
    return matmul(x, weight("w" + std::to_string(weights_.size()), {o_.width, columns * o_.width}));
  }

  Val layer(int32_t i) {
    Builder::Within scope(b_, "layer" + std::to_string(i), i);
    const Val x = recent();
    const float p = 0.25f;
    switch (below(11)) {
      case 0: return product(x);
      case 1: return tanh(x);
      case 2: return relu(x);
      case 3: return clip(x, 0, 0.5f);
      case 4: return mul(x, recent());
      case 5: return add(scale(x, 0.5f), recent());
      case 6: return dropout_apply(x, dropout_mask(scalars_, x.spec(), p), p);
      case 7: return dropout(x, scalars_, p);
      case 8: return lstm_cell_unfused(product(x, 4), recent()).h;
      case 9: {
        const LstmState before{recent(), recent()};
        return lstm_cell_unfused(product(x, 4), before, lengths_, i % 4).h;
      }
      default:
        return attention_context(masked_softmax(mlp_score_unfused(keys_, x, v_), lengths_), keys_);
    }
  }

  const NetworkOptions o_;
  std::mt19937_64 random_;
  Builder b_;
  Val scalars_, lengths_, keys_, v_;
  std::vector<Val> pool_, weights_;
};

}  // namespace

Program random_network(uint64_t seed, const NetworkOptions& options) {
  return Network(seed, options).run();
}

uint64_t networks_asked(uint64_t usual) {
  const char* asked = std::getenv("PAL_TEST_NETWORKS");
  return asked ? uint64_t(std::atoll(asked)) : usual;
}

}  // namespace pal::test
