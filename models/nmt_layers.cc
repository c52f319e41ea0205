// Embeddings, LSTM layers, attention and output layer of the translator.
#include "models/nmt_layers.h"

#include <cmath>

#include "ops/activations.h"
#include "ops/attention_context.h"
#include "ops/attention_score.h"
#include "ops/columns.h"
#include "ops/dot_last.h"
#include "ops/dropout.h"
#include "ops/embedding.h"
#include "ops/fill.h"
#include "ops/lstm.h"
#include "ops/masked_softmax.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/reverse.h"
#include "ops/views.h"

namespace pal {

Val NmtLayers::matrix(const std::string& name, int64_t rows, int64_t columns) {
  const float half_width = o_.init == NmtOptions::InitKind::uniform
                               ? o_.init_scale
                               : std::sqrt(6.0f / float(rows + columns));  // Glorot 2010
  return b_.weight(name, {{rows, columns}}, {Init::Kind::uniform, half_width});
}

Val NmtLayers::vector(const std::string& name, int64_t size) {
  return b_.weight(name, {{size}}, {Init::Kind::constant, 0});
}

Val NmtLayers::lstm_bias(int64_t hidden) {
  return b_.weight("bias", {{4 * hidden}}, {Init::Kind::lstm_bias, o_.forget_bias});
}

NmtLayers::LstmWeights NmtLayers::lstm_weights(int64_t input, int64_t hidden) {
  return {matrix("wx", input, 4 * hidden),
          b_.weight("wh", {{hidden, 4 * hidden}}, {Init::Kind::orthogonal, 1}),
          lstm_bias(hidden)};
}

Val NmtLayers::dropout(Val x) {
  if (!scalars_ || o_.dropout == 0) return x;
  if (o_.fused) return pal::dropout(x, scalars_, o_.dropout);
  return dropout_apply(x, dropout_mask(scalars_, x.shape(), o_.dropout), o_.dropout);
}

LstmState NmtLayers::cell(Val gates, const LstmState& before, Val lengths, int64_t t) {
  if (!lengths) return o_.fused ? lstm_cell(gates, before.c) : lstm_cell_unfused(gates, before.c);
  return o_.fused ? lstm_cell(gates, before, lengths, t)
                  : lstm_cell_unfused(gates, before, lengths, t);
}

Val NmtLayers::run_lstm(const std::string& name, Val x, int64_t H, Val lengths, Val* last) {
  Builder::Within scope(b_, name);
  const int64_t S = x.shape()[0], B = x.shape()[1];
  const LstmWeights w = lstm_weights(x.shape().back(), H);
  std::vector<Val> gates = unbind(linear(x, w.wx, w.bias));  // S of (B, 4H)
  LstmState state{fill(b_, {{B, H}}, 0), fill(b_, {{B, H}}, 0)};
  std::vector<Val> h;
  for (int64_t t = 0; t < S; ++t) {
    Builder::Within step(b_, "", int32_t(t));
    state = cell(matmul(state.h, w.wh, false, false, gates[size_t(t)]), state, lengths, t);
    h.push_back(state.h);
  }
  if (last) *last = state.h;
  return stack(h);
}

Val NmtLayers::embedding_matrix(const std::string& side, int64_t words) {
  const std::string name = o_.tie == NmtOptions::Tie::all ? "embedding" : side + "/embedding";
  const float half_width =
      o_.init == NmtOptions::InitKind::uniform ? o_.init_scale : std::sqrt(3.0f / float(o_.embedding));
  return b_.state(name, {{words, o_.embedding}}, Role::weight, {Init::Kind::uniform, half_width});
}

Encoded NmtLayers::encode(Val source, Val lengths) {
  Builder::Within scope(b_, "encoder");
  const int64_t H = o_.hidden;
  Val x;
  {
    Builder::Within embed(b_, "embed");
    if (o_.reverse_source) source = reverse(source, lengths);
    x = dropout(embedding(embedding_matrix("source", o_.source_vocab), source));  // (S, B, E)
  }
  Val last;
  for (int64_t l = 0; l < o_.encoder_layers; ++l) {
    const std::string layer = "rnn" + std::to_string(l);
    if (l > 0) x = dropout(x);
    if (l == 0 && o_.bidirectional) {
      Val last_forward, last_backward;
      Val there = run_lstm(layer + "/forward", x, H / 2, lengths, &last_forward);
      Val back = run_lstm(layer + "/backward", reverse(x, lengths), H / 2, lengths, &last_backward);
      x = concatenate({there, reverse(back, lengths)});  // (S, B, H)
      last = concatenate({last_forward, last_backward});
    } else {
      x = run_lstm(layer, x, H, lengths, &last);
    }
  }
  Builder::Within attention(b_, "attention");
  Val keys = matmul(x, matrix("wk", H, o_.attention_size));
  return {keys, x, lengths, last};
}

DecoderState NmtLayers::first_state(const Encoded& encoded) {
  Builder::Within scope(b_, "decoder/init");
  const int64_t H = o_.hidden;
  DecoderState state;
  for (int64_t l = 0; l < o_.decoder_layers; ++l) {
    auto first = [&](const std::string& name) {
      return tanh(linear(encoded.last, matrix("w" + name, H, H), vector("b" + name, H)));
    };
    const std::string n = std::to_string(l);
    Val h = first("h" + n);
    state.layers.push_back({h, first("c" + n)});
  }
  state.attended = fill(b_, encoded.last.spec(), 0);
  return state;
}

Val NmtLayers::embed_target(Val words) {
  Builder::Within scope(b_, "decoder/embed");
  Val table = embedding_matrix("target", o_.target_vocab);
  Val x = dropout(embedding(table, words));
  Builder::Within first(b_, "rnn0");
  return linear(x, matrix("wx", o_.embedding, 4 * o_.hidden), lstm_bias(o_.hidden));
}

Val NmtLayers::attend(Val query, const Encoded& encoded) {
  Builder::Within scope(b_, "attention");
  Val q = matmul(query, matrix("wq", o_.hidden, o_.attention_size));  // (B, A)
  Val score;                                                          // (S, B)
  if (o_.attention == NmtOptions::Attention::mlp) {
    Val v = b_.weight("v", {{o_.attention_size}}, {Init::Kind::uniform, o_.init_scale});
    score = o_.fused ? mlp_score(encoded.keys, q, v) : mlp_score_unfused(encoded.keys, q, v);
  } else {
    score = scale_by(dot_score(encoded.keys, q), b_.weight("g", {{1}}, {Init::Kind::constant, 1}));
  }
  return attention_context(masked_softmax(score, encoded.lengths), encoded.values);
}

DecoderState NmtLayers::decode(Val word_gates, const DecoderState& before, const Encoded& encoded) {
  const int64_t H = o_.hidden;
  DecoderState next;
  Val x;
  for (int64_t l = 0; l < o_.decoder_layers; ++l) {
    Builder::Within scope(b_, "rnn" + std::to_string(l));
    const LstmState& old = before.layers[size_t(l)];
    Val gates = word_gates;
    if (l == 0 && o_.input_feeding) {
      gates = matmul(before.attended, matrix("wf", H, 4 * H), false, false, gates);
    } else if (l > 0) {
      gates = linear(dropout(x), matrix("wx", H, 4 * H), lstm_bias(H));
    }
    Val wh = b_.weight("wh", {{H, 4 * H}}, {Init::Kind::orthogonal, 1});
    next.layers.push_back(cell(matmul(old.h, wh, false, false, gates), old, {}, 0));
    x = next.layers.back().h;
  }
  Val context = attend(x, encoded);
  Builder::Within scope(b_, "attention");
  Val mixed = matmul(context, matrix("wc", H, H), false, false, matmul(x, matrix("wh", H, H)));
  next.attended = tanh(mixed);
  return next;
}

Val NmtLayers::logits(Val attended) {
  Val x = dropout(attended);
  Val bias = vector("bias", o_.target_vocab);
  if (o_.tie == NmtOptions::Tie::none) {
    return linear(x, matrix("w", o_.hidden, o_.target_vocab), bias);
  }
  return add_bias(matmul(x, embedding_matrix("target", o_.target_vocab), false, true), bias);
}

}  // namespace pal
