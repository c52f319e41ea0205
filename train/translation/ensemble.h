// Trained models that translate, score and are evaluated together; one model is an ensemble of one.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "train/translation/translation_task.h"
#include "train/translation/translator.h"

namespace pal {

struct Translation {
  std::string text;
  double log_prob = 0, score = 0;  // see Hypothesis
};

// Of a source line, as a model reads it. The search makes up to twice as many, and each looks at
// all of them: beyond this it takes minutes a line, and soon hours. No sentence is as long.
inline constexpr int64_t kMostSourceWords = 1000;

class Ensemble {
 public:
  // Folders of runs with commas between: DIR[,DIR...]. UsageError as open_nmt, or when the models'
  // target vocabularies or tokenizers differ.
  explicit Ensemble(const std::string& folders);

  // Why a line is not translated; empty: it is.
  std::string defect_of(const std::string& line) const;
  // The translations of every line, best first. A line without a word has one, empty. UsageError
  // where one has a defect, here and below.
  std::vector<std::vector<Translation>> translate(std::span<const std::string> lines,
                                                  const BeamOptions& options) const;
  // The log probability of every target line given its source line, in nats, </s> included: see
  // Translator::score. Words that the vocabulary does not hold count as <unk>.
  std::vector<double> score(std::span<const std::string> sources,
                            std::span<const std::string> targets) const;
  // With the best translation of the beam. The loss of several models is that of their average,
  // over the pairs with a source, and truncates nothing.
  TranslationEvaluation evaluate(const TranslationPart& part, const BeamOptions& options) const;

  TranslationData& data() const { return models_[0].task->data(); }
  std::string weights() const;  // the files they came from, for the log

 private:
  // The lines in the numbers of every model.
  std::vector<std::vector<std::vector<int32_t>>> encode(std::span<const std::string> lines) const;
  Translator translator(size_t lines) const;

  std::vector<SavedNmt> models_;
};

}  // namespace pal
