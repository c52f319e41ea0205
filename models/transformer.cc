// The Transformer's three programs: the loss of a batch, the encoder, one step of the decoder.
#include "models/transformer.h"

#include "core/error.h"
#include "models/transformer_layers.h"
#include "ops/losses/log_softmax.h"
#include "ops/tensors/state_rows.h"

namespace pal {
namespace {

namespace in = translation_input;

void check(const TransformerOptions& o) {
  if (const std::string why = fault(o); !why.empty()) throw UsageError(why);
  if (o.tie == TransformerOptions::Tie::all && o.source_vocab != o.target_vocab) {
    throw UsageError(
        "model.tie_embeddings: all needs one vocabulary for both languages "
        "(data.shared_vocabulary)");
  }
}

// The names under which keys and values of every decoder layer go between the programs.
std::vector<std::string> names(const TransformerOptions& o, const std::string& prefix) {
  std::vector<std::string> out;
  for (int64_t l = 0; l < o.decoder_layers; ++l) {
    out.push_back(prefix + "/keys" + std::to_string(l));
    out.push_back(prefix + "/values" + std::to_string(l));
  }
  return out;
}

// keys, values (S, B, D) of every layer, kept from step to step
std::vector<KeysValues> kept(Builder& b, const TransformerOptions& o, const std::string& prefix,
                             int64_t steps, int64_t batch) {
  std::vector<KeysValues> out;
  const std::vector<std::string> all = names(o, prefix);
  const TensorSpec spec{{steps, batch, o.hidden}};
  for (size_t i = 0; i < all.size(); i += 2) {
    Val keys = b.state(all[i], spec, Role::statistic);
    out.push_back({keys, b.state(all[i + 1], spec, Role::statistic)});
  }
  return out;
}

TranslationLoss loss(Builder& b, const TransformerOptions& o, const TranslationShape& shape,
                     Val scalars, bool training) {
  const TranslationBatch batch(b, shape);
  TransformerLayers net(b, o, training ? scalars : Val{});
  Val encoded = net.encode(batch.source, batch.lengths);              // (S, B, D)
  Val decoded = net.decode(batch.target_in, encoded, batch.lengths);  // (T, B, D)
  Builder::Within scope(b, "output");
  return output_loss(decoded, batch.target_out, scalars, training ? o.label_smoothing : 0,
                     o.loss_chunks, [&](Val x) { return net.logits(x); });
}

void encoder(Builder& b, const TransformerOptions& o, const TranslationShape& shape) {
  Val source = b.input(in::kSource, {{shape.source, shape.batch}, DType::i32});
  Val lengths = b.input(in::kSourceLengths, {{shape.batch}, DType::i32});
  TransformerLayers net(b, o, {});
  Val encoded = net.encode(source, lengths);
  const std::vector<std::string> out = names(o, "source");
  for (int64_t l = 0; l < o.decoder_layers; ++l) {
    const KeysValues made = net.source_keys_values(l, encoded);
    b.output(out[size_t(2 * l)], made.keys);
    b.output(out[size_t(2 * l + 1)], made.values);
  }
}

void decoder_step(Builder& b, const TransformerOptions& o, const TranslationShape& shape) {
  const auto [S, T, B] = shape;
  Val lengths = b.input(in::kSourceLengths, {{B}, DType::i32});
  Val token = b.input(in::kToken, {{1, B}, DType::i32});
  Val position = b.input(in::kPosition, {{1}, DType::i32});
  Val rows = b.input(in::kCachedRows, {{T, B}, DType::i32});
  const std::vector<KeysValues> source = kept(b, o, "source", S, B);
  const std::vector<KeysValues> target = kept(b, o, "target", T, B);
  std::vector<TransformerLayers::Cached> layers;
  for (size_t l = 0; l < source.size(); ++l) layers.push_back({source[l], target[l], {}});

  TransformerLayers net(b, o, {});
  Val x = net.decode_step(token, position, rows, lengths, layers);  // (B, D)
  {
    Builder::Within update(b, Phase::update);
    for (const TransformerLayers::Cached& layer : layers) {
      put_row(layer.target.keys, layer.own.keys, position);
      put_row(layer.target.values, layer.own.values, position);
    }
  }
  Builder::Within scope(b, "output");
  b.output("log_probs", log_softmax(net.logits(x)));
}

}  // namespace

TranslationModel transformer_model(const TransformerOptions& o) {
  check(o);
  return {
      .target_vocab = o.target_vocab,
      .loss = [o](Builder& b, const TranslationShape& shape, Val scalars,
                  bool training) { return loss(b, o, shape, scalars, training); },
      .encoder = [o](Builder& b, const TranslationShape& shape) { encoder(b, o, shape); },
      .decoder_step = [o](Builder& b, const TranslationShape& shape) { decoder_step(b, o, shape); },
      .memory = names(o, "source"),
      .states = {},
      .caches = names(o, "target")};
}

}  // namespace pal
