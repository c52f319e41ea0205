// From a configuration's model section to the model's own options.
#include "train/translation/translation_model.h"

#include "models/gnmt.h"
#include "models/nmt.h"
#include "models/transformer.h"

namespace pal {
namespace {

NmtOptions nmt_options(const NmtConfig& c, const TrainConfig& train, int64_t source_vocab,
                       int64_t target_vocab) {
  NmtOptions o;
  o.source_vocab = source_vocab;
  o.target_vocab = target_vocab;
  o.embedding = *c.embedding;
  o.hidden = *c.hidden;
  o.attention_size = *c.attention_size;
  o.encoder_layers = *c.encoder_layers;
  o.decoder_layers = *c.decoder_layers;
  o.bidirectional = *c.bidirectional;
  o.reverse_source = *c.reverse_source;
  o.input_feeding = *c.input_feeding;
  o.attention =
      *c.attention == "mlp" ? NmtOptions::Attention::mlp : NmtOptions::Attention::scaled_luong;
  o.tie = *c.tie_embeddings == "all"          ? NmtOptions::Tie::all
          : *c.tie_embeddings == "embeddings" ? NmtOptions::Tie::embeddings
          : *c.tie_embeddings == "target"     ? NmtOptions::Tie::target
                                              : NmtOptions::Tie::none;
  o.init = *c.init == "xavier" ? NmtOptions::InitKind::xavier : NmtOptions::InitKind::uniform;
  o.init_scale = static_cast<float>(*c.init_scale);
  o.forget_bias = static_cast<float>(*c.forget_bias);
  o.layer_norm = *c.layer_norm;
  o.attention_layer_norm = *c.attention_layer_norm;
  o.dropout = static_cast<float>(*c.dropout);
  if (*c.embedding_dropout) o.embedding_dropout = static_cast<float>(**c.embedding_dropout);
  o.hidden_dropout = static_cast<float>(*c.hidden_dropout);
  o.loss_chunks = *c.loss_chunks;
  o.label_smoothing = static_cast<float>(*train.label_smoothing);
  o.fused = *c.fused;
  return o;
}

TransformerOptions transformer_options(const TransformerConfig& c, const TrainConfig& train,
                                       int64_t source_vocab, int64_t target_vocab) {
  const auto dropout = static_cast<float>(*c.dropout);
  auto or_dropout = [&](const std::optional<double>& own) {
    return own ? static_cast<float>(*own) : dropout;
  };
  TransformerOptions o;
  o.source_vocab = source_vocab;
  o.target_vocab = target_vocab;
  o.encoder_layers = *c.encoder_layers;
  o.decoder_layers = *c.decoder_layers;
  o.hidden = *c.hidden;
  o.ffn = *c.ffn;
  o.heads = *c.heads;
  o.norm = *c.norm == "pre" ? TransformerOptions::Norm::pre : TransformerOptions::Norm::post;
  o.tie = *c.tie_embeddings == "all"      ? TransformerOptions::Tie::all
          : *c.tie_embeddings == "target" ? TransformerOptions::Tie::target
                                          : TransformerOptions::Tie::none;
  o.dropout = dropout;
  o.attention_dropout = or_dropout(*c.attention_dropout);
  o.activation_dropout = or_dropout(*c.activation_dropout);
  o.label_smoothing = static_cast<float>(*train.label_smoothing);
  o.loss_chunks = *c.loss_chunks;
  o.fused = *c.fused;
  return o;
}

GnmtOptions gnmt_options(const GnmtConfig& c, const TrainConfig& train, int64_t source_vocab,
                         int64_t target_vocab) {
  return {.source_vocab = source_vocab,
          .target_vocab = target_vocab,
          .encoder_layers = *c.encoder_layers,
          .decoder_layers = *c.decoder_layers,
          .hidden = *c.hidden,
          .share_embedding = *c.share_embedding,
          .dropout = static_cast<float>(*c.dropout),
          .init_scale = static_cast<float>(*c.init_scale),
          .label_smoothing = static_cast<float>(*train.label_smoothing),
          .loss_chunks = *c.loss_chunks,
          .fused = *c.fused};
}

}  // namespace

TranslationModel translation_model(const Config& config, int64_t source_vocab,
                                   int64_t target_vocab) {
  if (const auto* c = std::get_if<TransformerConfig>(&config.model)) {
    return transformer_model(transformer_options(*c, config.train, source_vocab, target_vocab));
  }
  if (const auto* c = std::get_if<GnmtConfig>(&config.model)) {
    return gnmt_model(gnmt_options(*c, config.train, source_vocab, target_vocab));
  }
  return nmt_model(nmt_options(config.nmt(), config.train, source_vocab, target_vocab));
}

}  // namespace pal
