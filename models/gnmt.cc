// Figure 1 of Wu et al. 2016: the layers, and the three programs of a translator.
#include "models/gnmt.h"

#include "core/error.h"
#include "ops/attention/attention_context.h"
#include "ops/attention/attention_score.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/dropout.h"
#include "ops/losses/log_softmax.h"
#include "ops/losses/masked_softmax.h"
#include "ops/products/matmul.h"
#include "ops/recurrent/lstm.h"
#include "ops/tensors/columns.h"
#include "ops/tensors/embedding.h"
#include "ops/tensors/fill.h"
#include "ops/tensors/row_order.h"
#include "ops/tensors/views.h"

namespace pal {
namespace {

namespace in = translation_input;

struct Encoding {
  Val keys, values, lengths;  // (S, B, H), (S, B, H), i32 (B)
};

class Gnmt {
 public:
  // With `scalars`, dropout is recorded.
  Gnmt(Builder& builder, const GnmtOptions& options, Val scalars)
      : b_(builder), o_(options), scalars_(scalars) {}

  // i32 (S, B), i32 (B): a layer that reads both ways, one more, then layers with residual sums.
  Encoding encode(Val source, Val lengths) {
    Builder::Within scope(b_, "encoder");
    Val x = dropped(embed("source", o_.source_vocab, source));
    Val there = run_lstm("rnn0/forward", x, lengths);
    Val back = reverse(run_lstm("rnn0/backward", reverse(x, lengths), lengths), lengths);
    x = concatenate({there, back});  // (S, B, 2H)
    for (int64_t l = 1; l < o_.encoder_layers; ++l) {
      Val y = run_lstm("rnn" + std::to_string(l), dropped(x), lengths);
      x = l > 1 ? add(y, x) : y;
    }
    Builder::Within attention(b_, "attention");
    const TensorSpec vector{{o_.hidden}};
    Val keys = linear(x, matrix("wk", o_.hidden, o_.hidden), b_.weight("bias", vector, {}));
    return {keys, x, lengths};
  }

  // The words' part of the first layer's gates: i32 (T, B) -> (T, B, 4H).
  Val embed_target(Val words) {
    Builder::Within scope(b_, "decoder");
    Val x = dropped(embed("target", o_.target_vocab, words));
    Builder::Within first(b_, "rnn0");
    return linear(x, matrix("wx", o_.hidden, 4 * o_.hidden), bias());
  }

  // One step over the layers' states, in the scope "decoder": the output (B, H).
  Val decode(Val word_gates, std::vector<LstmState>& layers, const Encoding& encoded) {
    Val x = cell("rnn0", word_gates, layers[0]);
    Val context = attend(x, encoded);
    for (int64_t l = 1; l < o_.decoder_layers; ++l) {
      const std::string name = "rnn" + std::to_string(l);
      Val input = dropped(concatenate({x, context}));  // (B, 2H)
      Val gates;
      {
        Builder::Within scope(b_, name);
        gates = linear(input, matrix("wx", 2 * o_.hidden, 4 * o_.hidden), bias());
      }
      Val y = cell(name, gates, layers[size_t(l)]);
      x = l > 1 ? add(y, x) : y;
    }
    return x;
  }

  Val logits(Val x) {  // (.., H) -> (.., V)
    const TensorSpec vector{{o_.target_vocab}};
    return linear(x, matrix("w", o_.hidden, o_.target_vocab), b_.weight("bias", vector, {}));
  }

  std::vector<LstmState> first_state(int64_t batch) {
    std::vector<LstmState> layers(size_t(o_.decoder_layers));
    for (LstmState& layer : layers) layer = zeros_of(batch);
    return layers;
  }

 private:
  Val matrix(const std::string& name, int64_t rows, int64_t columns) {
    return b_.weight(name, {{rows, columns}}, {Init::Kind::uniform, o_.init_scale});
  }
  Val bias() { return b_.weight("bias", {{4 * o_.hidden}}, {}); }

  LstmState zeros_of(int64_t batch) {
    const TensorSpec spec{{batch, o_.hidden}, b_.feature_type()};
    return {fill(b_, spec, 0), fill(b_, spec, 0)};
  }

  Val embed(const std::string& side, int64_t words, Val ids) {
    const std::string name = o_.share_embedding ? "embedding" : side + "/embedding";
    const Init init{Init::Kind::uniform, o_.init_scale};
    return embedding(b_.state(name, {{words, o_.hidden}}, Role::weight, init), ids);
  }

  Val dropped(Val x) {
    if (!scalars_ || o_.dropout == 0) return x;
    if (o_.fused) return dropout(x, scalars_, o_.dropout);
    return dropout_apply(x, dropout_mask(scalars_, x.spec(), o_.dropout), o_.dropout);
  }

