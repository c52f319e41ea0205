// The sections "model" and "data" of a speech recogniser's configuration.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/deepspeech2_options.h"
#include "train/config/option.h"
#include "train/config/rule.h"

namespace pal {

// Deep Speech 2 (Amodei et al. 2016), and the V3 of deepspeech.pytorch.
struct DeepSpeechSection : Section {
  DeepSpeech2Options model;
  std::string type = "deepspeech2";
  std::vector<std::string> conv_kernels = {"11x41", "11x21"};
  std::vector<std::string> conv_strides = {"2x2", "1x2"};
  DeepSpeechSection();

  DeepSpeech2Options network() const;  // `model` with the convolutions
};
using DeepSpeechConfig = Copied<DeepSpeechSection>;

// Recordings and their transcripts.
struct SpeechSection : Section {
  Option<std::string> root{*this, "root", ".",
                           "folder of the manifests, and of the files that they name; a relative "
                           "one is looked for from the working directory, then beside the "
                           "program's own files"};
  Option<std::string> train{*this, "train", "train.csv",
                            "list of recordings under root: .csv or .tsv with the columns path and "
                            "transcript, or .jsonl; where it has a column split, its rows 'train'"};
  Option<std::optional<std::string>> valid{
      *this,
      "valid",
      {},
      "likewise for validation, rows 'valid'; null: valid_share of the training list"};
  Option<std::optional<std::string>> test{
      *this, "test", {}, "likewise for the test, rows 'test'; null: as valid"};
  Option<double> valid_share{*this,
                             "valid_share",
                             0.05,
                             "of the training list, drawn by train.seed and not trained on, where "
                             "valid is null",
                             {.min = 0, .max = 0.9, .above_min = true}};
  Option<std::string> features{*this,
                               "features",
                               "spectrogram",
                               "spectrogram (of sound files), or mfcc (files of CMU Sphinx)",
                               {.choices = {"spectrogram", "mfcc"}}};
  Option<int64_t> sample_rate{*this,
                              "sample_rate",
                              16000,
                              "samples a second; sounds of another rate are resampled",
                              {.min = 1000, .max = 192000}};
  Option<double> window_ms{
      *this, "window_ms", 20.0, "length of the Hamming window", {.min = 1, .max = 1000}};
  Option<double> hop_ms{
      *this, "hop_ms", 10.0, "from one frame to the next", {.min = 1, .max = 1000}};
  Option<int64_t> mfcc_coefficients{
      *this, "mfcc_coefficients", 13, "numbers a frame, of mfcc", {.min = 1, .max = 1024}};
  Option<std::optional<std::string>> labels{
      *this,
      "labels",
      {},
      "file under root with the symbols of the transcripts, one a line; null: apostrophe, a to z, "
      "space"};
  Option<bool> lowercase{*this, "lowercase", true, "transcripts are read in lower case"};
  Option<std::string> on_error{
      *this,
      "on_error",
      "skip",
      "a file that cannot be read, or a transcript with other symbols: skip (left out, with a "
      "warning that counts them) or fail",
      {.choices = {"skip", "fail"}}};
  Option<double> max_seconds{*this,
                             "max_seconds",
                             20.0,
                             "longer recordings are left out",
                             {.min = 0, .max = 80, .above_min = true}};
  Option<int64_t> buckets{
      *this, "buckets", 6, "lengths that batches are padded to, at most", {.min = 1, .max = 12}};
  Option<int64_t> join_least{*this,
                             "join_least",
                             1,
                             "an utterance is at least so many recordings of one speaker, joined",
                             {.min = 1, .max = 1000}};
  Option<int64_t> join_most{
      *this, "join_most", 1, "and at most so many; 1: nothing is joined", {.min = 1, .max = 1000}};
  Option<int64_t> join_train{
      *this, "join_train", 2000, "joined utterances to train on", {.min = 1, .max = 10'000'000}};
  Option<int64_t> join_eval{*this,
                            "join_eval",
                            300,
                            "joined utterances to validate and test on",
                            {.min = 1, .max = 10'000'000}};
  Option<double> join_gap_ms{
      *this, "join_gap_ms", 50.0, "silence between joined recordings", {.min = 0, .max = 10000}};
  Option<bool> tempo{*this, "tempo", false,
                     "training sounds are played at 0.9, 1 or 1.1 of their speed (Ko et al. 2015), "
                     "drawn anew every epoch"};
  Option<int64_t> time_masks{
      *this, "time_masks", 0, "SpecAugment: masks over frames", {.min = 0, .max = 100}};
  Option<int64_t> time_mask_frames{
      *this, "time_mask_frames", 30, "their width at most", {.min = 0, .max = 10000}};
  Option<int64_t> bin_masks{
      *this, "bin_masks", 0, "SpecAugment: masks over bins", {.min = 0, .max = 100}};
  Option<int64_t> bin_mask_bins{
      *this, "bin_mask_bins", 20, "their width at most", {.min = 0, .max = 10000}};
  Option<bool> synthetic{*this, "synthetic", false,
                         "made-up features with the usual lengths instead of the files"};
};
using SpeechConfig = Copied<SpeechSection>;

Rules<DeepSpeechConfig> deepspeech_rules();
Rules<SpeechConfig> speech_rules();

}  // namespace pal
