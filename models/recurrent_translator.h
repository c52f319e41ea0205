// The programs of a recurrent translator, from a network of LSTM layers with attention. A network
// Net over its Options has, each recording the same nodes over the same weights wherever it is
// called:
//
//   Net(Builder&, const Options&, Val scalars)    with `scalars`, dropout is recorded
//   Encoded encode(Val source, Val lengths)       i32 (S, B), i32 (B)
//   DecoderState first_state(const Encoded&)      (B, H) each
//   Val embed_target(Val words)                   i32 (T, B) -> (T, B, 4H): of the first layer's
//   gates Val decode(Val word_gates, DecoderState&, const Encoded&)    a step: its output (B, H)
//   Val before_output(Val outputs), Val logits(Val x)            (.., H) -> (.., H), (.., V)
#pragma once
#include <string>
#include <vector>

#include "models/translation.h"
#include "ops/losses/log_softmax.h"
#include "ops/recurrent/lstm.h"
#include "ops/tensors/embedding.h"
#include "ops/tensors/state.h"
#include "ops/tensors/views.h"

namespace pal {

struct Encoded {
  Val keys;     // (S, B, A) projected for the attention, once
  Val values;   // (S, B, H) the encoder's outputs
  Val lengths;  // i32 (B)
};

struct DecoderState {
  std::vector<LstmState> layers = {};
  Val attended = {};  // (B, H) what input feeding feeds: the step's output; null where nothing is
};

// How the states of a decoder are named between programs, and their values in that order.
std::vector<std::string> state_names(int64_t layers, bool feeds);
std::vector<Val> values_of(const DecoderState& state);
DecoderState state_of(const std::vector<Val>& values);

template <class Net, class Options>
TranslationLoss recurrent_loss(Builder& b, const Options& o, const TranslationShape& shape,
                               Val scalars, bool training) {
  const TranslationBatch batch(b, shape);
  Net net(b, o, training ? scalars : Val{});
  const Encoded encoded = net.encode(batch.source, batch.lengths);
  const std::vector<Val> words = unbind(net.embed_target(batch.target_in));  // T of (B, 4H)
  DecoderState state = net.first_state(encoded);
  std::vector<Val> outputs;  // T of (B, H)
  for (int64_t t = 0; t < shape.target; ++t) {
    Builder::Within step(b, "decoder", int32_t(t));
    outputs.push_back(net.decode(words[size_t(t)], state, encoded));
  }
  Builder::Within scope(b, "output");
  return output_loss(net.before_output(stack(outputs)), batch.target_out, scalars,
                     training ? o.label_smoothing : 0, o.loss_chunks,
                     [&](Val x) { return net.logits(x); });
}

template <class Net, class Options>
void recurrent_encoder(Builder& b, const Options& o, const TranslationShape& shape,
                       const std::vector<std::string>& names) {
  Val source = b.input(translation_input::kSource, {{shape.source, shape.batch}, DType::i32});
  Val lengths = b.input(translation_input::kSourceLengths, {{shape.batch}, DType::i32});
  Net net(b, o, {});
  const Encoded encoded = net.encode(source, lengths);
  const std::vector<Val> states = values_of(net.first_state(encoded));
  b.output("keys", encoded.keys);
  b.output("values", encoded.values);
  for (size_t i = 0; i < names.size(); ++i) b.output(names[i], states[i]);
}

template <class Net, class Options>
void recurrent_decoder_step(Builder& b, const Options& o, const TranslationShape& shape,
                            int64_t key_width, const std::vector<std::string>& names) {
  const int64_t S = shape.source, B = shape.batch;
  const Encoded encoded{b.state("keys", {{S, B, key_width}}, Role::statistic),
                        b.state("values", {{S, B, o.hidden}}, Role::statistic),
                        b.input(translation_input::kSourceLengths, {{B}, DType::i32})};
  Val token = b.input(translation_input::kToken, {{1, B}, DType::i32});
  Val parents = b.input(translation_input::kParents, {{B}, DType::i32});
  std::vector<Val> kept, states;
  for (const std::string& name : names) {
    kept.push_back(b.state(name, {{B, o.hidden}}, Role::statistic));
    states.push_back(embedding(kept.back(), parents));
  }
  DecoderState state = state_of(states);
  Net net(b, o, {});
  Val word = unbind(net.embed_target(token))[0];
  Val output;
  {
    Builder::Within step(b, "decoder");
    output = net.decode(word, state, encoded);
  }
  {
    Builder::Within update(b, Phase::update);
    const std::vector<Val> next = values_of(state);
    for (size_t i = 0; i < names.size(); ++i) assign(kept[i], next[i]);
  }
  Builder::Within scope(b, "output");
  b.output("log_probs", log_softmax(net.logits(output)));
}

// `feeds`: the output of a step is part of the state.
template <class Net, class Options>
TranslationModel recurrent_translator(const Options& o, int64_t key_width, bool feeds) {
  const std::vector<std::string> names = state_names(o.decoder_layers, feeds);
  return {
      .target_vocab = o.target_vocab,
      .loss = [o](Builder& b, const TranslationShape& shape, Val scalars,
                  bool training) { return recurrent_loss<Net>(b, o, shape, scalars, training); },
      .encoder = [=](Builder& b,
                     const TranslationShape& s) { recurrent_encoder<Net>(b, o, s, names); },
      .decoder_step =
          [=](Builder& b, const TranslationShape& s) {
            recurrent_decoder_step<Net>(b, o, s, key_width, names);
          },
      .memory = {"keys", "values"},
      .states = names};
}

}  // namespace pal
