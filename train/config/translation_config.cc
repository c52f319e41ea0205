// The options of translators, and which of them combine.
#include "train/config/translation_config.h"

#include "train/config/option_help.h"

namespace pal {

NmtSection::NmtSection() {
  option("type", type, "the kind of model", {.choices = {"nmt"}});
  option("fused", model.fused,
         "use fused LSTM-cell and attention operators; false: the papers' granularity");
  option("encoder_layers", model.encoder_layers, "LSTM layers of the encoder",
         {.min = 1, .max = 64});
  option("decoder_layers", model.decoder_layers, "LSTM layers of the decoder",
         {.min = 1, .max = 64});
  option("hidden", model.hidden, "width of every LSTM layer (both ways together)",
         {.min = 1, .max = 65536});
  option("embedding", model.embedding, "width of the word embeddings", {.min = 1, .max = 65536});
  option("bidirectional", model.bidirectional,
         "first encoder layer reads both ways, hidden/2 each");
  option("attention", model.attention,
         "score: mlp (Bahdanau) or scaled_luong (g times the dot product)");
  option("attention_size", model.attention_size, "width of its projections",
         {.min = 1, .max = 65536});
  option("input_feeding", model.input_feeding,
         "feed the last attention vector into the decoder's next step");
  option("dropout", model.dropout,
         "probability of dropping a unit between layers, and before the output "
         "layer",
         {.min = 0, .max = 1, .below_max = true});
  option("embedding_dropout", model.embedding_dropout, "of the word embeddings; null: as dropout",
         {.min = 0, .max = 1, .below_max = true});
  option("hidden_dropout", model.hidden_dropout,
         "of the context and the decoder's output, before the attention "
         "vector is made of them",
         {.min = 0, .max = 1, .below_max = true});
  option("layer_norm", model.layer_norm,
         "layer-normalised LSTM cells (Ba et al. 2016): the input's and the "
         "state's part of the gates, and the cell before its tanh");
  option("attention_layer_norm", model.attention_layer_norm,
         "layer norm before the tanh of the mlp score (which is not fused then), of the attention "
         "vector, and of the decoder's first states");
  option("loss_chunks", model.loss_chunks, kLossChunksHelp, {.min = 1, .max = 65536});
  option("forget_bias", model.forget_bias, "initial bias of the LSTM's forget gate",
         {.min = -10, .max = 10});
  option("reverse_source", model.reverse_source, "read the source from its end");
  option("tie_embeddings", model.tie,
         "share weights: target (target embedding and output layer), embeddings (source and target "
         "embedding), all (all three)");
  option("init", model.init,
         "initial weights: uniform in ±init_scale, or xavier (Glorot, uniform)");
  option("init_scale", model.init_scale, "half width of init: uniform",
         {.min = 0, .max = 10, .above_min = true});
}

TransformerSection::TransformerSection() {
  option("type", type, "the kind of model", {.choices = {"transformer"}});
  option("fused", model.fused,
         "attention and dropout as one operator each, which keep nothing of the size "
         "of their masks; false: the papers' granularity");
  option("encoder_layers", model.encoder_layers, "layers of the encoder", {.min = 1, .max = 256});
  option("decoder_layers", model.decoder_layers, "layers of the decoder", {.min = 1, .max = 256});
  option("hidden", model.hidden, "width of embeddings and of every layer",
         {.min = 1, .max = 65536});
  option("ffn", model.ffn, "inner width of the feed-forward layers", {.min = 1, .max = 262144});
  option("heads", model.heads, "heads of every attention; a divisor of hidden",
         {.min = 1, .max = 1024});
  option("norm", model.norm,
         "layer norm: post (after each residual sum, as in the paper) or pre "
         "(before each sublayer, and at the end of either stack)");
  option("dropout", model.dropout, "of embeddings and of what each sublayer adds to the sum",
         {.min = 0, .max = 1, .below_max = true});
  option("attention_dropout", model.attention_dropout,
         "of the attention's weights; null: as dropout", {.min = 0, .max = 1, .below_max = true});
  option("activation_dropout", model.activation_dropout,
         "inside the feed-forward layers, after the relu; null: as dropout",
         {.min = 0, .max = 1, .below_max = true});
  option("tie_embeddings", model.tie,
         "share weights: target (target embedding and output layer), all (source embedding too)");
  option("loss_chunks", model.loss_chunks, kLossChunksHelp, {.min = 1, .max = 65536});
}

GnmtSection::GnmtSection() {
  option("type", type, "the kind of model", {.choices = {"gnmt"}});
  option("fused", model.fused,
         "use fused LSTM-cell and attention operators; false: the papers' granularity");
  option("encoder_layers", model.encoder_layers,
         "LSTM layers of the encoder; the first reads both ways, residual "
         "sums from the third on",
         {.min = 2, .max = 64});
  option("decoder_layers", model.decoder_layers,
         "LSTM layers of the decoder; the first asks the attention, the "
         "others read what it finds",
         {.min = 2, .max = 64});
  option("hidden", model.hidden, "width of embeddings, layers and attention",
         {.min = 1, .max = 65536});
  option("share_embedding", model.share_embedding,
         "one table for both languages: needs data.shared_vocabulary");
  option("dropout", model.dropout, "of every layer's input",
         {.min = 0, .max = 1, .below_max = true});
  option("loss_chunks", model.loss_chunks, kLossChunksHelp, {.min = 1, .max = 65536});
  option("init_scale", model.init_scale, "half width of the uniform first weights",
         {.min = 0, .max = 10, .above_min = true});
}

Rules<ParallelTextConfig> parallel_text_rules() {
  return {
      {"data.tokenizer, data.sentencepiece_file, data.source_vocab, data.target_vocab",
       "with sentencepiece the pieces are the vocabulary: no vocabulary files and sizes (but for "
       "data.synthetic); sentencepiece_file is of no use without it",
       [](const ParallelTextConfig& data) -> std::string {
         if (*data.tokenizer != "sentencepiece") {
           if (!*data.sentencepiece_file) return "";
           return "data.sentencepiece_file: is of no use with data.tokenizer " + *data.tokenizer +
                  "; set that to sentencepiece";
         }
         const char* key = *data.source_vocab        ? "source_vocab"
                           : *data.target_vocab      ? "target_vocab"
                           : *data.synthetic         ? nullptr
                           : *data.source_vocab_size ? "source_vocab_size"
                           : *data.target_vocab_size ? "target_vocab_size"
                                                     : nullptr;
         if (!key) return "";
         return std::string("data.") + key +
                ": with data.tokenizer sentencepiece the pieces are "
                "the vocabulary; leave it null, and set data.sentencepiece_size";
       }},
      {"data.shared_vocabulary, data.source_vocab, data.target_vocab",
       "a shared vocabulary is one file and one size: the target's options stay null, or equal",
       [](const ParallelTextConfig& data) -> std::string {
         if (!*data.shared_vocabulary) return "";
         auto differs = [](const auto& source, const auto& target) {
           return *target && *target != *source;
         };
         if (differs(data.source_vocab, data.target_vocab))
           return "data.target_vocab: with data.shared_vocabulary it is data.source_vocab; "
                  "leave it null";
         if (differs(data.source_vocab_size, data.target_vocab_size))
           return "data.target_vocab_size: with data.shared_vocabulary it is "
                  "data.source_vocab_size; leave it null";
         return "";
       }},
  };
}

Rules<NmtConfig> nmt_rules() {
  return {
      {"model.bidirectional, model.hidden", "a bidirectional layer needs an even hidden",
       [](const NmtConfig& c) { return fault(c.model); }},
      {"model.tie_embeddings, model.hidden, model.embedding",
       "target and all tie the output layer: hidden equals embedding",
       [](const NmtConfig& c) { return fault(c.model); }},
  };
}

Rules<TransformerConfig> transformer_rules() {
  return {
      {"model.heads, model.hidden", "the heads divide hidden, into 256 columns each at most",
       [](const TransformerConfig& c) { return fault(c.model); }},
  };
}

}  // namespace pal
