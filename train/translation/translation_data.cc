// Reads, or makes up, the translator's corpus.
#include "train/translation/translation_data.h"

#include <algorithm>
#include <cctype>

#include "core/error.h"
#include "data/ladder_file.h"
#include "data/made_up_text.h"
#include "train/config/wording.h"
#include "train/run_files/fingerprint.h"
#include "train/run_files/log.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSourceFile = "vocab.source.txt";
constexpr const char* kTargetFile = "vocab.target.txt";
constexpr const char* kSourcePieces = "source.model";
constexpr const char* kTargetPieces = "target.model";

// What to do when a corpus file is missing: where known sets are, or how to go on without.
std::string hint_for(const ParallelTextConfig& data) {
  std::string root = *data.root;
  for (char& c : root) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const std::string into = " and put the files into " + data_path(data, "").string();
  if (root.find("iwslt15") != std::string::npos) {
    return "download the IWSLT'15 English-Vietnamese set (train, tst2012, tst2013, vocab; .en and "
           ".vi) from https://nlp.stanford.edu/projects/nmt/" +
           into;
  }
  if (root.find("multi30k") != std::string::npos) {
    return "download task 1 of Multi30k from https://github.com/multi30k/dataset" + into;
  }
  if (root.find("wmt16") != std::string::npos) {
    return "download the English-German parallel text of the WMT 2016 news task (its page is "
           "https://www.statmt.org/wmt16/translation-task.html), tokenise and clean it" +
           into;
  }
  return "a small English-Vietnamese set comes with the program: --set "
         "data.root=data/samples/tatoeba_en_vi";
}

}  // namespace

TranslationData::TranslationData(const ParallelTextConfig& config, BatchSize batch, uint64_t seed,
                                 fs::path model_dir)
    : config_(config), batch_(batch), seed_(seed), model_dir_(std::move(model_dir)) {
  const bool pieces = *config.tokenizer == "sentencepiece";
  // Made-up text is made of words, whatever real text would be cut into.
  if (pieces && *config.synthetic) {
    source_segmenter_ = target_segmenter_ = Tokenizer::whitespace;
  } else if (!pieces) {
    source_segmenter_ = target_segmenter_ = tokenizer_named(*config.tokenizer);
  }
  if (!model_dir_.empty()) {
    load_vocabularies();
  } else if (pieces && !*config.synthetic) {
    make_pieces();
  } else {
    make_vocabularies();
  }
}

void TranslationData::load_vocabularies() {
  const auto file = [&](const char* name) {
    return CorpusFile{(model_dir_ / name).string(), "",
                      "it is written when a run begins; name a run's folder"};
  };
  if (*config_.tokenizer == "sentencepiece" && !*config_.synthetic) {
    use_pieces(SentencePiece::load(file(kSourcePieces)), SentencePiece::load(file(kTargetPieces)));
  } else {
    source_ = Vocabulary::load(file(kSourceFile));
    target_ = Vocabulary::load(file(kTargetFile));
  }
}

void TranslationData::use_pieces(SentencePiece source, SentencePiece target) {
  source_ = Vocabulary::from_pieces(source.pieces());
  target_ = Vocabulary::from_pieces(target.pieces());
  source_segmenter_ = std::move(source);
  target_segmenter_ = std::move(target);
}

// One model where it is given or the vocabulary is shared, else one a language.
void TranslationData::make_pieces() {
  if (const auto& file = *config_.sentencepiece_file) {
    const SentencePiece both =
        SentencePiece::load({data_path(config_, *file).string(), "data.sentencepiece_file", ""});
    return use_pieces(both, both);
  }
  read_training_lines();
  const SentencePiece::Options options{*config_.sentencepiece_model, *config_.sentencepiece_size};
  log_info("learning " + std::to_string(options.pieces) + " pieces (" + options.model + ") of " +
           thousands(static_cast<int64_t>(lines_->source.size())) + " training pairs");
  const auto learn = [&](std::vector<const std::vector<std::string>*> texts) {
    return SentencePiece::train(texts, options);
  };
  if (*config_.shared_vocabulary) {
    const SentencePiece both = learn({&lines_->source, &lines_->target});
    use_pieces(both, both);
  } else {
    use_pieces(learn({&lines_->source}), learn({&lines_->target}));
  }
}

