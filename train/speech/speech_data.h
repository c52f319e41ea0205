// The recogniser's data as a configuration describes it: manifests and their recordings, joined or
// made up, the labels, and the ladder of buckets. Each is read when it is first asked for, so that
// a trained model transcribes where its recordings are not.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/speech_batches.h"
#include "train/config/config.h"

namespace pal {

class SpeechData {
 public:
  // `model_dir`, where given, is a run's folder, whose labels and buckets are used. `steps` says
  // how many network steps so many frames make.
  SpeechData(const SpeechConfig& config, int64_t batch, uint64_t seed,
             std::filesystem::path model_dir, std::function<int64_t(int64_t frames)> steps);

  const Labels& labels() const { return labels_; }
  const SpeechOptions& options() const { return options_; }
  const SpeechVariety& variety() const { return variety_; }
  bool skips_faults() const { return options_.skip_faults; }

  const std::vector<Utterance>& train() { return part("train"); }
  const std::vector<Utterance>& part(const std::string& name);  // "train", "valid" or "test"
  const BucketLadder& ladder();
  // What a batch of the bucket is padded to.
  SpeechExtent extent(int bucket);

  // Stands for the training utterances and the ladder: equal ones make equal batches.
  uint64_t fingerprint();
  // labels.txt, and buckets.txt with frames and labels of a bucket a line.
  void save(const std::filesystem::path& folder);
  std::vector<std::string> describe();

 private:
  std::vector<Utterance> recordings(const std::string& part);
  std::vector<Utterance> listed(const std::string& key, const std::string& file,
                                const std::string& part);
  void split_training_list();
  std::vector<Utterance> teachable(std::vector<Utterance> utterances) const;

  SpeechConfig config_;
  int64_t batch_;
  uint64_t seed_;
  std::filesystem::path model_dir_;
  std::function<int64_t(int64_t)> steps_;
  SpeechOptions options_;
  SpeechVariety variety_;
  Labels labels_;
  std::map<std::string, std::vector<Utterance>> recordings_, parts_;
  std::unique_ptr<BucketLadder> ladder_;
  std::optional<uint64_t> fingerprint_;
};

// The options of sound and features in the section data.
SpeechOptions speech_options(const SpeechConfig& config);

}  // namespace pal
