// The model's own options, of which the configuration knows all but the vocabularies.
#include "train/translation/translation_model.h"

#include "core/error.h"
#include "models/gnmt.h"
#include "models/nmt.h"
#include "models/transformer.h"

namespace pal {

TranslationModel translation_model(const Config& config, int64_t source_vocab,
                                   int64_t target_vocab) {
  auto whole = [&](auto options) {
    options.source_vocab = source_vocab;
    options.target_vocab = target_vocab;
    options.label_smoothing = float(*config.train.label_smoothing);
    return options;
  };
  if (const auto* o = config.options<TransformerOptions>()) return transformer_model(whole(*o));
  if (const auto* o = config.options<GnmtOptions>()) return gnmt_model(whole(*o));
  if (const auto* o = config.options<NmtOptions>()) return nmt_model(whole(*o));
  throw ProgramError("[config] the model does not translate");
}

}  // namespace pal