void TranslationData::read_training_lines() {
  const auto [source, target] = files("train");
  if (!lines_) lines_ = std::make_unique<ParallelText>(read_parallel_text(source, target));
}

std::pair<CorpusFile, CorpusFile> TranslationData::files(const std::string& part) const {
  const ParallelFiles paths = parallel_files(config_, part);
  const std::string hint = hint_for(config_), key = "data." + part;
  return {{paths.source.string(), key + "_source", hint},
          {paths.target.string(), key + "_target", hint}};
}

EncodedText TranslationData::encode(const ParallelText& lines) const {
  return encode_text(lines, {source_segmenter_, source_}, {target_segmenter_, target_});
}

TranslationPart TranslationData::read_part(const CorpusFile& source,
                                           const CorpusFile& target) const {
  TranslationPart read{read_parallel_text(source, target), {}};
  read.text = encode(read.lines);
  return read;
}

Vocabulary TranslationData::read_vocabulary(const std::string& file, const std::string& key,
                                            const std::optional<int64_t>& size) const {
  const CorpusFile place{data_path(config_, file).string(), key, hint_for(config_)};
  Vocabulary all = Vocabulary::load_any(place);
  if (!size || all.size() - Vocabulary::kSpecials <= *size) return all;
  std::vector<std::string> words = all.words();  // the most frequent ones come first
  words.resize(static_cast<size_t>(*size) + Vocabulary::kSpecials);
  return Vocabulary::from_words(std::move(words), place.path);
}

void TranslationData::make_vocabularies() {
  const bool shared = *config_.shared_vocabulary;
  auto source_size = *config_.source_vocab_size, target_size = *config_.target_vocab_size;
  if (*config_.tokenizer == "sentencepiece") {  // made-up text with as many words as pieces
    source_size = source_size.value_or(*config_.sentencepiece_size);
    target_size = target_size.value_or(*config_.sentencepiece_size);
  }
  if (shared) target_size = source_size;
  // Made-up text of a given size needs no vocabulary file: any configuration can be tried without
  // its corpus.
  auto file_unless_made_up = [&](const std::optional<std::string>& file, bool sized) {
    return *config_.synthetic && sized ? std::optional<std::string>{} : file;
  };
  const auto source_file = file_unless_made_up(*config_.source_vocab, source_size.has_value());
  const auto target_file =
      shared ? source_file : file_unless_made_up(*config_.target_vocab, target_size.has_value());
  if (source_file) source_ = read_vocabulary(*source_file, "data.source_vocab", source_size);
  if (shared && source_file) {
    target_ = source_;
  } else if (target_file) {
    target_ = read_vocabulary(*target_file, "data.target_vocab", target_size);
  }
  if (source_file && target_file) return;

  if (*config_.synthetic) {
    if (!source_size || !target_size) {
      throw UsageError(std::string("data.") + (source_size ? "target" : "source") +
                       "_vocab_size: made-up text (data.synthetic) needs it; set it");
    }
    if (!source_file) source_ = numbered_words(shared ? "w" : "s", *source_size);
    if (!target_file) target_ = shared ? source_ : numbered_words("t", *target_size);
    return;
  }
  read_training_lines();
  auto options = [&](const std::optional<int64_t>& size) {
    return VocabularyOptions{size.value_or(0), *config_.vocab_min_count};
  };
  WordCounter source, target;
  count_words(lines_->source, source_segmenter_, source);
  count_words(lines_->target, target_segmenter_, shared ? source : target);
  if (!source_file) source_ = source.vocabulary(options(source_size));
  if (!target_file) target_ = shared ? source_ : target.vocabulary(options(target_size));
}

