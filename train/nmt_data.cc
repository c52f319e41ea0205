// Reads, or makes up, the translator's corpus.
#include "train/nmt_data.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "core/error.h"
#include "core/philox.h"
#include "data/atomic_file.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSourceFile = "vocab.source.txt";
constexpr const char* kTargetFile = "vocab.target.txt";
constexpr const char* kBucketsFile = "buckets.txt";

// What to do when a corpus file is missing: where known sets are, or how to go on without.
std::string hint_for(const ParallelTextConfig& data) {
  std::string root = *data.root;
  for (char& c : root) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const std::string into = " and put the files into " + data_path(data, "").string();
  if (root.find("iwslt15") != std::string::npos) {
    return "download the IWSLT'15 English-Vietnamese set (train, tst2012, tst2013, vocab; .en and "
           ".vi) from https://nlp.stanford.edu/projects/nmt/" + into;
  }
  if (root.find("multi30k") != std::string::npos) {
    return "download task 1 of Multi30k from https://github.com/multi30k/dataset" + into;
  }
  return "a small English-Vietnamese set comes with the program: --set "
         "data.root=data/samples/tatoeba_en_vi";
}

// Random numbers that depend on (seed, stream) alone.
class Draws {
 public:
  Draws(uint64_t seed, uint32_t stream) : key_{seed, 0, 0, stream} {}
  double uniform() {  // in (0, 1)
    if (used_ == 4) block_ = draw(key_, next_++), used_ = 0;
    return (static_cast<double>(block_.x[used_++]) + 0.5) * 0x1p-32;
  }
  double normal() {  // Box and Muller
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }

 private:
  RandomKey key_;
  uint64_t next_ = 0;
  int used_ = 4;
  Philox4 block_{};
};

// Numbers of words: ranks from 0, the most frequent first.
using Ranks = std::vector<int32_t>;

// A sentence about as long as a subtitle of IWSLT's talks (log-normal, 20 words in the mean), its
// words by Zipf's law.
Ranks make_up_source(Draws& draws, int32_t words) {
  const double length = std::exp(2.8 + 0.65 * draws.normal());
  Ranks sentence(static_cast<size_t>(std::clamp(std::lround(length), 1L, 300L)));
  constexpr double kOffset = 2.7;  // Mandelbrot's
  for (int32_t& rank : sentence) {
    const double at = kOffset * std::pow((words + kOffset) / kOffset, draws.uniform()) - kOffset;
    rank = std::min(static_cast<int32_t>(at), words - 1);
  }
  return sentence;
}

// Its "translation": word by word, every fourth word of the vocabulary becomes two, and an odd rank
// changes places with an even one after it.
Ranks translate_ranks(Ranks source, int32_t words) {
  for (size_t i = 0; i + 1 < source.size(); ++i) {
    if (source[i] % 2 == 1 && source[i + 1] % 2 == 0) {
      std::swap(source[i], source[i + 1]);
      ++i;
    }
  }
  Ranks target;
  for (const int32_t rank : source) {
    target.push_back(rank % words);
    if (rank % 4 == 3) target.push_back((rank + 1) % words);
  }
  return target;
}

std::string line_of(const Vocabulary& vocabulary, std::span<const int32_t> ids,
                    Tokenizer tokenizer) {
  return detokenize(vocabulary.decode(ids), tokenizer);
}

Vocabulary numbered_words(const std::string& prefix, int64_t count) {
  std::vector<std::string> words = Vocabulary().words();
  for (int64_t i = 1; i <= count; ++i) words.push_back(prefix + std::to_string(i));
  return Vocabulary::from_words(std::move(words), "made-up words");
}

void write_file(const fs::path& path, const std::string& text) {
  AtomicFile file(path.string());
  file.write(text.data(), text.size());
  file.commit();
}

std::string thousands(int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<size_t>(at), 1, ',');
  }
  return text;
}

}  // namespace

