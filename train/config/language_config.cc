// The options of language models.
#include "train/config/language_config.h"

#include "train/config/option_help.h"

namespace pal {

BertSection::BertSection() {
  option("type", type, "the kind of model", {.choices = {"bert"}});
  option("layers", model.layers, "of the encoder", {.min = 1, .max = 256});
  option("hidden", model.hidden, "width of embeddings and of every layer",
         {.min = 1, .max = 65536});
  option("ffn", model.ffn, "inner width of the feed-forward layers", {.min = 1, .max = 262144});
  option("heads", model.heads, "heads of every attention; a divisor of hidden",
         {.min = 1, .max = 1024});
  option("positions", model.positions, "rows of the table of positions", {.min = 2, .max = 65536});
  option("dropout", model.dropout, "of embeddings and of what each sublayer adds",
         {.min = 0, .max = 1, .below_max = true});
  option("attention_dropout", model.attention_dropout, "of the attention's weights",
         {.min = 0, .max = 1, .below_max = true});
  option("hide", hide,
         "probability that a word is to be guessed: of these 8 in 10 are hidden, one "
         "is another word, one stands as it is",
         {.min = 0, .max = 1, .above_min = true});
  option("loss_chunks", model.loss_chunks, kLossChunksHelp, {.min = 1, .max = 65536});
}

RhnSection::RhnSection() {
  option("type", type, "the kind of model", {.choices = {"rhn"}});
  option("depth", model.depth, "layers from one word to the next", {.min = 1, .max = 256});
  option("hidden", model.hidden, "width of the embedding and of the state",
         {.min = 1, .max = 65536});
  option("tied", model.tied, "the output layer's matrix is that of the embedding");
  option("input_dropout", model.input_dropout, "of the words' embeddings",
         {.min = 0, .max = 1, .below_max = true});
  option("output_dropout", model.output_dropout, "of the states, before the output",
         {.min = 0, .max = 1, .below_max = true});
  option("transform_bias", model.transform_bias, "first bias of the gates that let new content in",
         {.min = -10, .max = 10});
  option("loss_chunks", model.loss_chunks, kLossChunksHelp, {.min = 1, .max = 65536});
}

}  // namespace pal
