// The configuration of language models: the section "data", and "model" of BERT and of the
// recurrent highway network.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/bert_options.h"
#include "models/rhn_options.h"
#include "train/config/option.h"

namespace pal {

// Running text: a file a part, read as one long sequence of words, each line ended by </s>.
struct TextSection : Section {
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
using TextConfig = Copied<TextSection>;

// BERT (Devlin et al. 2019) and XLM-R, as they guess hidden words.
struct BertSection : Section {
  BertOptions model;
  std::string type = "bert";
  double hide = 0.15;
  BertSection();
};
using BertConfig = Copied<BertSection>;

// The recurrent highway network (Zilly et al. 2017), as it guesses the next word.
struct RhnSection : Section {
  RhnOptions model;
  std::string type = "rhn";
  RhnSection();
};
using RhnConfig = Copied<RhnSection>;

}  // namespace pal
