// What can be chosen of GNMT.
#pragma once
#include <cstdint>

#include "models/option_help.h"
#include "models/rule.h"

namespace pal {

struct GnmtOptions {
  static constexpr const char* kType = "gnmt";
  static constexpr const char* kHelp =
      "deep recurrent translator with residual sums; learns from parallel text";

  int64_t source_vocab = 0, target_vocab = 0;
  int64_t encoder_layers = 4, decoder_layers = 4;  // two at least
  int64_t hidden = 1024;
  bool share_embedding = true;  // one table for both languages
  float dropout = 0.2f;         // of every layer's input
  float init_scale = 0.1f;
  float label_smoothing = 0.1f;
  int64_t loss_chunks = 1;
  bool fused = true;          // fused cell, score and dropout; false: at the papers' granularity
  bool whole_layers = false;  // all steps of an encoder's layer as one operator

  // How a configuration names the members: option(key, member, help, what is accepted).
  template <class Option> void declare(Option&& option) {
    option("fused", fused,
           "use fused LSTM-cell and attention operators; false: the papers' granularity",
           {.recordings = {"false", "true"}});
    option("whole_layers", whole_layers,
           "a layer of the encoder, all its steps, as one operator, on a GPU cuDNN's where that is "
           "found; with fused");
    option("encoder_layers", encoder_layers,
           "LSTM layers of the encoder; the first reads both ways, residual sums from the third on",
           {.min = 2, .max = 64});
    option(
        "decoder_layers", decoder_layers,
        "LSTM layers of the decoder; the first asks the attention, the others read what it finds",
        {.min = 2, .max = 64});
    option("hidden", hidden, "width of embeddings, layers and attention", {.min = 1, .max = 65536});
    option("share_embedding", share_embedding,
           "one table for both languages: needs data.shared_vocabulary");
    option("dropout", dropout, "of every layer's input", {.min = 0, .max = 1, .below_max = true});
    option("loss_chunks", loss_chunks, kLossChunksHelp,
           {.min = 1, .max = 65536, .recordings = {"1", "8"}});
    option("init_scale", init_scale, "half width of the uniform first weights",
           {.min = 0, .max = 10, .above_min = true});
  }
  static Rules<GnmtOptions> rules();
};

}  // namespace pal
