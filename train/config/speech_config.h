// The section "data" of speech recognisers.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/rule.h"
#include "train/config/option.h"

namespace pal {

// Recordings and their transcripts.
struct SpeechSection : Section {
  Option<std::string> root =
      option("root", ".",
             "folder of the manifests, and of the files that they name; a relative one is looked "
             "for from the working directory, then beside the program's own files");
  Option<std::string> train =
      option("train", "train.csv",
             "list of recordings under root: .csv or .tsv with the columns path and transcript, or "
             ".jsonl; where it has a column split, its rows 'train'");
  Option<std::optional<std::string>> valid = option(
      "valid", {}, "likewise for validation, rows 'valid'; null: valid_share of the training list");
  Option<std::optional<std::string>> test =
      option("test", {}, "likewise for the test, rows 'test'; null: as valid");
  Option<double> valid_share =
      option("valid_share", 0.05,
             "of the training list, drawn by train.seed and not trained on, where valid is null",
             {.min = 0, .max = 0.9, .above_min = true});
  Option<std::string> features = option(
      "features", "spectrogram", "spectrogram (of sound files), or mfcc (files of CMU Sphinx)",
      {.choices = {"spectrogram", "mfcc"}});
  Option<int64_t> sample_rate =
      option("sample_rate", 16000, "samples a second; sounds of another rate are resampled",
             {.min = 1000, .max = 192000});
  Option<double> window_ms =
      option("window_ms", 20.0, "length of the Hamming window", {.min = 1, .max = 1000});
  Option<double> hop_ms =
      option("hop_ms", 10.0, "from one frame to the next", {.min = 1, .max = 1000});
  Option<int64_t> mfcc_coefficients =
      option("mfcc_coefficients", 13, "numbers a frame, of mfcc", {.min = 1, .max = 1024});
  Option<std::optional<std::string>> labels =
      option("labels", {},
             "file under root with the symbols of the transcripts, one a line; null: apostrophe, a "
             "to z, space");
  Option<bool> lowercase = option("lowercase", true, "transcripts are read in lower case");
  Option<std::string> on_error =
      option("on_error", "skip",
             "a file that cannot be read, or a transcript with other symbols: skip (left out, with "
             "a warning that counts them) or fail",
             {.choices = {"skip", "fail"}});
  Option<double> max_seconds = option("max_seconds", 20.0, "longer recordings are left out",
                                      {.min = 0, .max = 80, .above_min = true});
  Option<int64_t> buckets =
      option("buckets", 6, "lengths that batches are padded to, at most", {.min = 1, .max = 12});
  Option<int64_t> join_least =
      option("join_least", 1, "an utterance is at least so many recordings of one speaker, joined",
             {.min = 1, .max = 1000});
  Option<int64_t> join_most =
      option("join_most", 1, "and at most so many; 1: nothing is joined", {.min = 1, .max = 1000});
  Option<int64_t> join_train =
      option("join_train", 2000, "joined utterances to train on", {.min = 1, .max = 10'000'000});
  Option<int64_t> join_eval = option("join_eval", 300, "joined utterances to validate and test on",
                                     {.min = 1, .max = 10'000'000});
  Option<double> join_gap_ms =
      option("join_gap_ms", 50.0, "silence between joined recordings", {.min = 0, .max = 10000});
  Option<bool> tempo = option("tempo", false,
                              "training sounds are played at 0.9, 1 or 1.1 of their speed (Ko et "
                              "al. 2015), drawn anew every epoch");
  Option<int64_t> time_masks =
      option("time_masks", 0, "SpecAugment: masks over frames", {.min = 0, .max = 100});
  Option<int64_t> time_mask_frames =
      option("time_mask_frames", 30, "their width at most", {.min = 0, .max = 10000});
  Option<int64_t> bin_masks =
      option("bin_masks", 0, "SpecAugment: masks over bins", {.min = 0, .max = 100});
  Option<int64_t> bin_mask_bins =
      option("bin_mask_bins", 20, "their width at most", {.min = 0, .max = 10000});
  Option<bool> synthetic =
      option("synthetic", false, "made-up features with the usual lengths instead of the files");
};
using SpeechConfig = Copied<SpeechSection>;

Rules<SpeechConfig> speech_rules();

}  // namespace pal
