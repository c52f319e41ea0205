// The model's own options, of which the configuration knows all but the vocabulary.
#include "train/language/language_model.h"

#include "core/error.h"
#include "models/bert.h"
#include "models/rhn.h"

namespace pal {
namespace {

LanguageModel bert(BertOptions o, int64_t length, int64_t vocab) {
  o.vocab = vocab + 1;  // the mask
  if (const std::string why = fault(o); !why.empty()) throw UsageError(why);
  if (length > o.positions) {
    throw UsageError("data.length: " + std::to_string(length) + " words, but model.positions has " +
                     std::to_string(o.positions) + "; lower the one or raise the other");
  }
  return {.hides = true,
          .hide = o.hide,
          .mask = int32_t(vocab),
          .loss = [o](Builder& b, int64_t S, int64_t B, Val scalars, bool training) {
            const BertLoss loss = bert_loss(b, o, S, B, scalars, training);
            return LanguageLoss{loss.loss, loss.nll};
          }};
}

LanguageModel rhn(RhnOptions o, int64_t vocab) {
  o.vocab = vocab;
  return {.loss = [o](Builder& b, int64_t S, int64_t B, Val scalars, bool training) {
    const RhnLoss loss = rhn_loss(b, o, S, B, scalars, training);
    return LanguageLoss{loss.loss, loss.nll};
  }};
}

}  // namespace

LanguageModel language_model(const Config& config, int64_t vocab) {
  if (const auto* o = config.options<BertOptions>()) {
    return bert(*o, *config.text().length, vocab);
  }
  if (const auto* o = config.options<RhnOptions>()) return rhn(*o, vocab);
  throw ProgramError("[config] the model is no language model");
}

}  // namespace pal