TranslationPart TranslationData::make_up(const std::string& part) const {
  const bool train = part == "train";
  const uint32_t stream = train ? 1 : part == "valid" ? 2 : 3;
  TranslationPart made;
  for (const MadeUpPair& pair : make_up_text(source_, target_, train ? 4000 : 200, seed_, stream)) {
    made.text.add(pair.source, pair.target);
    if (train) continue;  // nobody looks at its lines
    made.lines.source.push_back(source_segmenter_.join(source_.decode(pair.source)));
    made.lines.target.push_back(target_segmenter_.join(target_.decode(pair.target)));
  }
  return made;
}

const EncodedText& TranslationData::train() {
  if (!train_) {
    if (*config_.synthetic) {
      train_ = std::make_unique<EncodedText>(make_up("train").text);
    } else {
      read_training_lines();
      train_ = std::make_unique<EncodedText>(encode(*lines_));
    }
    lines_.reset();
  }
  return *train_;
}

const TranslationPart& TranslationData::part(const std::string& name) {
  const auto found = parts_.find(name);
  if (found != parts_.end()) return found->second;
  if (*config_.synthetic) return parts_.emplace(name, make_up(name)).first->second;
  const auto [source, target] = files(name);
  return parts_.emplace(name, read_part(source, target)).first->second;
}

const BucketLadder& TranslationData::ladder() {
  if (!ladder_) {
    const fs::path saved = model_dir_ / kLadderFile;
    std::error_code ignored;
    if (!model_dir_.empty() && fs::exists(saved, ignored)) {
      ladder_ = std::make_unique<BucketLadder>(load_ladder(saved.string(), batch_));
    } else {
      const std::vector<PairLength> lengths = train().lengths();
      const int longest = static_cast<int>(*config_.max_length);
      const auto width = *config_.bucket_width;
      ladder_ = std::make_unique<BucketLadder>(
          width ? width_buckets(lengths, batch_, longest, static_cast<int>(*width))
                : choose_buckets(lengths, batch_, longest));
    }
  }
  return *ladder_;
}

uint64_t TranslationData::fingerprint() {
  if (fingerprint_) return *fingerprint_;
  Fingerprint print;
  const EncodedText& text = train();
  print.take(text.size());
  for (int64_t pair = 0; pair < text.size(); ++pair) {
    for (const std::span<const int32_t> words : {text.source(pair), text.target(pair)}) {
      print.take(static_cast<int64_t>(words.size()));
      for (const int32_t id : words) print.take(id);
    }
  }
  print.take(ladder().batch);
  for (const Bucket& each : ladder().buckets) {
    print.take(each.source), print.take(each.target);
    if (each.rows > 0) print.take(each.rows);
  }
  fingerprint_ = print.value();
  return *fingerprint_;
}

void TranslationData::save(const fs::path& folder) {
  if (source_segmenter_.pieces()) {  // the pieces are the vocabulary
    source_segmenter_.pieces()->save((folder / kSourcePieces).string());
    target_segmenter_.pieces()->save((folder / kTargetPieces).string());
  } else {
    source_.save((folder / kSourceFile).string());
    target_.save((folder / kTargetFile).string());
  }
  save_ladder((folder / kLadderFile).string(), ladder());
}

std::vector<std::string> TranslationData::describe() {
  std::vector<std::string> lines;
  const std::string languages = *config_.source_lang + "-" + *config_.target_lang;
  const std::string sizes = thousands(train().size()) + " training pairs; vocabularies of " +
                            thousands(source_.size()) + " and " + thousands(target_.size());
  if (*config_.synthetic) {
    lines.push_back(
        "SYNTHETIC TEXT (data.synthetic), made up from the seed: its loss and BLEU say "
        "nothing about translating; " +
        sizes);
  } else {
    lines.push_back(languages + " text in " + data_path(config_, "").string() + ": " + sizes);
  }
  lines.push_back("buckets of " + ladder().print());
  lines.push_back(report_ladder(train().lengths(), ladder()).print());
  return lines;
}

}  // namespace pal
