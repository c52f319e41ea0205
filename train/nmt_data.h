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
#include "data/tokenizer.h"
#include "train/config.h"

namespace pal {

// A part of the corpus: the lines as they stand in the files, and as numbers.
struct NmtPart {
  ParallelText lines;
  EncodedText text;
};

class NmtData {
 public:
  // `model_dir`, where given, is a run's folder: its vocabularies and buckets are used. Else the
  // vocabularies come from data.source_vocab and data.target_vocab, else from the training text.
  // UsageError when a file that is needed is missing or will not do.
  NmtData(const ParallelTextConfig& config, int64_t batch, uint64_t seed,
          std::filesystem::path model_dir = {});

  const Vocabulary& source() const { return source_; }
  const Vocabulary& target() const { return target_; }
  Tokenizer tokenizer() const { return tokenizer_; }

  const EncodedText& train();
  const BucketLadder& ladder();
  const NmtPart& part(const std::string& name);  // "valid" or "test"
  // Any parallel text, in the vocabularies' numbers.
  NmtPart read_part(const CorpusFile& source, const CorpusFile& target) const;

  // Stands for the training text as numbers and the ladder: equal ones make equal batches.
  uint64_t fingerprint();
  // vocab.source.txt, vocab.target.txt and buckets.txt: what another run with `model_dir` reads.
  void save(const std::filesystem::path& folder);
  // A few lines for the log. Reads the training text.
  std::vector<std::string> describe();

 private:
  std::pair<CorpusFile, CorpusFile> files(const std::string& part) const;
  Vocabulary read_vocabulary(const std::string& file, const std::string& key,
                             const std::optional<int64_t>& size) const;
  void make_vocabularies();
  NmtPart make_up(const std::string& part) const;
  BucketLadder read_ladder(const std::filesystem::path& file) const;

  ParallelTextConfig config_;
  int64_t batch_;
  uint64_t seed_;
  std::filesystem::path model_dir_;
  Tokenizer tokenizer_;
  Vocabulary source_, target_;
  std::unique_ptr<ParallelText> lines_;  // the training text, between counting and numbering it
  std::unique_ptr<EncodedText> train_;
  std::unique_ptr<BucketLadder> ladder_;
  std::optional<uint64_t> fingerprint_;
  std::map<std::string, NmtPart> parts_;
};

}  // namespace pal