NmtData::NmtData(const ParallelTextConfig& config, int64_t batch, uint64_t seed, fs::path model_dir)
    : config_(config),
      batch_(batch),
      seed_(seed),
      model_dir_(std::move(model_dir)),
      tokenizer_(tokenizer_named(*config.tokenizer)) {
  if (model_dir_.empty()) {
    make_vocabularies();
  } else {
    const std::string hint = "it is written when a run begins; name a run's folder";
    source_ = Vocabulary::load({(model_dir_ / kSourceFile).string(), "", hint});
    target_ = Vocabulary::load({(model_dir_ / kTargetFile).string(), "", hint});
  }
}

std::pair<CorpusFile, CorpusFile> NmtData::files(const std::string& part) const {
  const ParallelFiles paths = parallel_files(config_, part);
  const std::string hint = hint_for(config_), key = "data." + part;
  return {{paths.source.string(), key + "_source", hint},
          {paths.target.string(), key + "_target", hint}};
}

NmtPart NmtData::read_part(const CorpusFile& source, const CorpusFile& target) const {
  NmtPart read{read_parallel_text(source, target), {}};
  read.text = encode_text(read.lines, tokenizer_, source_, target_);
  return read;
}

Vocabulary NmtData::read_vocabulary(const std::string& file, const std::string& key,
                                    const std::optional<int64_t>& size) const {
  const CorpusFile place{data_path(config_, file).string(), key, hint_for(config_)};
  Vocabulary all = Vocabulary::load(place);
  if (!size || all.size() - Vocabulary::kSpecials <= *size) return all;
  std::vector<std::string> words = all.words();  // the most frequent ones come first
  words.resize(static_cast<size_t>(*size) + Vocabulary::kSpecials);
  return Vocabulary::from_words(std::move(words), place.path);
}

void NmtData::make_vocabularies() {
  const bool shared = *config_.shared_vocabulary;
  const auto source_size = *config_.source_vocab_size;
  const auto target_size = shared ? source_size : *config_.target_vocab_size;
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
  const auto [source_text, target_text] = files("train");
  lines_ = std::make_unique<ParallelText>(read_parallel_text(source_text, target_text));
  auto options = [&](const std::optional<int64_t>& size) {
    return VocabularyOptions{size.value_or(0), *config_.vocab_min_count};
  };
  WordCounter source, target;
  count_words(lines_->source, tokenizer_, source);
  count_words(lines_->target, tokenizer_, shared ? source : target);
  if (!source_file) source_ = source.vocabulary(options(source_size));
  if (!target_file) target_ = shared ? source_ : target.vocabulary(options(target_size));
}

NmtPart NmtData::make_up(const std::string& part) const {
  const bool train = part == "train";
  Draws draws(seed_, train ? 1 : part == "valid" ? 2 : 3);
  const int32_t source_words = source_.size() - Vocabulary::kSpecials;
  const int32_t target_words = target_.size() - Vocabulary::kSpecials;
  if (source_words < 1 || target_words < 1) {
    throw UsageError("[vocabulary] a vocabulary holds no word to make text of (data.synthetic); "
                     "name another file, or none");
  }
  NmtPart made;
  for (int pair = 0; pair < (train ? 4000 : 200); ++pair) {
    Ranks source = make_up_source(draws, source_words);
    Ranks target = translate_ranks(source, target_words);
    for (int32_t& rank : source) rank += Vocabulary::kSpecials;
    for (int32_t& rank : target) rank += Vocabulary::kSpecials;
    made.text.add(source, target);
    if (train) continue;  // nobody looks at its lines
    made.lines.source.push_back(line_of(source_, source, tokenizer_));
    made.lines.target.push_back(line_of(target_, target, tokenizer_));
  }
  return made;
}

const EncodedText& NmtData::train() {
  if (!train_) {
    if (*config_.synthetic) {
      train_ = std::make_unique<EncodedText>(make_up("train").text);
    } else {
      const auto [source, target] = files("train");
      if (!lines_) lines_ = std::make_unique<ParallelText>(read_parallel_text(source, target));
      train_ = std::make_unique<EncodedText>(encode_text(*lines_, tokenizer_, source_, target_));
    }
    lines_.reset();
  }
  return *train_;
}

