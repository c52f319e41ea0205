// The section "model" of the configuration: one struct for each kind of model.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "train/config/gnmt_config.h"
#include "train/config/image_config.h"
#include "train/config/language_config.h"
#include "train/config/option.h"
#include "train/config/speech_config.h"
#include "train/config/zoo_config.h"

namespace pal {

// The recurrent translator of Bahdanau (2015), Luong (2015), Hieber (2017).
struct NmtConfig : Section {
  Option<std::string> type{*this, "type", "nmt", "the kind of model", {.choices = {"nmt"}}};
  Option<bool> fused{*this, "fused", true,
                     "use fused LSTM-cell and attention operators; false: the papers' granularity"};
  Option<int64_t> encoder_layers{
      *this, "encoder_layers", 2, "LSTM layers of the encoder", {.min = 1, .max = 64}};
  Option<int64_t> decoder_layers{
      *this, "decoder_layers", 2, "LSTM layers of the decoder", {.min = 1, .max = 64}};
  Option<int64_t> hidden{*this,
                         "hidden",
                         512,
                         "width of every LSTM layer (both ways together)",
                         {.min = 1, .max = 65536}};
  Option<int64_t> embedding{
      *this, "embedding", 512, "width of the word embeddings", {.min = 1, .max = 65536}};
  Option<bool> bidirectional{*this, "bidirectional", true,
                             "first encoder layer reads both ways, hidden/2 each"};
  Option<std::string> attention{*this,
                                "attention",
                                "mlp",
                                "score: mlp (Bahdanau) or scaled_luong (g times the dot product)",
                                {.choices = {"mlp", "scaled_luong"}}};
  Option<int64_t> attention_size{
      *this, "attention_size", 512, "width of its projections", {.min = 1, .max = 65536}};
  Option<bool> input_feeding{*this, "input_feeding", true,
                             "feed the last attention vector into the decoder's next step"};
  Option<double> dropout{*this,
                         "dropout",
                         0.0,
                         "probability of dropping a unit between layers, and before the output "
                         "layer",
                         {.min = 0, .max = 1, .below_max = true}};
  Option<std::optional<double>> embedding_dropout{*this,
                                                  "embedding_dropout",
                                                  {},
                                                  "of the word embeddings; null: as dropout",
                                                  {.min = 0, .max = 1, .below_max = true}};
  Option<double> hidden_dropout{*this,
                                "hidden_dropout",
                                0.0,
                                "of the context and the decoder's output, before the attention "
                                "vector is made of them",
                                {.min = 0, .max = 1, .below_max = true}};
  Option<bool> layer_norm{*this, "layer_norm", false,
                          "layer-normalised LSTM cells (Ba et al. 2016): the input's and the "
                          "state's part of the gates, and the cell before its tanh"};
  Option<bool> attention_layer_norm{
      *this, "attention_layer_norm", false,
      "layer norm before the tanh of the mlp score (which is not fused then), of the attention "
      "vector, and of the decoder's first states"};
  Option<int64_t> loss_chunks{
      *this,
      "loss_chunks",
      1,
      "output layer and loss in so many runs of rows: with memory.schedule lifetime one run's "
      "logits are in memory at a time; the loss is the same but for the order of its sums",
      {.min = 1, .max = 65536}};
  Option<double> forget_bias{
      *this, "forget_bias", 0.0, "initial bias of the LSTM's forget gate", {.min = -10, .max = 10}};
  Option<bool> reverse_source{*this, "reverse_source", false, "read the source from its end"};
  Option<std::string> tie_embeddings{
      *this,
      "tie_embeddings",
      "none",
      "share weights: target (target embedding and output layer), embeddings (source and target "
      "embedding), all (all three)",
      {.choices = {"none", "target", "embeddings", "all"}}};
  Option<std::string> init{*this,
                           "init",
                           "uniform",
                           "initial weights: uniform in ±init_scale, or xavier (Glorot, uniform)",
                           {.choices = {"uniform", "xavier"}}};
  Option<double> init_scale{*this,
                            "init_scale",
                            0.1,
                            "half width of init: uniform",
                            {.min = 0, .max = 10, .above_min = true}};
};

// The Transformer of Vaswani et al. (2017).
struct TransformerConfig : Section {
  Option<std::string> type{
      *this, "type", "transformer", "the kind of model", {.choices = {"transformer"}}};
  Option<bool> fused{*this, "fused", true,
                     "attention and dropout as one operator each, which keep nothing of the size "
                     "of their masks; false: the papers' granularity"};
  Option<int64_t> encoder_layers{
      *this, "encoder_layers", 6, "layers of the encoder", {.min = 1, .max = 256}};
  Option<int64_t> decoder_layers{
      *this, "decoder_layers", 6, "layers of the decoder", {.min = 1, .max = 256}};
  Option<int64_t> hidden{
      *this, "hidden", 512, "width of embeddings and of every layer", {.min = 1, .max = 65536}};
  Option<int64_t> ffn{
      *this, "ffn", 2048, "inner width of the feed-forward layers", {.min = 1, .max = 262144}};
  Option<int64_t> heads{
      *this, "heads", 8, "heads of every attention; a divisor of hidden", {.min = 1, .max = 1024}};
  Option<std::string> norm{*this,
                           "norm",
                           "post",
                           "layer norm: post (after each residual sum, as in the paper) or pre "
                           "(before each sublayer, and at the end of either stack)",
                           {.choices = {"post", "pre"}}};
  Option<double> dropout{*this,
                         "dropout",
                         0.1,
                         "of embeddings and of what each sublayer adds to the sum",
                         {.min = 0, .max = 1, .below_max = true}};
  Option<std::optional<double>> attention_dropout{*this,
                                                  "attention_dropout",
                                                  {},
                                                  "of the attention's weights; null: as dropout",
                                                  {.min = 0, .max = 1, .below_max = true}};
  Option<std::optional<double>> activation_dropout{
      *this,
      "activation_dropout",
      {},
      "inside the feed-forward layers, after the relu; null: as dropout",
      {.min = 0, .max = 1, .below_max = true}};
  Option<std::string> tie_embeddings{
      *this,
      "tie_embeddings",
      "none",
      "share weights: target (target embedding and output layer), all (source embedding too)",
      {.choices = {"none", "target", "all"}}};
  Option<int64_t> loss_chunks{
      *this,
      "loss_chunks",
      1,
      "output layer and loss in so many runs of rows: with memory.schedule lifetime one run's "
      "logits are in memory at a time; the loss is the same but for the order of its sums",
      {.min = 1, .max = 65536}};
};

using ModelConfig = std::variant<NmtConfig, TransformerConfig, ResNetConfig, ZooConfig,
                                 DeepSpeechConfig, GnmtConfig, BertConfig, RhnConfig>;

}  // namespace pal
