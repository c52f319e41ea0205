// The section "data" of language models.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/config/option.h"

namespace pal {

// Running text: a file a part, read as one long sequence of words, each line ended by </s>.
struct TextSection : Section {
  Option<std::string> root = option("root", ".",
                                    "folder of the files; a relative one is looked for from the "
                                    "working directory, then beside the program's own files");
  Option<std::string> train = option("train", "train.txt", "training text under root");
  Option<std::string> valid = option("valid", "valid.txt", "validation text");
  Option<std::string> test = option("test", "test.txt", "test text");
  Option<std::string> tokenizer =
      option("tokenizer", "simple",
             "whitespace (text is tokenised already), simple (splits off punctuation) or "
             "sentencepiece (learned pieces of words)",
             {.choices = {"whitespace", "simple", "sentencepiece"}});
  Option<int64_t> sentencepiece_size =
      option("sentencepiece_size", 8000,
             "of sentencepiece: pieces to learn (at most: a small text has fewer), specials apart",
             {.min = 1, .max = 1'000'000});
  Option<std::optional<int64_t>> vocab_size =
      option("vocab_size", {}, "most frequent words kept, specials apart; null: all",
             {.min = 1, .max = 10'000'000});
  Option<int64_t> vocab_min_count =
      option("vocab_min_count", 1, "rarer words become <unk>", {.min = 1, .max = 1'000'000});
  Option<int64_t> length = option("length", 128, "words of a sample", {.min = 2, .max = 10'000});
  Option<bool> synthetic =
      option("synthetic", false, "made-up text of vocab_size words instead of the files");
};
using TextConfig = Copied<TextSection>;

}  // namespace pal
