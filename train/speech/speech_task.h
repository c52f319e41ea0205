// Speech recognition as the trainer sees it: Deep Speech 2 over recordings with transcripts.
// Validation is CTC's loss, and word and character error rates of the best path.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/prefetch.h"
#include "models/deepspeech2.h"
#include "train/loop/batched_task.h"
#include "train/loop/saved_model.h"
#include "train/speech/ctc_decode.h"
#include "train/speech/error_rate.h"
#include "train/speech/speech_data.h"

namespace pal {

// How well a part of the corpus is recognised.
struct SpeechEvaluation {
  double loss = 0;  // nats an utterance, of those that are long enough for their transcript
  ErrorRate words, characters;
  int64_t utterances = 0;
  std::vector<std::string> references, hypotheses;
};

class SpeechTask final : public PrefetchedTask<SpeechBatch, SpeechData> {
 public:
  explicit SpeechTask(const Config& config, const std::filesystem::path& model_dir = {});

  int bucket_count() const override;
  std::pair<int64_t, int64_t> bucket_lengths(int bucket) const override;  // frames, labels
  Recorded record_lengths(Builder& builder, std::pair<int64_t, int64_t> lengths, Val scalars,
                          bool training) const override;
  std::unique_ptr<Task> variant(const Config& config) const override;
  BatchInfo fill_full(Executable& program, std::pair<int64_t, int64_t> lengths) const override;
  const char* unit() const override { return "frames"; }
  const char* loss_unit() const override { return "utterance"; }
  // Metrics "wer" and "cer", in percent, of the best path.
  Validation validate(ProgramSet& programs, const std::string& part, const Dealt& dealt) override;
  void add_programs(ProgramSet& programs, const std::string& part) override;

  // Gives a set that has no training step the model's weights, by a program that is small.
  void declare_weights(ProgramSet& programs) const;
  // By a prefix beam; of 1, by the best path.
  SpeechEvaluation evaluate(ProgramSet& programs, const std::string& part, int64_t beam,
                            const Dealt& dealt = {}) const;
  // What is said in a file. UsageError where it cannot be read.
  Spelling transcribe(ProgramSet& programs, FeatureReader& reader, const std::string& file,
                      int64_t beam) const;

 private:
  SpeechTask(const Config& config, const std::shared_ptr<SpeechData>& data);
  void start_batches() override;
  BatchInfo take(SpeechBatch& batch) override;
  void fill_batch(Executable& program, const SpeechBatch& batch) const override;
  void report(const Faults& faults);
  Executable& validation(ProgramSet& programs, const SpeechExtent& extent) const;

  int64_t batch_;
  DeepSpeech2Options model_;
  int64_t faults_ = 0;                               // while training
  std::unique_ptr<BatchOrder> order_;                // the prefetcher's, as is
  std::unique_ptr<FeatureReader> reader_;            // this
  std::unique_ptr<Prefetch<SpeechBatch>> prefetch_;  // after what it uses: it goes first
};

// A trained model, ready to transcribe.
using SavedSpeech = SavedModel<SpeechTask>;
SavedSpeech open_speech(const std::filesystem::path& path);

}  // namespace pal
