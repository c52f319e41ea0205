// Embeddings of words, positions and segments; the encoder's layers; the head that guesses words.
#include "models/bert.h"

#include "core/error.h"
#include "models/translation.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/self_gated.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/embedding.h"
#include "ops/tensors/row_order.h"
#include "ops/tensors/views.h"

namespace pal {
namespace {

EncoderLayers layers_of(Builder& b, const BertOptions& o, Val scalars) {
  return {b,
          {.hidden = o.hidden,
           .ffn = o.ffn,
           .heads = o.heads,
           .eps = o.eps,
           .dropout = o.dropout,
           .attention_dropout = o.attention_dropout},
          scalars};
}

Val table(Builder& b, const std::string& name, int64_t rows, int64_t columns) {
  return b.state(name, {{rows, columns}}, Role::weight, {Init::Kind::normal, 0.02f});
}
Val word_table(Builder& b, const BertOptions& o) {
  return table(b, "embed/words", o.vocab, o.hidden);
}

// Section 3, figure 2: the sum of three embeddings, normalised.
Val embed(Builder& b, const BertOptions& o, Val tokens, Val scalars) {
  Builder::Within scope(b, "embed");
  const int64_t S = tokens.shape()[0], D = o.hidden;
  if (o.first_position + S > o.positions) {
    throw UsageError("model: texts of " + std::to_string(S) +
                     " words, but there are positions for " +
                     std::to_string(o.positions - o.first_position));
  }
  Val x = embedding(word_table(b, o), tokens);  // (S, B, D)
  Val positions = slice(table(b, "embed/positions", o.positions, D), o.first_position,
                        o.first_position + S);  // (S, D)
  Val segment = slice(table(b, "embed/segments", o.segments, D), 0, 1);
  // The same for every text: broadcast over texts, which are the second axis.
  Val same = add_broadcast(positions, reshape(segment, {D}));
  x = swap_leading(add_broadcast(swap_leading(x), same));
  EncoderLayers layers = layers_of(b, o, scalars);
  return layers.dropout(layers.norm("norm", x));
}

}  // namespace

BertOptions bert_base() { return {}; }

BertOptions xlmr_base() {
  return {.vocab = 250002, .positions = 514, .segments = 1, .first_position = 2, .eps = 1e-5f};
}

Val bert_encode(Builder& b, const BertOptions& o, Val tokens, Val lengths, Val scalars) {
  Val x = embed(b, o, tokens, scalars);
  EncoderLayers layers = layers_of(b, o, scalars);
  for (int64_t l = 0; l < o.layers; ++l) x = layers.layer("layer" + std::to_string(l), x, lengths);
  return x;
}

Val bert_pool(Builder& b, const BertOptions& o, Val encoded) {
  Builder::Within scope(b, "pooler");
  Val first = reshape(slice(encoded, 0, 1), {encoded.shape()[1], o.hidden});
  return tanh(layers_of(b, o, {}).linear("dense", first, o.hidden));
}

BertLoss bert_loss(Builder& b, const BertOptions& o, int64_t S, int64_t B, Val scalars,
                   bool training) {
  namespace in = bert_input;
  Val tokens = b.input(in::kTokens, {{S, B}, DType::i32});
  Val lengths = b.input(in::kLengths, {{B}, DType::i32});
  Val hidden = b.input(in::kHidden, {{S, B}, DType::i32});
  Val x = bert_encode(b, o, tokens, lengths, training ? scalars : Val{});
  Builder::Within scope(b, "head");
  EncoderLayers layers = layers_of(b, o, {});
  const TranslationLoss loss = output_loss(x, hidden, scalars, 0, o.loss_chunks, [&](Val rows) {
    Val y = layers.norm("norm", gelu(layers.linear("dense", rows, o.hidden)));
    y = matmul(y, word_table(b, o), false, true);
    return add_bias(y, b.weight("bias", {{o.vocab}}, {}));
  });
  return {loss.loss, loss.nll};
}

}  // namespace pal
