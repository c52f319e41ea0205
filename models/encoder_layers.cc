// Vaswani et al. 2017, section 3.1, with the activation and the biases of Devlin et al. 2019.
#include "models/encoder_layers.h"

#include "ops/attention/attention.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/dropout.h"
#include "ops/elementwise/self_gated.h"
#include "ops/norms/layer_norm.h"
#include "ops/products/matmul.h"

namespace pal {

Val EncoderLayers::linear(const std::string& name, Val x, int64_t out) {
  Builder::Within scope(b_, name);
  const Init init{Init::Kind::normal, 0.02f};  // Devlin, section A.2
  Val w = b_.weight("weight", {{x.shape().back(), out}}, init);
  return pal::linear(x, w, b_.weight("bias", {{out}}, {}));
}

Val EncoderLayers::norm(const std::string& name, Val x) {
  Builder::Within scope(b_, name);
  const TensorSpec vector{{x.shape().back()}};
  Val gain = b_.weight("weight", vector, {Init::Kind::constant, 1});
  return layer_norm(x, gain, b_.weight("bias", vector, {}), o_.eps);
}

Val EncoderLayers::dropout(Val x) { return scalars_ ? pal::dropout(x, scalars_, o_.dropout) : x; }

Val EncoderLayers::attend(Val x, Val lengths) {
  Val qkv = linear("qkv", x, 3 * o_.hidden);  // side by side
  const float p = scalars_ ? o_.attention_dropout : 0;
  return linear("out", attention(qkv, {}, {}, o_.heads, {.lengths = lengths}, p, scalars_),
                o_.hidden);
}

Val EncoderLayers::feed_forward(Val x) {
  return linear("w2", gelu(linear("w1", x, o_.ffn)), o_.hidden);
}

Val EncoderLayers::layer(const std::string& name, Val x, Val lengths) {
  Builder::Within scope(b_, name);
  auto residual = [&](const std::string& at, auto&& f) {
    Builder::Within inner(b_, at);
    if (o_.pre) {
      Val normed = norm("norm", x);
      x = add(x, dropout(f(normed)));
    } else {
      Val sum = add(x, dropout(f(x)));
      x = norm("norm", sum);
    }
  };
  residual("attention", [&](Val y) { return attend(y, lengths); });
  residual("ffn", [&](Val y) { return feed_forward(y); });
  return x;
}

}  // namespace pal
