// The Transformer: an encoder and a decoder of attention and feed-forward layers (Vaswani et al.
// 2017, "Attention is all you need").
#pragma once
#include "models/transformer_options.h"
#include "models/translation.h"

namespace pal {

// UsageError("model...") when sizes do not fit each other. The memory is keys and values of every
// decoder layer's attention to the source, the caches those of its attention to the target.
TranslationModel transformer_model(const TransformerOptions& options);

}  // namespace pal
