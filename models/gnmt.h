// GNMT (Wu et al. 2016): deep LSTM encoder and decoder with residual sums, the attention asked by
// the decoder's first layer and read by all above it. As in MLPerf's and NVIDIA's 4+4 network.
#pragma once
#include "models/gnmt_options.h"
#include "models/translation.h"

namespace pal {

// UsageError("model...") when sizes do not fit each other. The memory is "keys" and "values"
// (S, B, H), the states are decoder/h0, decoder/c0, .., each (B, H).
TranslationModel gnmt_model(const GnmtOptions& options);

}  // namespace pal
