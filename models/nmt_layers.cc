// Embeddings, LSTM layers, attention and output layer of the translator.
#include "models/nmt_layers.h"

#include <cmath>

#include "ops/attention/attention_context.h"
#include "ops/attention/attention_score.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/losses/masked_softmax.h"
#include "ops/norms/layer_norm.h"
#include "ops/products/matmul.h"
#include "ops/recurrent/hold.h"
#include "ops/recurrent/lstm.h"
#include "ops/recurrent/recurrent_layer.h"
#include "ops/sums/dot_last.h"
#include "ops/sums/reduce.h"
#include "ops/sums/scale_by.h"
#include "ops/tensors/columns.h"
#include "ops/tensors/embedding.h"
#include "ops/tensors/fill.h"
#include "ops/tensors/row_order.h"
#include "ops/tensors/views.h"

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
          b_.weight("wh", {{hidden, 4 * hidden}}, {Init::Kind::orthogonal, 1}), lstm_bias(hidden)};
}

Val NmtLayers::normalise(const std::string& name, Val x, Val shift) {
  const int64_t width = x.shape().back();
  Val gain = b_.weight("gain_" + name, {{width}}, {Init::Kind::constant, 1});
  return layer_norm(x, gain, shift ? shift : zeros(b_, {{width}}));
}

// Plain: W x + U h + bias. Normalised (Ba et al. 2016, equation 20; Sockeye's LayerNormLSTMCell):
// LN(W x) + LN(U h) + bias, each norm over all 4H with a gain of its own. Either way the input's
// part brings the bias; shifts of the norms would be second and third biases.
Val NmtLayers::gates(Val from_input, Val h, Val wh) {
  if (!o_.layer_norm) return matmul(h, wh, false, false, from_input);
  return add(from_input, normalise("h", matmul(h, wh), {}));
}

// The same cell, but h = sigmoid(o) tanh(LN(c)) (equation 22); the next step's c is not normalised.
LstmState NmtLayers::normalised_cell(Val gates, const LstmState& before) {
  const int64_t H = before.c.shape().back();
  Val c, o;
  if (o_.fused) {
    c = lstm_cell(gates, before.c).c;  // its h is not read
    o = sigmoid(slice_columns(gates, 3 * H, 4 * H));
  } else {
    const std::vector<Val> x = split(gates, {H, H, H, H});  // i, f, g, o
    c = add(mul(sigmoid(x[1]), before.c), mul(sigmoid(x[0]), tanh(x[2])));
    o = sigmoid(x[3]);
  }
  return {mul(o, tanh(normalise("c", c, vector("shift_c", H)))), c};
}

LstmState NmtLayers::cell(Val gates, const LstmState& before, Val lengths, int64_t t) {
  if (o_.layer_norm) {
    const LstmState next = normalised_cell(gates, before);
    if (!lengths) return next;
    return {hold(next.h, before.h, lengths, t), hold(next.c, before.c, lengths, t)};
  }
  if (!lengths) return o_.fused ? lstm_cell(gates, before.c) : lstm_cell_unfused(gates, before.c);
  return o_.fused ? lstm_cell(gates, before, lengths, t)
                  : lstm_cell_unfused(gates, before, lengths, t);
}

Val NmtLayers::run_lstm(const std::string& name, Val x, int64_t H, Val lengths, Val* last) {
  Builder::Within scope(b_, name);
  const int64_t S = x.shape()[0], B = x.shape()[1];
  const LstmWeights w = lstm_weights(x.shape().back(), H);
  if (o_.whole_layers) {
    const Val y = lstm_layer({x, w.wx, w.wh, w.bias, lengths}, false);
    if (last) *last = reshape(slice(y, S - 1, S), {B, H});  // a row that has ended keeps its state
    return y;
  }
  std::vector<Val> inputs = unbind(o_.layer_norm ? normalise("x", matmul(x, w.wx), w.bias)
                                                 : linear(x, w.wx, w.bias));  // S of (B, 4H)
  const TensorSpec spec{{B, H}, x.spec().dtype};
  LstmState state{fill(b_, spec, 0), fill(b_, spec, 0)};
  std::vector<Val> h;
  for (int64_t t = 0; t < S; ++t) {
    Builder::Within step(b_, "", int32_t(t));
    state = cell(gates(inputs[size_t(t)], state.h, w.wh), state, lengths, t);
    h.push_back(state.h);
  }
  if (last) *last = state.h;
  return stack(h);
}

Val NmtLayers::embedding_matrix(const std::string& side, int64_t words) {
  const bool one = o_.tie == NmtOptions::Tie::all || o_.tie == NmtOptions::Tie::embeddings;
  const std::string name = one ? "embedding" : side + "/embedding";
  const float half_width = o_.init == NmtOptions::InitKind::uniform
                               ? o_.init_scale
                               : std::sqrt(3.0f / float(o_.embedding));
  return b_.state(name, {{words, o_.embedding}}, Role::weight, {Init::Kind::uniform, half_width});
}

