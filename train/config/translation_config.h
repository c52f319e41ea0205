// The section "data" of translators.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/rule.h"
#include "train/config/option.h"

namespace pal {

// Parallel text: two files, one sentence a line, line n of one translating line n of the other.
struct ParallelTextSection : Section {
  Option<std::string> root = option("root", ".",
                                    "folder of the files; a relative one is looked for from the "
                                    "working directory, then beside the program's own files");
  Option<std::string> source_lang = option("source_lang", "en", "source language, a file suffix");
  Option<std::string> target_lang = option("target_lang", "vi", "target language, a file suffix");
  Option<std::optional<std::string>> train_source =
      option("train_source", {}, "training text under root; null: train.SOURCE_LANG");
  Option<std::optional<std::string>> train_target =
      option("train_target", {}, "its translation; null: train.TARGET_LANG");
  Option<std::optional<std::string>> valid_source =
      option("valid_source", {}, "validation text; null: valid.SOURCE_LANG");
  Option<std::optional<std::string>> valid_target =
      option("valid_target", {}, "its translation; null: valid.TARGET_LANG");
  Option<std::optional<std::string>> test_source =
      option("test_source", {}, "test text; null: test.SOURCE_LANG");
  Option<std::optional<std::string>> test_target =
      option("test_target", {}, "its translation; null: test.TARGET_LANG");
  Option<std::string> tokenizer =
      option("tokenizer", "simple",
             "whitespace (text is tokenised already), simple (splits off punctuation) or "
             "sentencepiece (learned pieces of words)",
             {.choices = {"whitespace", "simple", "sentencepiece"}});
  Option<std::string> sentencepiece_model =
      option("sentencepiece_model", "unigram",
             "of sentencepiece: how pieces are learned from the training text when a run begins",
             {.choices = {"unigram", "bpe"}});
  Option<int64_t> sentencepiece_size =
      option("sentencepiece_size", 8000,
             "of sentencepiece: pieces to learn (at most: a small text has fewer), specials apart; "
             "with shared_vocabulary for both languages together, else for each",
             {.min = 1, .max = 1'000'000});
  Option<std::optional<std::string>> sentencepiece_file =
      option("sentencepiece_file", {},
             "of sentencepiece: a .model file under root, for both languages; null: learned, and "
             "saved in the run's folder");
  Option<std::optional<int64_t>> source_vocab_size =
      option("source_vocab_size", {}, "most frequent source words kept, specials apart; null: all",
             {.min = 1, .max = 10'000'000});
  Option<std::optional<int64_t>> target_vocab_size =
      option("target_vocab_size", {}, "most frequent target words kept, specials apart; null: all",
             {.min = 1, .max = 10'000'000});
  Option<int64_t> vocab_min_count =
      option("vocab_min_count", 1, "rarer words become <unk>", {.min = 1, .max = 1'000'000});
  Option<std::optional<std::string>> source_vocab = option(
      "source_vocab", {},
      "vocabulary file under root, a word a line (or word and count on every line); the specials "
      "<pad> <unk> <s> </s> may be in it or not; null: made from the training text");
  Option<std::optional<std::string>> target_vocab =
      option("target_vocab", {}, "likewise for the target; null: made from the training text");
  Option<bool> shared_vocabulary =
      option("shared_vocabulary", false, "one vocabulary for both languages");
  Option<int64_t> max_length = option(
      "max_length", 100,
      "training pairs with more words (the target's end mark is one) on either side are left out",
      {.min = 1, .max = 10'000});
  Option<std::optional<int64_t>> bucket_width =
      option("bucket_width", {},
             "lengths are padded to multiples of this, on the longer side (at most 12 of them: "
             "those that pad least are joined to the next); null: the lengths that pad least",
             {.min = 1, .max = 10'000});
  Option<bool> synthetic =
      option("synthetic", false, "made-up text with the usual lengths instead of the files");
};
using ParallelTextConfig = Copied<ParallelTextSection>;

Rules<ParallelTextConfig> parallel_text_rules();

}  // namespace pal
