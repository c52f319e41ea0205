// The translator's data as a configuration describes it: parallel text from files or made up, its
// vocabularies, and the ladder of buckets. Each is read when it is first asked for, so that a
// trained model translates where its training text is not.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/batches.h"
#include "data/segmenter.h"
#include "train/config/config.h"

namespace pal {

// A part of the corpus: the lines as they stand in the files, and as numbers.
struct TranslationPart {
  ParallelText lines;
  EncodedText text;
};

class TranslationData {
 public:
  // `model_dir`, where given, is a run's folder: its vocabularies (or SentencePiece models) and
  // buckets are used. Else the vocabularies come from data.source_vocab and data.target_vocab (or
  // data.sentencepiece_file), else from the training text. UsageError when a file that is needed
  // is missing or will not do.
  TranslationData(const ParallelTextConfig& config, BatchSize batch, uint64_t seed,
                  std::filesystem::path model_dir = {});

  const Vocabulary& source() const { return source_; }
  const Vocabulary& target() const { return target_; }
  const Segmenter& source_segmenter() const { return source_segmenter_; }
  const Segmenter& target_segmenter() const { return target_segmenter_; }

  const EncodedText& train();
  const BucketLadder& ladder();
  const TranslationPart& part(const std::string& name);  // "valid" or "test"
  // Any parallel text, in the vocabularies' numbers.
  TranslationPart read_part(const CorpusFile& source, const CorpusFile& target) const;

  // Stands for the training text as numbers and the ladder: equal ones make equal batches.
  uint64_t fingerprint();
  // What another run with `model_dir` reads: vocab.source.txt and vocab.target.txt, or source.model
  // and target.model of SentencePiece; and buckets.txt, a line a bucket: source length, target
  // length, and, where train.batch_words makes them differ, rows.
  void save(const std::filesystem::path& folder);
  // A few lines for the log. Reads the training text.
  std::vector<std::string> describe();

 private:
  std::pair<CorpusFile, CorpusFile> files(const std::string& part) const;
  Vocabulary read_vocabulary(const std::string& file, const std::string& key,
                             const std::optional<int64_t>& size) const;
  void make_vocabularies();
  void make_pieces();
  void use_pieces(SentencePiece source, SentencePiece target);
  void load_vocabularies();
  void read_training_lines();
  EncodedText encode(const ParallelText& lines) const;
  TranslationPart make_up(const std::string& part) const;

  ParallelTextConfig config_;
  BatchSize batch_;
  uint64_t seed_;
  std::filesystem::path model_dir_;
  Segmenter source_segmenter_, target_segmenter_;
  Vocabulary source_, target_;
  std::unique_ptr<ParallelText> lines_;  // the training text, between counting and numbering it
  std::unique_ptr<EncodedText> train_;
  std::unique_ptr<BucketLadder> ladder_;
  std::optional<uint64_t> fingerprint_;
  std::map<std::string, TranslationPart> parts_;
};

}  // namespace pal
