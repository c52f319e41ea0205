// Reads, joins, or makes up the recogniser's corpus.
#include "train/speech/speech_data.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "data/ladder_file.h"
#include "train/config/wording.h"
#include "train/run_files/fingerprint.h"
#include "train/run_files/log.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLabelsFile = "labels.txt";
constexpr uint64_t kSplitStream = 0x5B117;

std::string hint_for(const SpeechConfig& data) {
  const std::string into = " and put its list and files into " + data_path(data, "").string();
  if (data.root->find("librispeech") != std::string::npos) {
    return "download LibriSpeech from https://www.openslr.org/12, write a list of its .flac files "
           "(path and transcript)" +
           into;
  }
  if (data.root->find("an4") != std::string::npos) {
    return "download AN4 from http://www.speech.cs.cmu.edu/databases/an4/" + into;
  }
  return "spoken digits come with the program: --set data.root=data/samples/spoken_digits";
}

uint64_t stream_of(const std::string& part) {
  return part == "train" ? 1 : part == "valid" ? 2 : 3;
}

void warn(const Faults& faults, const std::string& part) {
  if (faults.count == 0) return;
  log_warn(std::to_string(faults.count) + " recordings of the " + part +
           " list are left out (data.on_error: skip); the first: " + faults.first);
}

}  // namespace

SpeechOptions speech_options(const SpeechConfig& c) {
  SpeechOptions o;
  o.mfcc = *c.features == "mfcc";
  o.spectrogram = {static_cast<int>(*c.sample_rate), *c.window_ms / 1000, *c.hop_ms / 1000};
  o.coefficients = *c.mfcc_coefficients;
  o.max_seconds = *c.max_seconds;
  o.join_gap = *c.join_gap_ms / 1000;
  o.skip_faults = *c.on_error == "skip";
  o.lowercase = *c.lowercase;
  return o;
}

SpeechData::SpeechData(const SpeechConfig& config, int64_t batch, uint64_t seed, fs::path model_dir,
                       std::function<int64_t(int64_t)> steps)
    : config_(config),
      batch_(batch),
      seed_(seed),
      model_dir_(std::move(model_dir)),
      steps_(std::move(steps)),
      options_(speech_options(config)) {
  variety_ = {
      *config.tempo,
      {*config.time_masks, *config.time_mask_frames, *config.bin_masks, *config.bin_mask_bins},
      seed};
  if (!model_dir_.empty()) {
    labels_ = Labels::load({(model_dir_ / kLabelsFile).string(), "",
                            "it is written when a run begins; name a run's folder"});
  } else if (const auto& file = *config.labels) {
    labels_ = Labels::load({data_path(config, *file).string(), "data.labels", hint_for(config)});
  }
}

std::vector<Utterance> SpeechData::listed(const std::string& key, const std::string& file,
                                          const std::string& part) {
  const fs::path path = data_path(config_, file);
  std::vector<ManifestEntry> entries = read_manifest({path.string(), key, hint_for(config_)});
  const bool split = std::any_of(entries.begin(), entries.end(),
                                 [](const ManifestEntry& e) { return !e.split.empty(); });
  if (split) std::erase_if(entries, [&](const ManifestEntry& e) { return e.split != part; });
  Faults faults;
  std::vector<Utterance> out =
      check_entries(entries, path.parent_path().string(), labels_, options_, faults);
  warn(faults, part);
  if (out.empty()) {
    throw UsageError(path.string() + ": no recording of part '" + part + "' can be used" +
                     (faults.count > 0 ? "; the first fault: " + faults.first : "") + " (" + key +
                     ")");
  }
  return out;
}

// The training list without, and the validation's with, what valid_share holds out.
void SpeechData::split_training_list() {
  std::vector<Utterance> all = listed("data.train", *config_.train, "train");
  std::vector<int32_t> order(all.size());
  std::iota(order.begin(), order.end(), 0);
  shuffle(order, seed_, kSplitStream);
  const auto held =
      static_cast<size_t>(std::max(1.0, *config_.valid_share * static_cast<double>(all.size())));
  if (held >= all.size()) {
    throw UsageError("data.valid_share: nothing is left to train on of " +
                     std::to_string(all.size()) + " recordings; lower it, or name data.valid");
  }
  std::vector<int32_t> valid(order.begin(), order.begin() + static_cast<int64_t>(held));
  std::vector<int32_t> train(order.begin() + static_cast<int64_t>(held), order.end());
  for (auto* rows : {&valid, &train}) {
    std::sort(rows->begin(), rows->end());
    std::vector<Utterance>& part = recordings_[rows == &valid ? "valid" : "train"];
    for (const int32_t i : *rows) part.push_back(std::move(all[static_cast<size_t>(i)]));
  }
}

std::vector<Utterance> SpeechData::recordings(const std::string& part) {
  if (part == "test") {
    const auto& file = *config_.test;
    return file ? listed("data.test", *file, "test") : recordings("valid");
  }
  if (const auto& file = *config_.valid) {
    return part == "valid" ? listed("data.valid", *file, "valid")
                           : listed("data.train", *config_.train, "train");
  }
  if (recordings_.empty()) split_training_list();
  return recordings_.at(part);
}

