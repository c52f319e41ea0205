// Equations 6 to 9 of Zilly et al. 2017, the carry gate tied to the transform gate (c = 1 - t):
//   h = tanh(x W_H [first layer] + s R_H + b_H),  t = sigmoid(x W_T [..] + s R_T + b_T)
//   s' = h t + s (1 - t) = s + t (h - s)
// `depth` such layers stand between one word and the next; the first reads the word too.
#include "models/rhn.h"

#include <cmath>

#include "models/translation.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/elementwise/dropout.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/columns.h"
#include "ops/tensors/embedding.h"
#include "ops/tensors/fill.h"
#include "ops/tensors/views.h"

namespace pal {
namespace {

constexpr float kInitial = 0.04f;  // half width of first weights (section 5)

Val matrix(Builder& b, const std::string& name, int64_t rows, int64_t columns) {
  return b.weight(name, {{rows, columns}}, {Init::Kind::uniform, kInitial});
}

// The layers' weights, the content's and the gate's side by side.
struct Highway {
  Highway(Builder& b, const RhnOptions& o) : width(o.hidden) {
    for (int64_t l = 0; l < o.depth; ++l) {
      Builder::Within layer(b, "layer" + std::to_string(l));
      recurrent.push_back(matrix(b, "recurrent", width, 2 * width));
      content_bias.push_back(b.weight("content_bias", {{width}}, {}));
      gate_bias.push_back(
          b.weight("gate_bias", {{width}}, {Init::Kind::constant, o.transform_bias}));
    }
  }

  // s (B, H); `word` (B, 2H): the word's part, of the first layer alone.
  Val step(Val s, Val word) const {
    for (size_t l = 0; l < recurrent.size(); ++l) {
      const auto parts = split(matmul(s, recurrent[l], false, false, word), {width, width});
      Val h = tanh(add_bias(parts[0], content_bias[l]));
      Val t = sigmoid(add_bias(parts[1], gate_bias[l]));
      s = add(s, mul(t, sub(h, s)));
      word = {};
    }
    return s;
  }

  int64_t width;
  std::vector<Val> recurrent, content_bias, gate_bias;
};

}  // namespace

RhnLoss rhn_loss(Builder& b, const RhnOptions& o, int64_t T, int64_t B, Val scalars,
                 bool training) {
  namespace in = rhn_input;
  Val tokens = b.input(in::kTokens, {{T, B}, DType::i32});
  Val next = b.input(in::kNext, {{T, B}, DType::i32});
  Val s = fill(b, {{B, o.hidden}, b.feature_type()}, 0);
  auto dropped = [&](Val x, float p) { return training ? dropout(x, scalars, p) : x; };

  Val words =
      b.state("embedding", {{o.vocab, o.hidden}}, Role::weight, {Init::Kind::uniform, kInitial});
  Val x = dropped(embedding(words, tokens), o.input_dropout);  // (T, B, H)
  std::vector<Val> states;
  {
    Builder::Within scope(b, "rhn");
    const Highway highway(b, o);
    const auto parts = unbind(matmul(x, matrix(b, "input", o.hidden, 2 * o.hidden)));
    for (int64_t t = 0; t < T; ++t) {
      Builder::Within step(b, "", int32_t(t));
      s = highway.step(s, parts[size_t(t)]);
      states.push_back(s);
    }
  }
  Builder::Within scope(b, "output");
  Val y = dropped(stack(states), o.output_dropout);
  const TranslationLoss loss = output_loss(y, next, scalars, 0, o.loss_chunks, [&](Val rows) {
    Val logits = o.tied ? matmul(rows, words, false, true)
                        : matmul(rows, matrix(b, "weight", o.hidden, o.vocab));
    return add_bias(logits, b.weight("bias", {{o.vocab}}, {}));
  });
  return {loss.loss, loss.nll};
}

}  // namespace pal