  // One layer over all steps: (S, B, I) -> (S, B, H).
  Val run_lstm(const std::string& name, Val x, Val lengths) {
    Builder::Within scope(b_, name);
    const int64_t H = o_.hidden;
    const auto inputs = unbind(linear(x, matrix("wx", x.shape().back(), 4 * H), bias()));
    Val wh = matrix("wh", H, 4 * H);
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

  // Bahdanau's score; the bias before its tanh is the keys'.
  Val attend(Val query, const Encoding& encoded) {
    Builder::Within scope(b_, "attention");
    Val q = matmul(query, matrix("wq", o_.hidden, o_.hidden));
    Val v = b_.weight("v", {{o_.hidden}}, {Init::Kind::uniform, o_.init_scale});
    Val score = o_.fused ? mlp_score(encoded.keys, q, v) : mlp_score_unfused(encoded.keys, q, v);
    return attention_context(masked_softmax(score, encoded.lengths), encoded.values);
  }

  Builder& b_;
  const GnmtOptions& o_;
  Val scalars_;
};

TranslationLoss loss(Builder& b, const GnmtOptions& o, const TranslationShape& shape, Val scalars,
                     bool training) {
  const auto [S, T, B] = shape;
  Val source = b.input(in::kSource, {{S, B}, DType::i32});
  Val lengths = b.input(in::kSourceLengths, {{B}, DType::i32});
  Val target_in = b.input(in::kTargetIn, {{T, B}, DType::i32});
  Val target_out = b.input(in::kTargetOut, {{T, B}, DType::i32});
  Gnmt net(b, o, training ? scalars : Val{});
  const Encoding encoded = net.encode(source, lengths);
  const auto words = unbind(net.embed_target(target_in));
  std::vector<Val> outputs;
  {
    Builder::Within scope(b, "decoder");
    std::vector<LstmState> layers = net.first_state(B);
    for (int64_t t = 0; t < T; ++t) {
      Builder::Within step(b, "", int32_t(t));
      outputs.push_back(net.decode(words[size_t(t)], layers, encoded));
    }
  }
  Builder::Within scope(b, "output");
  return output_loss(stack(outputs), target_out, scalars, training ? o.label_smoothing : 0,
                     o.loss_chunks, [&](Val x) { return net.logits(x); });
}

std::vector<std::string> state_names(const GnmtOptions& o) {
  std::vector<std::string> names;
  for (int64_t l = 0; l < o.decoder_layers; ++l) {
    names.push_back("decoder/h" + std::to_string(l));
    names.push_back("decoder/c" + std::to_string(l));
  }
  return names;
}

void output_states(Builder& b, const GnmtOptions& o, const std::string& prefix,
                   const std::vector<LstmState>& layers) {
  const std::vector<std::string> names = state_names(o);
  for (size_t l = 0; l < layers.size(); ++l) {
    b.output(prefix + names[2 * l], layers[l].h);
    b.output(prefix + names[2 * l + 1], layers[l].c);
  }
}

void encoder(Builder& b, const GnmtOptions& o, const TranslationShape& shape) {
  Val source = b.input(in::kSource, {{shape.source, shape.batch}, DType::i32});
  Val lengths = b.input(in::kSourceLengths, {{shape.batch}, DType::i32});
  Gnmt net(b, o, {});
  const Encoding encoded = net.encode(source, lengths);
  b.output("keys", encoded.keys);
  b.output("values", encoded.values);
  output_states(b, o, "", net.first_state(shape.batch));
}

void decoder_step(Builder& b, const GnmtOptions& o, const TranslationShape& shape) {
  const int64_t S = shape.source, B = shape.batch, H = o.hidden;
  const Encoding encoded{b.input("keys", {{S, B, H}}), b.input("values", {{S, B, H}}),
                         b.input(in::kSourceLengths, {{B}, DType::i32})};
  Val token = b.input(in::kToken, {{1, B}, DType::i32});
  std::vector<Val> states;
  for (const std::string& name : state_names(o)) states.push_back(b.input(name, {{B, H}}));
  std::vector<LstmState> layers;
  for (size_t i = 0; i < states.size(); i += 2) layers.push_back({states[i], states[i + 1]});
  Gnmt net(b, o, {});
  Val word = unbind(net.embed_target(token))[0];
  Val x;
  {
    Builder::Within step(b, "decoder");
    x = net.decode(word, layers, encoded);
  }
  Builder::Within scope(b, "output");
  b.output("log_probs", log_softmax(net.logits(x)));
  output_states(b, o, "next/", layers);
}

}  // namespace

TranslationModel gnmt_model(const GnmtOptions& o) {
  if (o.share_embedding && o.source_vocab != o.target_vocab) {
    throw UsageError(
        "model.share_embedding: one table needs one vocabulary for both languages "
        "(data.shared_vocabulary)");
  }
  return {
      .target_vocab = o.target_vocab,
      .loss = [o](Builder& b, const TranslationShape& shape, Val scalars,
                  bool training) { return loss(b, o, shape, scalars, training); },
      .encoder = [o](Builder& b, const TranslationShape& shape) { encoder(b, o, shape); },
      .decoder_step = [o](Builder& b, const TranslationShape& shape) { decoder_step(b, o, shape); },
      .memory = {"keys", "values"},
      .states = state_names(o)};
}

}  // namespace pal
