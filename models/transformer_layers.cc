// Embeddings, attention, feed-forward layers and stacks of the Transformer.
#include "models/transformer_layers.h"

#include <cmath>

#include "ops/attention/attention_step.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/norms/layer_norm.h"
#include "ops/products/matmul.h"
#include "ops/tensors/embedding.h"
#include "ops/tensors/positions.h"
#include "ops/tensors/views.h"

namespace pal {
namespace {

std::string layer_name(int64_t l) { return "layer" + std::to_string(l); }
std::string source_scope(int64_t l) { return "decoder/" + layer_name(l) + "/source_attention"; }

}  // namespace

Val TransformerLayers::matrix(const std::string& name, int64_t rows, int64_t columns) {
  const float half_width = std::sqrt(6.0f / float(rows + columns));  // Glorot and Bengio 2010
  return b_.weight(name, {{rows, columns}}, {Init::Kind::uniform, half_width});
}

Val TransformerLayers::stacked(const std::string& name, int64_t count) {
  const int64_t D = o_.hidden;
  const float half_width = std::sqrt(6.0f / float(D + D));  // of each: Glorot and Bengio 2010
  return b_.weight(name, {{count * D, D}}, {Init::Kind::uniform, half_width});
}

std::vector<Val> TransformerLayers::products(Val x, const std::string& name, int64_t count) {
  const int64_t D = o_.hidden;
  std::vector<Val> out;
  for (Val w : unbind(reshape(stacked(name, count), {count, D, D}))) {
    b_.program().value(w.id).role = Role::weight;  // a view of one
    out.push_back(matmul(x, w, false, true));
  }
  return out;
}

Val TransformerLayers::embedding_matrix(const std::string& side, int64_t words) {
  const std::string name =
      o_.tie == TransformerOptions::Tie::all ? "embedding" : side + "/embedding";
  const float deviation = 1 / std::sqrt(float(o_.hidden));  // scaled by its inverse in embed()
  return b_.state(name, {{words, o_.hidden}}, Role::weight, {Init::Kind::normal, deviation});
}

// Sections 3.4 and 3.5: embedding times sqrt(D), plus positions.
Val TransformerLayers::embed(const std::string& side, int64_t words, Val ids, Val position) {
  Builder::Within scope(b_, "embed");
  Val x = embedding(embedding_matrix(side, words), ids);
  x = add_positions(x, std::sqrt(float(o_.hidden)), position);
  return dropout(x, o_.dropout);
}

Val TransformerLayers::normalise(Val x) {
  Builder::Within scope(b_, "norm");
  return layer_norm(x, b_.weight("gain", {{o_.hidden}}, {Init::Kind::constant, 1}),
                    b_.weight("bias", {{o_.hidden}}, {Init::Kind::constant, 0}));
}

Val TransformerLayers::residual(const std::string& name, Val x, const Sublayer& f) {
  Builder::Within scope(b_, name);
  if (o_.norm == TransformerOptions::Norm::pre) return add(x, dropout(f(normalise(x)), o_.dropout));
  return normalise(add(x, dropout(f(x), o_.dropout)));
}

Val TransformerLayers::end_of_stack(Val x) {
  return o_.norm == TransformerOptions::Norm::pre ? normalise(x) : x;
}

// Section 3.2.2: Concat(head_1, .., head_h) W^O.
Val TransformerLayers::attend(const std::vector<Val>& qkv, AttentionMask mask) {
  const int64_t D = o_.hidden;
  const float p = scalars_ ? o_.attention_dropout.value_or(o_.dropout) : 0;
  auto attention_of = o_.fused ? attention : attention_unfused;
  auto part = [&](size_t i) { return i < qkv.size() ? qkv[i] : Val{}; };
  Val heads = attention_of(part(0), part(1), part(2), o_.heads, mask, p, scalars_);
  return matmul(heads, matrix("wo", D, D));
}

Val TransformerLayers::attend_to_itself(Val x, AttentionMask mask) {
  if (!o_.fused) return attend(products(x, "wqkv", 3), mask);
  return attend({matmul(x, stacked("wqkv", 3), false, true)}, mask);
}

Val TransformerLayers::attend_to_source(Val x, std::vector<Val> keys_values, Val lengths) {
  const int64_t D = o_.hidden;
  keys_values.insert(keys_values.begin(), matmul(x, matrix("wq", D, D)));
  return attend(keys_values, {.lengths = lengths});
}

// Section 3.3: max(0, x W1 + b1) W2 + b2.
Val TransformerLayers::feed_forward(Val x) {
  auto bias = [&](const std::string& name, int64_t size) {
    return b_.weight(name, {{size}}, {Init::Kind::constant, 0});
  };
  Val inner = relu(linear(x, matrix("w1", o_.hidden, o_.ffn), bias("b1", o_.ffn)));
  inner = dropout(inner, o_.activation_dropout.value_or(o_.dropout));
  return linear(inner, matrix("w2", o_.ffn, o_.hidden), bias("b2", o_.hidden));
}

Val TransformerLayers::encode(Val source, Val lengths) {
  Builder::Within scope(b_, "encoder");
  Val x = embed("source", o_.source_vocab, source);
  for (int64_t l = 0; l < o_.encoder_layers; ++l) {
    Builder::Within layer(b_, layer_name(l));
    x = residual("self_attention", x,
                 [&](Val y) { return attend_to_itself(y, {.lengths = lengths}); });
    x = residual("ffn", x, [&](Val y) { return feed_forward(y); });
  }
  return end_of_stack(x);
}

KeysValues TransformerLayers::source_keys_values(int64_t l, Val encoded) {
  Builder::Within scope(b_, source_scope(l));
  const std::vector<Val> out = products(encoded, "wkv", 2);
  return {out[0], out[1]};
}

Val TransformerLayers::decoder_layer(int64_t l, Val x, const Sublayer& self_attention,
                                     const Sublayer& source_attention) {
  Builder::Within layer(b_, layer_name(l));
  x = residual("self_attention", x, self_attention);
  x = residual("source_attention", x, source_attention);
  return residual("ffn", x, [&](Val y) { return feed_forward(y); });
}

Val TransformerLayers::decode(Val target, Val encoded, Val lengths) {
  std::vector<std::vector<Val>> source;  // keys and values, side by side where attention is fused
  for (int64_t l = 0; l < o_.decoder_layers; ++l) {
    Builder::Within scope(b_, source_scope(l));
    source.push_back(o_.fused ? std::vector<Val>{matmul(encoded, stacked("wkv", 2), false, true)}
                              : products(encoded, "wkv", 2));
  }
  Builder::Within scope(b_, "decoder");
  Val x = embed("target", o_.target_vocab, target);
  for (int64_t l = 0; l < o_.decoder_layers; ++l) {
    // A word sees the words before it and itself; what follows the end of a sentence is not
    // counted by the loss, so that its length need not be known here.
    x = decoder_layer(
        l, x, [&](Val y) { return attend_to_itself(y, {.causal = true}); },
        [&](Val y) { return attend_to_source(y, source[size_t(l)], lengths); });
  }
  return end_of_stack(x);
}

Val TransformerLayers::decode_step(Val token, Val position, Val rows, Val lengths,
                                   std::vector<Cached>& layers) {
  Builder::Within scope(b_, "decoder");
  const int64_t D = o_.hidden, B = token.shape()[1];
  Val x = reshape(embed("target", o_.target_vocab, token, position), {B, D});
  for (int64_t l = 0; l < o_.decoder_layers; ++l) {
    Cached& cached = layers[size_t(l)];
    auto step = [&](Val q, const KeysValues& to, Val count, const KeysValues& own, Val from) {
      Val heads =
          attention_step(q, to.keys, to.values, count, o_.heads, own.keys, own.values, from);
      return matmul(heads, matrix("wo", D, D));
    };
    x = decoder_layer(
        l, x,
        [&](Val y) {
          const std::vector<Val> qkv = products(y, "wqkv", 3);
          cached.own = {qkv[1], qkv[2]};
          return step(qkv[0], cached.target, position, cached.own, rows);
        },
        [&](Val y) { return step(matmul(y, matrix("wq", D, D)), cached.source, lengths, {}, {}); });
  }
  return end_of_stack(x);
}

Val TransformerLayers::logits(Val x) {
  if (o_.tie == TransformerOptions::Tie::none) {
    return matmul(x, matrix("w", o_.hidden, o_.target_vocab));
  }
  return matmul(x, embedding_matrix("target", o_.target_vocab), false, true);
}

}  // namespace pal