// Without those that CTC cannot align at their fastest.
std::vector<Utterance> SpeechData::teachable(std::vector<Utterance> utterances) const {
  Faults faults;
  std::erase_if(utterances, [&](const Utterance& u) {
    const int64_t frames = variety_.tempo ? u.frames * 10 / 11 : u.frames;
    if (steps_(frames) >= least_steps(u.labels)) return false;
    const std::string what = (u.files.empty() ? "an utterance" : u.files[0]) + ": " +
                             std::to_string(frames) + " frames are too few for '" + u.transcript +
                             "'";
    if (!options_.skip_faults) throw UsageError(what + "; leave it out of the list");
    faults.add(what);
    return true;
  });
  warn(faults, "train");
  return utterances;
}

const std::vector<Utterance>& SpeechData::part(const std::string& name) {
  const auto found = parts_.find(name);
  if (found != parts_.end()) return found->second;
  const bool train = name == "train";
  std::vector<Utterance> made;
  if (*config_.synthetic) {
    made = make_up_utterances(labels_, options_, train ? 2000 : 100, seed_, stream_of(name));
  } else {
    made = recordings(name);
    if (*config_.join_most > 1) {
      // The same strings are recognised whatever the seed of a run.
      const uint64_t seed = train ? seed_ : 0;
      made =
          join_utterances(made, labels_, options_, train ? *config_.join_train : *config_.join_eval,
                          *config_.join_least, *config_.join_most, seed, stream_of(name));
    }
  }
  if (train) made = teachable(std::move(made));
  if (made.empty()) {
    throw UsageError("data." + name +
                     ": no utterance is left; is model.conv_strides too large for "
                     "the transcripts?");
  }
  return parts_.emplace(name, std::move(made)).first->second;
}

const BucketLadder& SpeechData::ladder() {
  if (ladder_) return *ladder_;
  const fs::path saved = model_dir_ / kLadderFile;
  std::error_code ignored;
  if (!model_dir_.empty() && fs::exists(saved, ignored)) {
    ladder_ = std::make_unique<BucketLadder>(load_ladder(saved.string(), batch_));
  } else {
    const std::vector<PairLength> lengths = speech_lengths(train(), variety_.tempo);
    int most = 2;
    for (const PairLength& each : lengths) most = std::max({most, each.source, each.target});
    if (most > kMostLength) {
      throw UsageError("data.max_seconds, data.join_most, data.hop_ms: the longest utterance has " +
                       std::to_string(most) + " frames or letters, and " +
                       std::to_string(kMostLength) +
                       " are the most; shorten utterances or lengthen data.hop_ms");
    }
    ladder_ = std::make_unique<BucketLadder>(
        choose_buckets(lengths, batch_, most, static_cast<int>(*config_.buckets)));
  }
  return *ladder_;
}

SpeechExtent SpeechData::extent(int bucket) {
  const Bucket& lengths = ladder().buckets.at(static_cast<size_t>(bucket));
  return {lengths.source, lengths.target, ladder().rows(bucket)};
}

uint64_t SpeechData::fingerprint() {
  if (fingerprint_) return *fingerprint_;
  Fingerprint print;
  for (const Utterance& u : train()) {
    print.take(static_cast<int64_t>(u.files.size()));
    // Not a file's folder: the corpus may have moved.
    for (const std::string& file : u.files) print.take(fs::path(file).filename().string());
    print.take(u.frames);
    for (const int32_t label : u.labels) print.take(label);
  }
  for (const Bucket& each : ladder().buckets) print.take(each.source), print.take(each.target);
  fingerprint_ = print.value();
  return *fingerprint_;
}

void SpeechData::save(const fs::path& folder) {
  labels_.save((folder / kLabelsFile).string());
  save_ladder((folder / kLadderFile).string(), ladder());
}

std::vector<std::string> SpeechData::describe() {
  int64_t frames = 0, labels = 0;
  for (const Utterance& u : train()) {
    frames += u.frames, labels += static_cast<int64_t>(u.labels.size());
  }
  const std::string hours = fixed(static_cast<double>(frames) * options_.spectrogram.hop / 3600, 2);
  const std::string sizes = thousands(static_cast<int64_t>(train().size())) +
                            " training utterances, " + hours + " hours, " + thousands(labels) +
                            " labels of " + std::to_string(labels_.size() - 1);
  std::vector<std::string> lines;
  if (*config_.synthetic) {
    lines.push_back(
        "SYNTHETIC FEATURES (data.synthetic), made up from the seed: the loss and error "
        "rates say nothing about recognising speech; " +
        sizes);
  } else {
    lines.push_back("speech in " + data_path(config_, "").string() + ": " + sizes);
  }
  std::string ladder_line = "buckets of " + std::to_string(batch_) + " utterances, (frames,labels)";
  for (const Bucket& each : ladder().buckets) {
    ladder_line += " (" + std::to_string(each.source) + "," + std::to_string(each.target) + ")";
  }
  lines.push_back(ladder_line);
  return lines;
}

}  // namespace pal
