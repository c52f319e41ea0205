// Between lines of text and the translator's numbers, for one model or several.
#include "train/translation/ensemble.h"

#include <algorithm>
#include <bit>

#include "core/error.h"
#include "data/vocabulary.h"
#include "train/config/wording.h"
#include "train/run_files/saved_run.h"

namespace pal {
Ensemble::Ensemble(const std::string& folders) {
  const std::vector<std::string> names = split_models(folders);
  for (const std::string& name : names) {
    models_.push_back(open_nmt(name));
    const TranslationData &first = data(), &own = models_.back().task->data();
    const std::string both = "--model: " + names[0] + " and " + name;
    if (own.target().words() != first.target().words()) {
      throw UsageError(both + " have different target vocabularies (" +
                       std::to_string(first.target().size()) + " and " +
                       std::to_string(own.target().size()) +
                       " words); an ensemble needs models "
                       "trained with the same one (data.target_vocab)");
    }
    if (own.target_segmenter() != first.target_segmenter()) {
      throw UsageError(both +
                       " have different tokenizers; an ensemble needs models trained with "
                       "the same one (data.tokenizer, data.sentencepiece_file)");
    }
  }
}

std::string Ensemble::weights() const {
  std::string list;
  for (const SavedNmt& model : models_) list += (list.empty() ? "" : ", ") + model.weights.string();
  return list;
}

std::string Ensemble::defect_of(const std::string& line) const {
  for (const SavedNmt& model : models_) {
    const size_t words = model.task->data().source_segmenter().split(line).size();
    if (words > size_t(kMostSourceWords)) {
      return "has " + thousands(int64_t(words)) + " words, and no more than " +
             thousands(kMostSourceWords) + " are translated at once; write one sentence a line";
    }
  }
  return {};
}

std::vector<std::vector<std::vector<int32_t>>> Ensemble::encode(
    std::span<const std::string> lines) const {
  std::vector<std::vector<std::vector<int32_t>>> all;
  for (const SavedNmt& model : models_) {
    const TranslationData& own = model.task->data();
    all.emplace_back();
    for (const std::string& line : lines) {
      if (const std::string defect = defect_of(line); !defect.empty()) {
        throw UsageError("line " + std::to_string(all.back().size() + 1) + " of the source " +
                         defect);
      }
      all.back().push_back(own.source().encode(own.source_segmenter().split(line)));
    }
  }
  return all;
}

Translator Ensemble::translator(size_t lines) const {
  std::vector<Translator::Member> members;
  for (const SavedNmt& model : models_) {
    members.push_back(model.task->translator_member(*model.programs));
  }
  // A few lines need no large batch; powers of two keep the number of different programs small.
  const auto few = static_cast<int64_t>(std::bit_ceil(std::max<size_t>(1, lines)));
  return Translator(std::move(members), std::min(models_[0].task->batch(), few));
}

std::vector<std::vector<Translation>> Ensemble::translate(std::span<const std::string> lines,
                                                          const BeamOptions& options) const {
  const auto sources = encode(lines);
  const TranslationData& first = data();
  const std::vector<Sentences> views(sources.begin(), sources.end());
  std::vector<std::vector<Translation>> out;
  for (const std::vector<Hypothesis>& best : translator(lines.size()).beam(views, options)) {
    out.emplace_back();
    for (const Hypothesis& one : best) {
      out.back().push_back({first.target_segmenter().join(first.target().decode(one.words)),
                            one.log_prob, one.score});
    }
  }
  return out;
}

std::vector<double> Ensemble::score(std::span<const std::string> sources,
                                    std::span<const std::string> targets) const {
  const auto encoded = encode(sources);
  std::vector<std::vector<int32_t>> words;
  for (const std::string& line : targets) {
    words.push_back(data().target().encode(data().target_segmenter().split(line)));
  }
  return translator(sources.size())
      .score(std::vector<Sentences>(encoded.begin(), encoded.end()), words);
}

TranslationEvaluation Ensemble::evaluate(const TranslationPart& part,
                                         const BeamOptions& options) const {
  TranslationEvaluation result;
  for (const std::vector<Translation>& best : translate(part.lines.source, options)) {
    result.hypotheses.push_back(best[0].text);
  }
  result.bleu = corpus_bleu(result.hypotheses, part.lines.target);
  if (models_.size() == 1) {
    result.loss = models_[0].task->loss(*models_[0].programs, part, {}, result.truncated);
    return result;
  }
  const std::vector<double> scores = score(part.lines.source, part.lines.target);
  double sum = 0;
  int64_t words = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (part.text.source(static_cast<int64_t>(i)).empty()) continue;
    sum -= scores[i];
    words += part.text.length(static_cast<int64_t>(i)).target;  // </s> counted
  }
  result.loss = sum / static_cast<double>(words);
  return result;
}

}  // namespace pal
