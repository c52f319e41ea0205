// The layers of Figure 1 of Wu et al. 2016.
#include "models/gnmt.h"

#include "core/error.h"
#include "models/recurrent_translator.h"
#include "ops/attention/attention_context.h"
#include "ops/attention/attention_score.h"
#include "ops/elementwise/add.h"
#include "ops/losses/masked_softmax.h"
#include "ops/products/matmul.h"
#include "ops/recurrent/recurrent_layer.h"
#include "ops/tensors/columns.h"
#include "ops/tensors/embedding.h"
#include "ops/tensors/fill.h"
#include "ops/tensors/row_order.h"

namespace pal {
namespace {

// Weights, dropout, and a layer over all steps or at one.
class GnmtLayers {
 protected:
  GnmtLayers(Builder& builder, const GnmtOptions& options, Val scalars)
      : b_(builder), o_(options), scalars_(scalars) {}

  Val matrix(const std::string& name, int64_t rows, int64_t columns) {
    return b_.weight(name, {{rows, columns}}, {Init::Kind::uniform, o_.init_scale});
  }
  Val bias(int64_t size) { return b_.weight("bias", {{size}}, {}); }
  Val dropout(Val x) { return dropped(x, o_.dropout, scalars_, o_.fused); }

  LstmState zeros_of(int64_t batch) {
    const TensorSpec spec{{batch, o_.hidden}, b_.feature_type()};
    return {fill(b_, spec, 0), fill(b_, spec, 0)};
  }

  Val embed(const std::string& side, int64_t words, Val ids) {
    const std::string name = o_.share_embedding ? "embedding" : side + "/embedding";
    const Init init{Init::Kind::uniform, o_.init_scale};
    return embedding(b_.state(name, {{words, o_.hidden}}, Role::weight, init), ids);
  }

  struct InputWeights {
    Val bias, wx;
  };  // (4H), (I, 4H)
  InputWeights input_weights(int64_t width) {
    return {bias(4 * o_.hidden), matrix("wx", width, 4 * o_.hidden)};
  }
  // The input's part of the gates: (.., I) -> (.., 4H).
  Val input_gates(Val x) {
    const InputWeights w = input_weights(x.shape().back());
    return linear(x, w.wx, w.bias);
  }

  // One layer over all steps: (S, B, I) -> (S, B, H).
  Val run_lstm(const std::string& name, Val x, Val lengths) {
    Builder::Within scope(b_, name);
    if (o_.whole_layers) {
      const InputWeights w = input_weights(x.shape().back());
      Val wh = matrix("wh", o_.hidden, 4 * o_.hidden);
      return lstm_layer({x, w.wx, wh, w.bias, lengths}, false);
    }
    const auto inputs = unbind(input_gates(x));
    Val wh = matrix("wh", o_.hidden, 4 * o_.hidden);
    LstmState state = zeros_of(x.shape()[1]);
    std::vector<Val> h;
    for (int64_t t = 0; t < x.shape()[0]; ++t) {
      Builder::Within step(b_, "", int32_t(t));
      Val gates = matmul(state.h, wh, false, false, inputs[size_t(t)]);
      state = o_.fused ? lstm_cell(gates, state, lengths, t)
                       : lstm_cell_unfused(gates, state, lengths, t);
      h.push_back(state.h);
    }
    return stack(h);
  }

  // A layer of the decoder at one step: the input's part of the gates (B, 4H) -> h (B, H).
  Val cell(const std::string& name, Val gates, LstmState& state) {
    Builder::Within scope(b_, name);
    gates = matmul(state.h, matrix("wh", o_.hidden, 4 * o_.hidden), false, false, gates);
    state = o_.fused ? lstm_cell(gates, state.c) : lstm_cell_unfused(gates, state.c);
    return state.h;
  }

  Builder& b_;
  const GnmtOptions& o_;
  Val scalars_;
};

// Encoder, attention, decoder and output layer, as models/recurrent_translator.h asks for them.
class Gnmt : GnmtLayers {
 public:
  Gnmt(Builder& builder, const GnmtOptions& options, Val scalars)
      : GnmtLayers(builder, options, scalars) {}

  // A layer that reads both ways, one more, then layers with residual sums.
  Encoded encode(Val source, Val lengths) {
    Builder::Within scope(b_, "encoder");
    Val x = dropout(embed("source", o_.source_vocab, source));
    Val there = run_lstm("rnn0/forward", x, lengths);
    Val back = reverse(run_lstm("rnn0/backward", reverse(x, lengths), lengths), lengths);
    x = concatenate({there, back});  // (S, B, 2H)
    for (int64_t l = 1; l < o_.encoder_layers; ++l) {
      Val y = run_lstm("rnn" + std::to_string(l), dropout(x), lengths);
      x = l > 1 ? add(y, x) : y;
    }
    Builder::Within attention(b_, "attention");
    return {linear(x, matrix("wk", o_.hidden, o_.hidden), bias(o_.hidden)), x, lengths};
  }

  DecoderState first_state(const Encoded& encoded) {
    Builder::Within scope(b_, "decoder");
    DecoderState state;
    for (int64_t l = 0; l < o_.decoder_layers; ++l) {
      state.layers.push_back(zeros_of(encoded.values.shape()[1]));
    }
    return state;
  }

  Val embed_target(Val words) {
    Builder::Within scope(b_, "decoder");
    Val x = dropout(embed("target", o_.target_vocab, words));
    Builder::Within first(b_, "rnn0");
    return input_gates(x);
  }

  Val decode(Val word_gates, DecoderState& state, const Encoded& encoded) {
    Val x = cell("rnn0", word_gates, state.layers[0]);
    Val context = attend(x, encoded);
    for (int64_t l = 1; l < o_.decoder_layers; ++l) {
      const std::string name = "rnn" + std::to_string(l);
      Val input = dropout(concatenate({x, context}));  // (B, 2H)
      Val gates;
      {
        Builder::Within scope(b_, name);
        gates = input_gates(input);
      }
      Val y = cell(name, gates, state.layers[size_t(l)]);
      x = l > 1 ? add(y, x) : y;
    }
    return x;
  }

  Val before_output(Val outputs) { return outputs; }

  Val logits(Val x) {
    return linear(x, matrix("w", o_.hidden, o_.target_vocab), bias(o_.target_vocab));
  }

 private:
  // Bahdanau's score; the bias before its tanh is the keys'.
  Val attend(Val query, const Encoded& encoded) {
    Builder::Within scope(b_, "attention");
    Val q = matmul(query, matrix("wq", o_.hidden, o_.hidden));
    Val v = b_.weight("v", {{o_.hidden}}, {Init::Kind::uniform, o_.init_scale});
    Val score = o_.fused ? mlp_score(encoded.keys, q, v) : mlp_score_unfused(encoded.keys, q, v);
    return attention_context(masked_softmax(score, encoded.lengths), encoded.values);
  }
};

}  // namespace

TranslationModel gnmt_model(const GnmtOptions& o) {
  if (o.share_embedding && o.source_vocab != o.target_vocab) {
    throw UsageError(
        "model.share_embedding: one table needs one vocabulary for both languages "
        "(data.shared_vocabulary)");
  }
  for (const Rule<GnmtOptions>& rule : GnmtOptions::rules()) {
    if (const std::string why = rule.fault(o); !why.empty()) throw UsageError(why);
  }
  return recurrent_translator<Gnmt>(o, o.hidden, false);
}

}  // namespace pal
