// From a configuration's model section to the model's own options.
#include "train/language/language_model.h"

#include "core/error.h"
#include "models/bert.h"
#include "models/rhn.h"

namespace pal {
namespace {

LanguageModel bert(const BertConfig& c, int64_t length, int64_t vocab) {
  if (*c.hidden % *c.heads != 0) {
    throw UsageError("model.heads: " + std::to_string(*c.heads) + " do not divide model.hidden, " +
                     std::to_string(*c.hidden));
  }
  if (length > *c.positions) {
    throw UsageError("data.length: " + std::to_string(length) + " words, but model.positions has " +
                     std::to_string(*c.positions) + "; lower the one or raise the other");
  }
  const BertOptions o{.vocab = vocab + 1,  // the mask
                      .positions = *c.positions,
                      .layers = *c.layers,
                      .hidden = *c.hidden,
                      .ffn = *c.ffn,
                      .heads = *c.heads,
                      .dropout = float(*c.dropout),
                      .attention_dropout = float(*c.attention_dropout),
                      .loss_chunks = *c.loss_chunks};
  return {.hides = true,
          .hide = float(*c.hide),
          .mask = int32_t(vocab),
          .loss = [o](Builder& b, int64_t S, int64_t B, Val scalars, bool training) {
            const BertLoss loss = bert_loss(b, o, S, B, scalars, training);
            return LanguageLoss{loss.loss, loss.nll};
          }};
}

LanguageModel rhn(const RhnConfig& c, int64_t vocab) {
  const RhnOptions o{.vocab = vocab,
                     .hidden = *c.hidden,
                     .depth = *c.depth,
                     .tied = *c.tied,
                     .input_dropout = float(*c.input_dropout),
                     .output_dropout = float(*c.output_dropout),
                     .transform_bias = float(*c.transform_bias),
                     .loss_chunks = *c.loss_chunks};
  return {.loss = [o](Builder& b, int64_t S, int64_t B, Val scalars, bool training) {
    const RhnLoss loss = rhn_loss(b, o, S, B, scalars, training);
    return LanguageLoss{loss.loss, loss.nll};
  }};
}

}  // namespace

LanguageModel language_model(const Config& config, int64_t vocab) {
  if (const auto* c = std::get_if<BertConfig>(&config.model)) {
    return bert(*c, *config.text().length, vocab);
  }
  if (const auto* c = std::get_if<RhnConfig>(&config.model)) return rhn(*c, vocab);
  throw ProgramError("[config] the model is no language model");
}

}  // namespace pal
