// The recurrent translator: an LSTM encoder, an attention, and an LSTM decoder with input feeding
// (Bahdanau et al. 2015; Luong et al. 2015; Hieber et al. 2017; the workload of Echo, section 6).
#pragma once
#include <optional>

#include "models/nmt_options.h"
#include "models/translation.h"

namespace pal {

// UsageError("model...") when sizes do not fit each other. The memory is "keys" (S, B, A) and
// "values" (S, B, H), the states are decoder/h0, decoder/c0, ..., decoder/feed, each (B, H).
TranslationModel nmt_model(const NmtOptions& options);

}  // namespace pal
