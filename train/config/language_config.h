// The configuration of language models: the section "data", and "model" of BERT and of the
// recurrent highway network.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "train/config/option.h"

namespace pal {

// Running text: a file a part, read as one long sequence of words, each line ended by </s>.
struct TextConfig : Section {
  Option<std::string> root{*this, "root", ".",
                           "folder of the files; a relative one is looked for from the working "
                           "directory, then beside the program's own files"};
  Option<std::string> train{*this, "train", "train.txt", "training text under root"};
  Option<std::string> valid{*this, "valid", "valid.txt", "validation text"};
  Option<std::string> test{*this, "test", "test.txt", "test text"};
  Option<std::string> tokenizer{*this,
                                "tokenizer",
                                "simple",
                                "whitespace (text is tokenised already), simple (splits off "
                                "punctuation) or sentencepiece (learned pieces of words)",
                                {.choices = {"whitespace", "simple", "sentencepiece"}}};
  Option<int64_t> sentencepiece_size{
      *this,
      "sentencepiece_size",
      8000,
      "of sentencepiece: pieces to learn (at most: a small text has fewer), specials apart",
      {.min = 1, .max = 1'000'000}};
  Option<std::optional<int64_t>> vocab_size{*this,
                                            "vocab_size",
                                            {},
                                            "most frequent words kept, specials apart; null: all",
                                            {.min = 1, .max = 10'000'000}};
  Option<int64_t> vocab_min_count{
      *this, "vocab_min_count", 1, "rarer words become <unk>", {.min = 1, .max = 1'000'000}};
  Option<int64_t> length{*this, "length", 128, "words of a sample", {.min = 2, .max = 10'000}};
  Option<bool> synthetic{*this, "synthetic", false,
                         "made-up text of vocab_size words instead of the files"};
};

// BERT (Devlin et al. 2019) and XLM-R, as they guess hidden words.
struct BertConfig : Section {
  Option<std::string> type{*this, "type", "bert", "the kind of model", {.choices = {"bert"}}};
  Option<int64_t> layers{*this, "layers", 12, "of the encoder", {.min = 1, .max = 256}};
  Option<int64_t> hidden{
      *this, "hidden", 768, "width of embeddings and of every layer", {.min = 1, .max = 65536}};
  Option<int64_t> ffn{
      *this, "ffn", 3072, "inner width of the feed-forward layers", {.min = 1, .max = 262144}};
  Option<int64_t> heads{
      *this, "heads", 12, "heads of every attention; a divisor of hidden", {.min = 1, .max = 1024}};
  Option<int64_t> positions{
      *this, "positions", 512, "rows of the table of positions", {.min = 2, .max = 65536}};
  Option<double> dropout{*this,
                         "dropout",
                         0.1,
                         "of embeddings and of what each sublayer adds",
                         {.min = 0, .max = 1, .below_max = true}};
  Option<double> attention_dropout{*this,
                                   "attention_dropout",
                                   0.1,
                                   "of the attention's weights",
                                   {.min = 0, .max = 1, .below_max = true}};
  Option<double> hide{*this,
                      "hide",
                      0.15,
                      "probability that a word is to be guessed: of these 8 in 10 are hidden, one "
                      "is another word, one stands as it is",
                      {.min = 0, .max = 1, .above_min = true}};
  Option<int64_t> loss_chunks{
      *this,
      "loss_chunks",
      1,
      "output layer and loss in so many runs of rows: with memory.schedule lifetime one run's "
      "logits are in memory at a time; the loss is the same but for the order of its sums",
      {.min = 1, .max = 65536}};
};

// The recurrent highway network (Zilly et al. 2017), as it guesses the next word.
struct RhnConfig : Section {
  Option<std::string> type{*this, "type", "rhn", "the kind of model", {.choices = {"rhn"}}};
  Option<int64_t> depth{
      *this, "depth", 10, "layers from one word to the next", {.min = 1, .max = 256}};
  Option<int64_t> hidden{
      *this, "hidden", 830, "width of the embedding and of the state", {.min = 1, .max = 65536}};
  Option<bool> tied{*this, "tied", true, "the output layer's matrix is that of the embedding"};
  Option<double> input_dropout{*this,
                               "input_dropout",
                               0.75,
                               "of the words' embeddings",
                               {.min = 0, .max = 1, .below_max = true}};
  Option<double> output_dropout{*this,
                                "output_dropout",
                                0.75,
                                "of the states, before the output",
                                {.min = 0, .max = 1, .below_max = true}};
  Option<double> transform_bias{*this,
                                "transform_bias",
                                -2.0,
                                "first bias of the gates that let new content in",
                                {.min = -10, .max = 10}};
  Option<int64_t> loss_chunks{
      *this,
      "loss_chunks",
      1,
      "output layer and loss in so many runs of rows: with memory.schedule lifetime one run's "
      "logits are in memory at a time; the loss is the same but for the order of its sums",
      {.min = 1, .max = 65536}};
};

}  // namespace pal
