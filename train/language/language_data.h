// A language model's text as a configuration describes it: each part one sequence of numbers, and
// its samples. The vocabulary is made of the training text, or a run's own.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/segmenter.h"
#include "data/vocabulary.h"
#include "train/config/config.h"
#include "train/language/language_model.h"

namespace pal {

// B texts of S words, time-major, as a model's inputs want them.
struct LanguageBatch {
  int64_t samples = 0;  // of B; the rest is padding
  int64_t words = 0, targets = 0;
  std::vector<int32_t> tokens, lengths, wanted;  // (S, B), (B), (S, B): 0 counts nothing
};

class LanguageData {
 public:
  // `model_dir`, where given, is a run's folder: its vocabulary is used.
  LanguageData(const TextConfig& config, uint64_t seed, std::filesystem::path model_dir = {});

  const Vocabulary& vocabulary() const { return vocabulary_; }
  const std::vector<int32_t>& part(const std::string& name);  // "train", "valid" or "test"
  // A part in samples of data.length words, the last perhaps shorter.
  int64_t samples(const std::string& name);
  // The samples `which` of a part. Words are hidden by (seed, stream) and the sample's own number.
  void fill(const std::string& name, std::span<const int64_t> which, int64_t rows,
            const LanguageModel& model, uint32_t stream, LanguageBatch& batch);
  int64_t length() const { return *config_.length; }

  uint64_t fingerprint();                                // of the training text as numbers
  void save(const std::filesystem::path& folder) const;  // vocab.txt, or text.model of pieces
  std::vector<std::string> describe();

 private:
  std::vector<std::string> lines(const std::string& name) const;
  SentencePiece learn_pieces() const;

  TextConfig config_;
  uint64_t seed_;
  Segmenter segmenter_;
  Vocabulary vocabulary_;
  std::map<std::string, std::vector<int32_t>> parts_;
  std::optional<uint64_t> fingerprint_;  // asked for after every update
};

}  // namespace pal
