// Reads, or makes up, running text, and cuts it into samples.
#include "train/language/language_data.h"

#include <algorithm>

#include "core/error.h"
#include "core/philox.h"
#include "data/encoded_text.h"
#include "data/made_up_text.h"
#include "train/run_files/fingerprint.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVocabularyFile = "vocab.txt";
constexpr const char* kPiecesFile = "text.model";
constexpr int kMadeUpLines = 4000;

// What the model sees of a word that it is to guess (Devlin et al. 2019, section 3.1).
int32_t disguised(int32_t word, const LanguageModel& model, const Vocabulary& vocabulary,
                  uint32_t choice, uint32_t other) {
  const float u = uniform01(choice);
  if (u < 0.8f) return model.mask;
  if (u >= 0.9f || vocabulary.size() == Vocabulary::kSpecials) return word;
  return int32_t(Vocabulary::kSpecials +
                 other % uint32_t(vocabulary.size() - Vocabulary::kSpecials));
}

}  // namespace

LanguageData::LanguageData(const TextConfig& config, uint64_t seed, fs::path model_dir)
    : config_(config), seed_(seed) {
  const bool pieces = *config.tokenizer == "sentencepiece" && !*config.synthetic;
  if (!pieces) {
    segmenter_ = *config.synthetic ? Tokenizer::whitespace : tokenizer_named(*config.tokenizer);
  }
  const auto saved = [&](const char* name) {
    return CorpusFile{(model_dir / name).string(), "", "it is written when a run begins"};
  };
  if (pieces) {
    const SentencePiece model =
        model_dir.empty() ? learn_pieces() : SentencePiece::load(saved(kPiecesFile));
    vocabulary_ = Vocabulary::from_pieces(model.pieces());
    segmenter_ = model;
  } else if (!model_dir.empty()) {
    vocabulary_ = Vocabulary::load(saved(kVocabularyFile));
  } else if (*config.synthetic) {
    auto size = *config.vocab_size;
    if (*config.tokenizer == "sentencepiece") size = size.value_or(*config.sentencepiece_size);
    if (!size) throw UsageError("data.vocab_size: made-up text (data.synthetic) needs it; set it");
    vocabulary_ = numbered_words("w", *size);
  } else {
    WordCounter counter;
    count_words(lines("train"), segmenter_, counter);
    vocabulary_ = counter.vocabulary({config.vocab_size->value_or(0), *config.vocab_min_count});
  }
}

SentencePiece LanguageData::learn_pieces() const {
  const std::vector<std::string> text = lines("train");
  const std::vector<const std::vector<std::string>*> texts{&text};
  return SentencePiece::train(texts, {"unigram", *config_.sentencepiece_size});
}

std::vector<std::string> LanguageData::lines(const std::string& name) const {
  const std::string& file = name == "train"   ? *config_.train
                            : name == "valid" ? *config_.valid
                                              : *config_.test;
  return read_lines({data_path(config_, file).string(), "data." + name,
                     "a small text comes with the program: --set "
                     "data.root=data/samples/tatoeba_en_vi --set data." +
                         name + "=" + name + ".en"});
}

const std::vector<int32_t>& LanguageData::part(const std::string& name) {
  const auto found = parts_.find(name);
  if (found != parts_.end()) return found->second;
  std::vector<int32_t> ids;
  auto add = [&](std::span<const int32_t> line) {
    ids.insert(ids.end(), line.begin(), line.end());
    ids.push_back(Vocabulary::kEnd);
  };
  if (*config_.synthetic) {
    const bool train = name == "train";
    const uint32_t stream = train ? 1 : name == "valid" ? 2 : 3;
    for (const MadeUpPair& pair : make_up_text(
             vocabulary_, vocabulary_, train ? kMadeUpLines : kMadeUpLines / 20, seed_, stream)) {
      add(pair.source);
    }
  } else {
    for (const std::string& line : lines(name)) add(vocabulary_.encode(segmenter_.split(line)));
  }
  if (ids.size() < 2) throw UsageError("data." + name + ": has no words");
  return parts_.emplace(name, std::move(ids)).first->second;
}

int64_t LanguageData::samples(const std::string& name) {
  return (static_cast<int64_t>(part(name).size()) + length() - 1) / length();
}

void LanguageData::fill(const std::string& name, std::span<const int64_t> which, int64_t rows,
                        const LanguageModel& model, uint32_t stream, LanguageBatch& batch) {
  const std::vector<int32_t>& text = part(name);
  const int64_t S = length(), words = static_cast<int64_t>(text.size());
  batch = {.samples = static_cast<int64_t>(which.size())};
  batch.tokens.assign(size_t(S * rows), Vocabulary::kPad);
  batch.wanted.assign(size_t(S * rows), 0);
  batch.lengths.assign(size_t(rows), 0);
  auto want = [&](size_t at, int32_t word) { batch.wanted[at] = word, ++batch.targets; };
  for (size_t row = 0; row < which.size(); ++row) {
    const int64_t begin = which[row] * S, end = std::min(begin + S, words);
    batch.lengths[row] = static_cast<int32_t>(end - begin);
    batch.words += end - begin;
    for (int64_t i = begin; i < end; ++i) {
      const size_t at = size_t(i - begin) * size_t(rows) + row;
      const int32_t word = text[size_t(i)];
      if (!model.hides) {
        batch.tokens[at] = i == 0 ? Vocabulary::kEnd : text[size_t(i) - 1];
        want(at, word);
        continue;
      }
      const Philox4 random = draw({seed_, stream, 0, uint32_t(which[row])}, uint64_t(i - begin));
      const bool hidden = uniform01(random.x[0]) < model.hide && word >= Vocabulary::kSpecials;
      batch.tokens[at] =
          hidden ? disguised(word, model, vocabulary_, random.x[1], random.x[2]) : word;
      if (hidden) want(at, word);
    }
  }
}

uint64_t LanguageData::fingerprint() {
  if (fingerprint_) return *fingerprint_;
  Fingerprint print;
  for (const int32_t id : part("train")) print.take(id);
  fingerprint_ = print.value();
  return *fingerprint_;
}

void LanguageData::save(const fs::path& folder) const {
  if (segmenter_.pieces()) {
    segmenter_.pieces()->save((folder / kPiecesFile).string());
  } else {
    vocabulary_.save((folder / kVocabularyFile).string());
  }
}

std::vector<std::string> LanguageData::describe() {
  const std::string sizes = std::to_string(part("train").size()) + " training words in " +
                            std::to_string(samples("train")) + " samples; a vocabulary of " +
                            std::to_string(vocabulary_.size());
  if (!*config_.synthetic) return {"text in " + data_path(config_, "").string() + ": " + sizes};
  return {"SYNTHETIC TEXT (data.synthetic), made up from the seed: its perplexity says nothing; " +
          sizes};
}

}  // namespace pal
