// The translator's three programs: the loss of a batch, the encoder, one step of the decoder.
#include "models/nmt.h"

#include "core/error.h"
#include "models/nmt_layers.h"
#include "ops/losses/log_softmax.h"
#include "ops/tensors/fill.h"
#include "ops/tensors/views.h"

namespace pal {

namespace {

namespace in = translation_input;

void check_sizes(const NmtOptions& o) {
  if (const std::string why = fault(o); !why.empty()) throw UsageError(why);
  const bool one = o.tie == NmtOptions::Tie::embeddings || o.tie == NmtOptions::Tie::all;
  if (one && o.source_vocab != o.target_vocab) {
    throw UsageError(
        "model.tie_embeddings: one table needs one vocabulary for both languages "
        "(data.shared_vocabulary)");
  }
}

TranslationLoss loss(Builder& b, const NmtOptions& o, const TranslationShape& shape, Val scalars,
                     bool training) {
  const auto [S, T, B] = shape;
  Val source = b.input(in::kSource, {{S, B}, DType::i32});
  Val lengths = b.input(in::kSourceLengths, {{B}, DType::i32});
  Val target_in = b.input(in::kTargetIn, {{T, B}, DType::i32});
  Val target_out = b.input(in::kTargetOut, {{T, B}, DType::i32});
  NmtLayers net(b, o, training ? scalars : Val{});

  Encoded encoded = net.encode(source, lengths);
  DecoderState state = net.first_state(encoded);
  std::vector<Val> words = unbind(net.embed_target(target_in));  // T of (B, 4H)
  std::vector<Val> attended;                                     // T of (B, H)
  for (int64_t t = 0; t < T; ++t) {
    Builder::Within step(b, "decoder", int32_t(t));
    state = net.decode(words[size_t(t)], state, encoded);
    attended.push_back(state.attended);
  }
  Builder::Within scope(b, "output");
  return output_loss(net.before_output(stack(attended)), target_out, scalars,
                     training ? o.label_smoothing : 0, o.loss_chunks,
                     [&](Val x) { return net.logits(x); });
}

std::vector<std::string> state_names(const NmtOptions& o) {
  std::vector<std::string> names;
  for (int64_t l = 0; l < o.decoder_layers; ++l) {
    names.push_back("decoder/h" + std::to_string(l));
    names.push_back("decoder/c" + std::to_string(l));
  }
  names.push_back("decoder/feed");
  return names;
}

// The state as a list in the order of state_names.
std::vector<Val> flat(const DecoderState& state) {
  std::vector<Val> out;
  for (const LstmState& layer : state.layers) out.insert(out.end(), {layer.h, layer.c});
  out.push_back(state.attended);
  return out;
}

void encoder(Builder& b, const NmtOptions& o, const TranslationShape& shape) {
  Val source = b.input(in::kSource, {{shape.source, shape.batch}, DType::i32});
  Val lengths = b.input(in::kSourceLengths, {{shape.batch}, DType::i32});
  NmtLayers net(b, o, {});
  Encoded encoded = net.encode(source, lengths);
  const std::vector<std::string> names = state_names(o);
  const std::vector<Val> states = flat(net.first_state(encoded));
  b.output("keys", encoded.keys);
  b.output("values", encoded.values);
  for (size_t i = 0; i < names.size(); ++i) b.output(names[i], states[i]);
}

void decoder_step(Builder& b, const NmtOptions& o, const TranslationShape& shape) {
  const int64_t S = shape.source, B = shape.batch, H = o.hidden;
  Encoded encoded{.keys = b.input("keys", {{S, B, o.attention_size}}),
                  .values = b.input("values", {{S, B, H}}),
                  .lengths = b.input(in::kSourceLengths, {{B}, DType::i32})};
  Val token = b.input(in::kToken, {{1, B}, DType::i32});
  const std::vector<std::string> names = state_names(o);
  std::vector<Val> states;
  for (auto& name : names) states.push_back(b.input(name, {{B, H}}));
  DecoderState state{.attended = states.back()};
  for (size_t i = 0; i + 1 < states.size(); i += 2)
    state.layers.push_back({states[i], states[i + 1]});

  NmtLayers net(b, o, {});
  Val word = unbind(net.embed_target(token))[0];
  {
    Builder::Within step(b, "decoder");
    state = net.decode(word, state, encoded);
  }
  Builder::Within scope(b, "output");
  b.output("log_probs", log_softmax(net.logits(state.attended)));
  const std::vector<Val> next = flat(state);
  for (size_t i = 0; i < names.size(); ++i) b.output("next/" + names[i], next[i]);
}

}  // namespace

TranslationModel nmt_model(const NmtOptions& o) {
  check_sizes(o);
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