const NmtPart& NmtData::part(const std::string& name) {
  const auto found = parts_.find(name);
  if (found != parts_.end()) return found->second;
  if (*config_.synthetic) return parts_.emplace(name, make_up(name)).first->second;
  const auto [source, target] = files(name);
  return parts_.emplace(name, read_part(source, target)).first->second;
}

const BucketLadder& NmtData::ladder() {
  if (!ladder_) {
    const fs::path saved = model_dir_ / kBucketsFile;
    std::error_code ignored;
    if (!model_dir_.empty() && fs::exists(saved, ignored)) {
      ladder_ = std::make_unique<BucketLadder>(read_ladder(saved));
    } else {
      const std::vector<PairLength> lengths = train().lengths();
      const int batch = static_cast<int>(batch_), longest = static_cast<int>(*config_.max_length);
      const auto width = *config_.bucket_width;
      ladder_ = std::make_unique<BucketLadder>(
          width ? width_buckets(lengths, batch, longest, static_cast<int>(*width))
                : choose_buckets(lengths, batch, longest));
    }
  }
  return *ladder_;
}

BucketLadder NmtData::read_ladder(const fs::path& file) const {
  BucketLadder ladder{static_cast<int>(batch_), {}};
  for (const std::string& line : read_lines({file.string(), "", ""})) {
    Bucket bucket;
    char more = 0;
    const bool read = std::sscanf(line.c_str(), "%d %d %c", &bucket.source, &bucket.target,
                                  &more) == 2;
    const Bucket last = ladder.buckets.empty() ? Bucket{1, 1} : ladder.largest();
    if (!read || bucket.source < last.source || bucket.target < last.target ||
        bucket.source > 10000 || bucket.target > 10000) {
      throw UsageError("[buckets] " + file.string() + ": line " +
                       std::to_string(ladder.buckets.size() + 1) +
                       ": expected a source and a target length, neither shorter than before; "
                       "restore the file from the run that wrote it");
    }
    ladder.buckets.push_back(bucket);
  }
  return ladder;
}

uint64_t NmtData::fingerprint() {
  if (fingerprint_) return *fingerprint_;
  uint64_t hash = 0xCBF29CE484222325u;  // FNV-1a, by numbers instead of bytes
  auto take = [&](int64_t number) {
    hash = (hash ^ static_cast<uint64_t>(number)) * 0x100000001B3u;
    hash ^= hash >> 32;  // high bits reach low ones, which a product alone does not do
  };
  const EncodedText& text = train();
  take(text.size());
  for (int64_t pair = 0; pair < text.size(); ++pair) {
    take(static_cast<int64_t>(text.source(pair).size()));
    for (const int32_t id : text.source(pair)) take(id);
    take(static_cast<int64_t>(text.target(pair).size()));
    for (const int32_t id : text.target(pair)) take(id);
  }
  take(ladder().batch);
  for (const Bucket& each : ladder().buckets) take(each.source), take(each.target);
  fingerprint_ = hash;
  return hash;
}

void NmtData::save(const fs::path& folder) {
  source_.save((folder / kSourceFile).string());
  target_.save((folder / kTargetFile).string());
  std::string text;
  for (const Bucket& each : ladder().buckets) {
    text += std::to_string(each.source) + " " + std::to_string(each.target) + "\n";
  }
  write_file(folder / kBucketsFile, text);
}

std::vector<std::string> NmtData::describe() {
  std::vector<std::string> lines;
  const std::string languages = *config_.source_lang + "-" + *config_.target_lang;
  const std::string sizes = thousands(train().size()) + " training pairs; vocabularies of " +
                            thousands(source_.size()) + " and " + thousands(target_.size());
  if (*config_.synthetic) {
    lines.push_back("SYNTHETIC TEXT (data.synthetic), made up from the seed: its loss and BLEU say "
                    "nothing about translating; " + sizes);
  } else {
    lines.push_back(languages + " text in " + data_path(config_, "").string() + ": " + sizes);
  }
  lines.push_back("buckets of " + ladder().print());
  lines.push_back(report_ladder(train().lengths(), ladder()).print());
  return lines;
}

}  // namespace pal