Encoded NmtLayers::encode(Val source, Val lengths) {
  Val last;
  const Encoded encoded = read_source(source, lengths, last);
  first_ = state_after(last);
  return encoded;
}

Encoded NmtLayers::read_source(Val source, Val lengths, Val& last) {
  Builder::Within scope(b_, "encoder");
  const int64_t H = o_.hidden;
  Val x;
  {
    Builder::Within embed(b_, "embed");
    if (o_.reverse_source) source = reverse(source, lengths);
    x = embedding(embedding_matrix("source", o_.source_vocab), source);  // (S, B, E)
    x = embedding_dropout(x);
  }
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
  return {keys, x, lengths};
}

DecoderState NmtLayers::state_after(Val last) {
  Builder::Within scope(b_, "decoder/init");
  const int64_t H = o_.hidden;
  DecoderState state;
  for (int64_t l = 0; l < o_.decoder_layers; ++l) {
    auto first = [&](const std::string& name) {
      Val bias = vector("b" + name, H), w = matrix("w" + name, H, H);
      if (!o_.attention_layer_norm) return tanh(linear(last, w, bias));
      return tanh(normalise(name, matmul(last, w), bias));
    };
    const std::string n = std::to_string(l);
    Val h = first("h" + n);
    state.layers.push_back({h, first("c" + n)});
  }
  state.attended = fill(b_, last.spec(), 0);
  return state;
}

Val NmtLayers::embed_target(Val words) {
  Builder::Within scope(b_, "decoder/embed");
  Val table = embedding_matrix("target", o_.target_vocab);
  Val x = embedding_dropout(embedding(table, words));
  Builder::Within first(b_, "rnn0");
  Val bias = o_.layer_norm ? Val{} : lstm_bias(o_.hidden);  // else decode() adds it
  return linear(x, matrix("wx", o_.embedding, 4 * o_.hidden), bias);
}

Val NmtLayers::attend(Val query, const Encoded& encoded) {
  Builder::Within scope(b_, "attention");
  Val q = matmul(query, matrix("wq", o_.hidden, o_.attention_size));  // (B, A)
  Val score;                                                          // (S, B)
  if (o_.attention == NmtOptions::Attention::mlp) {
    Val v = b_.weight("v", {{o_.attention_size}}, {Init::Kind::uniform, o_.init_scale});
    if (o_.attention_layer_norm) {
      Val sum = normalise("score", add_broadcast(encoded.keys, q),
                          vector("shift_score", o_.attention_size));  // (S, B, A)
      score = dot_last(tanh(sum), v);
    } else {
      score = o_.fused ? mlp_score(encoded.keys, q, v) : mlp_score_unfused(encoded.keys, q, v);
    }
  } else {
    score = scale_by(dot_score(encoded.keys, q), b_.weight("g", {{1}}, {Init::Kind::constant, 1}));
  }
  return attention_context(masked_softmax(score, encoded.lengths), encoded.values);
}

Val NmtLayers::decode(Val word_gates, DecoderState& state, const Encoded& encoded) {
  const int64_t H = o_.hidden;
  Val x;
  for (int64_t l = 0; l < o_.decoder_layers; ++l) {
    Builder::Within scope(b_, "rnn" + std::to_string(l));
    LstmState& layer = state.layers[size_t(l)];
    Val input = word_gates;  // (B, 4H)
    if (l == 0 && o_.input_feeding) {
      input = matmul(state.attended, matrix("wf", H, 4 * H), false, false, input);
    } else if (l > 0) {
      Val bias = o_.layer_norm ? Val{} : lstm_bias(H);
      input = linear(dropout(x), matrix("wx", H, 4 * H), bias);
    }
    if (o_.layer_norm) input = normalise("x", input, lstm_bias(H));
    Val wh = b_.weight("wh", {{H, 4 * H}}, {Init::Kind::orthogonal, 1});
    layer = cell(gates(input, layer.h, wh), layer, {}, 0);
    x = layer.h;
  }
  Val context = attend(x, encoded);
  Builder::Within scope(b_, "attention");
  Val of_h = matmul(dropout(x, o_.hidden_dropout), matrix("wh", H, H));
  Val mixed = matmul(dropout(context, o_.hidden_dropout), matrix("wc", H, H), false, false, of_h);
  if (o_.attention_layer_norm) mixed = normalise("hidden", mixed, vector("shift_hidden", H));
  state.attended = tanh(mixed);
  return state.attended;
}

Val NmtLayers::logits(Val x) {
  Val bias = vector("bias", o_.target_vocab);
  if (o_.tie == NmtOptions::Tie::none || o_.tie == NmtOptions::Tie::embeddings) {
    return linear(x, matrix("w", o_.hidden, o_.target_vocab), bias);
  }
  return add_bias(matmul(x, embedding_matrix("target", o_.target_vocab), false, true), bias);
}

}  // namespace pal
