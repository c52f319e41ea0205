// Any bytes as two sides of a corpus (a form feed between them): refused in one line, or split,
// numbered, bucketed and batched without losing a sentence.
#include <algorithm>

#include "core/error.h"
#include "data/iterator.h"
#include "tests/fuzz/fuzz.h"

namespace pal {
namespace {

void check_words(const std::vector<std::string>& lines, Tokenizer tokenizer,
                 const Vocabulary& vocabulary) {
  for (const std::string& line : lines) {
    const std::vector<std::string> words = tokenize(line, tokenizer);
    size_t bytes = 0;
    for (const std::string& word : words) {
      require(!word.empty(), "no empty word");
      bytes += word.size();
    }
    require(bytes <= line.size(), "no byte from nowhere");
    for (const int32_t id : vocabulary.encode(words)) {
      require(id >= 0 && id < vocabulary.size(), "an id of the vocabulary");
    }
    const std::string joined = detokenize(words, tokenizer);
    require(tokenizer != Tokenizer::whitespace || tokenize(joined, tokenizer) == words,
            "words joined by spaces split into the same words");
  }
}

// An epoch of batches holds every pair that fits, once.
void check_batches(const EncodedText& text, const BucketLadder& ladder) {
  const LadderReport report = report_ladder(text.lengths(), ladder);
  require(report.pairs + report.dropped_long + report.dropped_empty == text.size(), "all counted");
  std::vector<int> seen(static_cast<size_t>(text.size()), 0);
  TrainIterator iterator(text, ladder, 1);
  require(iterator.batches_per_epoch() == report.batches, "as many batches as reported");
  TextBatch batch;
  for (int64_t i = 0; i < report.batches; ++i) {
    iterator.next(batch);
    require(batch.sentences >= 1 && batch.sentences <= batch.B, "a batch with rows");
    for (int row = 0; row < batch.sentences; ++row) {
      ++seen[static_cast<size_t>(batch.rows[static_cast<size_t>(row)])];
    }
  }
  require(std::count(seen.begin(), seen.end(), 1) == report.pairs, "every pair once");
  ValidIterator all(text, ladder);
  int64_t rows = 0;
  while (all.next(batch)) rows += batch.sentences;
  require(rows == text.size(), "validation leaves no pair out");
}

bool body(std::string_view bytes) {
  try {
    const size_t cut = std::min(bytes.find('\f'), bytes.size());
    ParallelText text{split_lines(bytes.substr(0, cut), "source"),
                      split_lines(bytes.substr(std::min(cut + 1, bytes.size())), "target")};
    const size_t lines = std::min(text.source.size(), text.target.size());
    text.source.resize(lines);
    text.target.resize(lines);
    for (const Tokenizer tokenizer : {Tokenizer::whitespace, Tokenizer::simple}) {
      WordCounter counter;
      count_words(text.source, tokenizer, counter);
      count_words(text.target, tokenizer, counter);
      const Vocabulary vocabulary = counter.vocabulary({.max_words = 20});
      check_words(text.source, tokenizer, vocabulary);
      check_words(text.target, tokenizer, vocabulary);
      const Segmenter segmenter(tokenizer);
      const EncodedText ids = encode_text(text, {segmenter, vocabulary}, {segmenter, vocabulary});
      const std::vector<PairLength> lengths = ids.lengths();
      check_batches(ids, choose_buckets(lengths, 3, 8, 3));
      check_batches(ids, choose_buckets(lengths, BatchSize::of_words(20), 9, 2));
      check_batches(ids, width_buckets(lengths, BatchSize::of_words(64), 40, 2));
    }
    return true;
  } catch (const UsageError& error) {
    require_one_line(error.what());
    return false;
  }
}

}  // namespace

FuzzTarget fuzz_text() {
  return {{"a b, c.\nTom's \"cat\".\n\fx y\nz!\n",
           "\xEF\xBB\xBFone two\r\n\r\nsix\r\n\f1,000.5 kg\n\n-3",
           "m\xE1\xBB\x99t hai ba\n\xE2\x80\x9Equote\xE2\x80\x9C\n\f...\n((a) [b])\n",
           "e.g. don't\ta--b\nit 's 5:30\n\f\xC2\xA0\xE3\x80\x80q\n''\n"},
          {"\n", "\r\n", "\f", " ", "\t", "'s", "'", "\"", "...", "-", "1,0", "\xC2\xA0",
           "\xE2\x80\x99", "\xE2\x80\x9E", "\xEF\xBB\xBF", "\xFF", std::string(1, '\0'),
           "\xE2\x96\x81", "a a a a a a a a a a"},
          body};
}

}  // namespace pal
