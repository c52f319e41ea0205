// The section "model" of GNMT.
#pragma once
#include <string>

#include "train/config/option.h"

namespace pal {

// The deep recurrent translator of Wu et al. (2016).
struct GnmtConfig : Section {
  Option<std::string> type{*this, "type", "gnmt", "the kind of model", {.choices = {"gnmt"}}};
  Option<bool> fused{*this, "fused", true,
                     "use fused LSTM-cell and attention operators; false: the papers' granularity"};
  Option<int64_t> encoder_layers{*this,
                                 "encoder_layers",
                                 4,
                                 "LSTM layers of the encoder; the first reads both ways, residual "
                                 "sums from the third on",
                                 {.min = 2, .max = 64}};
  Option<int64_t> decoder_layers{*this,
                                 "decoder_layers",
                                 4,
                                 "LSTM layers of the decoder; the first asks the attention, the "
                                 "others read what it finds",
                                 {.min = 2, .max = 64}};
  Option<int64_t> hidden{
      *this, "hidden", 1024, "width of embeddings, layers and attention", {.min = 1, .max = 65536}};
  Option<bool> share_embedding{*this, "share_embedding", true,
                               "one table for both languages: needs data.shared_vocabulary"};
  Option<double> dropout{
      *this, "dropout", 0.2, "of every layer's input", {.min = 0, .max = 1, .below_max = true}};
  Option<int64_t> loss_chunks{
      *this,
      "loss_chunks",
      1,
      "output layer and loss in so many runs of rows: with memory.schedule lifetime one run's "
      "logits are in memory at a time; the loss is the same but for the order of its sums",
      {.min = 1, .max = 65536}};
  Option<double> init_scale{*this,
                            "init_scale",
                            0.1,
                            "half width of the uniform first weights",
                            {.min = 0, .max = 10, .above_min = true}};
};

}  // namespace pal
