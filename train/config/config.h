// The configuration: five sections of options, each option one line (config_option.h has the idea).
// To add an option, add its line. To add a kind of model, add its struct (model_config.h), that of
// its data, and a line to model_types() in config.cc. What is declared but not built yet is refused
// by config_rules.cc.
#pragma once
#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "memory/recompute/recompute.h"
#include "train/config/image_config.h"
#include "train/config/language_config.h"
#include "train/config/model_config.h"
#include "train/config/option.h"

namespace pal {

// Parallel text: two files, one sentence a line, line n of one translating line n of the other.
struct ParallelTextConfig : Section {
  Option<std::string> root{*this, "root", ".",
                           "folder of the files; a relative one is looked for from the working "
                           "directory, then beside the program's own files"};
  Option<std::string> source_lang{*this, "source_lang", "en", "source language, a file suffix"};
  Option<std::string> target_lang{*this, "target_lang", "vi", "target language, a file suffix"};
  Option<std::optional<std::string>> train_source{
      *this, "train_source", {}, "training text under root; null: train.SOURCE_LANG"};
  Option<std::optional<std::string>> train_target{
      *this, "train_target", {}, "its translation; null: train.TARGET_LANG"};
  Option<std::optional<std::string>> valid_source{
      *this, "valid_source", {}, "validation text; null: valid.SOURCE_LANG"};
  Option<std::optional<std::string>> valid_target{
      *this, "valid_target", {}, "its translation; null: valid.TARGET_LANG"};
  Option<std::optional<std::string>> test_source{
      *this, "test_source", {}, "test text; null: test.SOURCE_LANG"};
  Option<std::optional<std::string>> test_target{
      *this, "test_target", {}, "its translation; null: test.TARGET_LANG"};
  Option<std::string> tokenizer{*this,
                                "tokenizer",
                                "simple",
                                "whitespace (text is tokenised already), simple (splits off "
                                "punctuation) or sentencepiece (learned pieces of words)",
                                {.choices = {"whitespace", "simple", "sentencepiece"}}};
  Option<std::string> sentencepiece_model{
      *this,
      "sentencepiece_model",
      "unigram",
      "of sentencepiece: how pieces are learned from the training text when a run begins",
      {.choices = {"unigram", "bpe"}}};
  Option<int64_t> sentencepiece_size{
      *this,
      "sentencepiece_size",
      8000,
      "of sentencepiece: pieces to learn (at most: a small text has fewer), specials apart; with "
      "shared_vocabulary for both languages together, else for each",
      {.min = 1, .max = 1'000'000}};
  Option<std::optional<std::string>> sentencepiece_file{
      *this,
      "sentencepiece_file",
      {},
      "of sentencepiece: a .model file under root, for both languages; null: learned, and saved in "
      "the run's folder"};
  Option<std::optional<int64_t>> source_vocab_size{
      *this,
      "source_vocab_size",
      {},
      "most frequent source words kept, specials apart; null: all",
      {.min = 1, .max = 10'000'000}};
  Option<std::optional<int64_t>> target_vocab_size{
      *this,
      "target_vocab_size",
      {},
      "most frequent target words kept, specials apart; null: all",
      {.min = 1, .max = 10'000'000}};
  Option<int64_t> vocab_min_count{
      *this, "vocab_min_count", 1, "rarer words become <unk>", {.min = 1, .max = 1'000'000}};
  Option<std::optional<std::string>> source_vocab{
      *this,
      "source_vocab",
      {},
      "vocabulary file under root, a word a line (or word and count on every line); the specials "
      "<pad> <unk> <s> </s> may be in it or not; null: made from the training text"};
  Option<std::optional<std::string>> target_vocab{
      *this, "target_vocab", {}, "likewise for the target; null: made from the training text"};
  Option<bool> shared_vocabulary{*this, "shared_vocabulary", false,
                                 "one vocabulary for both languages"};
  Option<int64_t> max_length{*this,
                             "max_length",
                             100,
                             "training pairs with more words (the target's end mark is one) on "
                             "either side are left out",
                             {.min = 1, .max = 10'000}};
  Option<std::optional<int64_t>> bucket_width{
      *this,
      "bucket_width",
      {},
      "lengths are padded to multiples of this, on the longer side (at most 12 of them: those "
      "that pad least are joined to the next); null: the lengths that pad least",
      {.min = 1, .max = 10'000}};
  Option<bool> synthetic{*this, "synthetic", false,
                         "made-up text with the usual lengths instead of the files"};
};

struct TrainConfig : Section {
  Option<std::optional<int64_t>> steps{*this,
                                       "steps",
                                       {},
                                       "end after this many optimizer updates (or --steps)",
                                       {.min = 1, .effect = Effect::none}};
  Option<std::optional<int64_t>> max_epochs{*this,
                                            "max_epochs",
                                            {},
                                            "end after this many passes over the training data",
                                            {.min = 1, .effect = Effect::none}};
  Option<int64_t> batch_size{*this,
                             "batch_size",
                             128,
                             "sentences (samples) in a micro-batch",
                             {.min = 1, .max = 1'000'000}};
  Option<std::optional<int64_t>> batch_words{
      *this,
      "batch_words",
      {},
      "instead of batch_size: every bucket's batch is as many sentences as fit this many words of "
      "its longer padded side (a multiple of 8 when at least 8); null: off",
      {.min = 1, .max = 10'000'000}};
  Option<int64_t> accumulate{
      *this, "accumulate", 1, "micro-batches summed in one update", {.min = 1, .max = 10'000}};
  Option<std::string> optimizer{*this,
                                "optimizer",
                                "adam",
                                "the update rule",
                                {.choices = {"sgd", "momentum", "nesterov", "adam", "adamw"}}};
  Option<double> lr{*this, "lr", 3e-4, "learning rate", {.min = 0, .max = 1000}};
  Option<int64_t> warmup_steps{*this,
                               "warmup_steps",
                               0,
                               "updates over which the learning rate first rises linearly to lr",
                               {.min = 0}};
  Option<std::string> schedule{
      *this,
      "schedule",
      "constant",
      "the learning rate after warm-up: constant, inverse_sqrt (lr times sqrt(warmup_steps/step)), "
      "step (times lr_factor every lr_decay_every updates), cosine (down to lr_min at "
      "schedule_steps), plateau (times lr_factor after lr_patience validations without a new best)",
      {.choices = {"constant", "inverse_sqrt", "step", "cosine", "plateau"}}};
  Option<double> lr_min{
      *this, "lr_min", 0.0, "no schedule goes below it, warm-up apart", {.min = 0, .max = 1000}};
  Option<double> lr_factor{*this,
                           "lr_factor",
                           0.5,
                           "of step and plateau: what lr is multiplied by",
                           {.min = 0, .max = 1, .above_min = true, .below_max = true}};
  Option<std::optional<int64_t>> lr_decay_every{
      *this, "lr_decay_every", {}, "of step: updates between two decays", {.min = 1}};
  Option<std::optional<int64_t>> lr_decay_start{
      *this,
      "lr_decay_start",
      {},
      "of step: updates before the first decay; null: lr_decay_every",
      {.min = 0}};
  Option<std::optional<int64_t>> lr_decay_times{
      *this,
      "lr_decay_times",
      {},
      "of step and plateau: decays at most; null: no limit",
      {.min = 1}};
  Option<std::optional<int64_t>> schedule_steps{
      *this,
      "schedule_steps",
      {},
      "of cosine: the update, warm-up included, at which lr_min is reached",
      {.min = 1}};
  Option<int64_t> lr_patience{*this,
                              "lr_patience",
                              3,
                              "of plateau: validations without a new best before a decay",
                              {.min = 1}};
  Option<std::string> precision{*this,
                                "precision",
                                "f32",
                                "of training steps. tf32 (cuda): products round their f32 operands "
                                "to 11 bits for tensor cores. "
                                "bf16: feature maps and copies of the weights take 16 bits; "
                                "weights, their gradients, sums and "
                                "losses stay f32",
                                {.choices = {"f32", "tf32", "bf16"}}};
  Option<double> momentum{
      *this, "momentum", 0.9, "of momentum and nesterov", {.min = 0, .max = 1, .below_max = true}};
  Option<double> beta1{*this,
                       "beta1",
                       0.9,
                       "Adam's decay of the gradient's mean",
                       {.min = 0, .max = 1, .below_max = true}};
  Option<double> beta2{*this,
                       "beta2",
                       0.999,
                       "Adam's decay of the gradient's square",
                       {.min = 0, .max = 1, .below_max = true}};
  Option<double> eps{*this,
                     "eps",
                     1e-8,
                     "Adam's term against division by zero",
                     {.min = 0, .max = 1, .above_min = true}};
  Option<double> weight_decay{*this,
                              "weight_decay",
                              0.0,
                              "L2 penalty added to the gradient; adamw: decoupled from it",
                              {.min = 0, .max = 1000}};
  Option<bool> decay_vectors{*this, "decay_vectors", true,
                             "weight_decay also acts on biases and on the gains of norms"};
  Option<std::optional<double>> clip_value{*this,
                                           "clip_value",
                                           {},
                                           "clip each gradient element into ±this; null: off",
                                           {.min = 0, .above_min = true}};
  Option<std::optional<double>> clip_norm{*this,
                                          "clip_norm",
                                          {},
                                          "scale all gradients to this L2 norm at most; null: off",
                                          {.min = 0, .above_min = true}};
  Option<double> label_smoothing{*this,
                                 "label_smoothing",
                                 0.0,
                                 "probability mass spread evenly over the vocabulary (the classes)",
                                 {.min = 0, .max = 1, .below_max = true}};
  Option<std::optional<double>> ema{
      *this,
      "ema",
      {},
      "decay of an exponential moving average of the weights, e.g. 0.999, which validation and "
      "best.safetensors use (corrected for its start); null: off",
      {.min = 0, .max = 1, .above_min = true, .below_max = true}};
  Option<std::optional<std::string>> init_from{
      *this,
      "init_from",
      {},
      "initial weights: a .safetensors file, or the folder of a run (its best, else its last), of "
      "the same model and vocabularies; null: drawn",
      {}};
  Option<int64_t> seed{*this, "seed", 1, "of initial weights, shuffling and dropout", {.min = 0}};
  Option<int64_t> log_every{
      *this, "log_every", 10, "updates between two step rows", {.min = 1, .effect = Effect::none}};
  Option<std::optional<int64_t>> valid_every{*this,
                                             "valid_every",
                                             {},
                                             "updates between two validations; null: once an epoch",
                                             {.min = 1, .effect = Effect::none}};
  Option<std::optional<int64_t>> save_every{
      *this,
      "save_every",
      {},
      "updates between two checkpoints; null: at each validation",
      {.min = 1, .effect = Effect::none}};
  Option<int64_t> keep_last{*this,
                            "keep_last",
                            0,
                            "last checkpoints that are also kept as step-N.safetensors",
                            {.min = 0, .max = 100'000, .effect = Effect::none}};
  Option<std::optional<int64_t>> average_last{
      *this,
      "average_last",
      {},
      "at the end, also try the mean of the last N checkpoints (kept as keep_last keeps them): "
      "saved as average.safetensors, and as best.safetensors where it is the best; null: off",
      {.min = 1, .max = 100'000, .effect = Effect::none}};
  Option<std::optional<int64_t>> patience{
      *this,
      "patience",
      {},
      "end after this many validations in a row without a new best; null: do not",
      {.min = 1, .effect = Effect::none}};
};

struct MemoryConfig : Section {
  Option<std::optional<Size>> budget{*this,
                                     "budget",
                                     {},
                                     "e.g. 11GiB: the whole footprint, weights included",
                                     {.effect = Effect::none}};
  Option<bool> inplace{*this,
                       "inplace",
                       true,
                       "let an output take a dead operand's bytes",
                       {.effect = Effect::none}};
  Option<std::string> schedule{
      *this,
      "schedule",
      "lifetime",
      "the order of the nodes",
      {.choices = {"program", "lifetime", "exact"}, .effect = Effect::none}};
  Option<std::string> recompute{
      *this,
      "recompute",
      "none",
      "rerun forward nodes to keep less",
      {.choices = {"none", "mirror", "sqrt", "echo"}, .effect = Effect::none}};
  Option<double> recompute_overhead{
      *this,
      "recompute_overhead",
      RecomputeOptions{}.overhead,
      "of echo: at most this part of a step's time, as predicted for the paper's card",
      {.min = 0, .max = 1000, .effect = Effect::none}};
  Option<bool> fuse_recompute{*this,
                              "fuse_recompute",
                              true,
                              "fold a recomputed chain into its one reader's kernel",
                              {.effect = Effect::none}};
  Option<bool> fuse_epilogues{*this,
                              "fuse_epilogues",
                              true,
                              "fold relu and its gradient into the matrix product before it",
                              {.effect = Effect::none}};
  Option<std::vector<std::string>> encode{
      *this,
      "encode",
      {},
      "keep feature maps encoded; the dpr_ forms are lossy",
      {.choices = {"binarize", "ssdc", "dropout_bits", "dpr_fp16", "dpr_fp10", "dpr_fp8"},
       .effect = Effect::none,
       .lossy = {"dpr_fp16", "dpr_fp10", "dpr_fp8"}}};
  Option<std::string> swap{
      *this,
      "swap",
      "none",
      "keep feature maps in the host's memory",
      {.choices = {"none", "naive", "vdnn", "planned"}, .effect = Effect::none}};
  Option<std::string> manager{*this,
                              "manager",
                              "static",
                              "who decides: the plan, or at run time",
                              {.choices = {"static", "delta", "dtr"}, .effect = Effect::none}};
  Option<bool> automatic{
      *this, "auto", false, "choose all of the above from the budget", {.effect = Effect::none}};
};

struct DeviceConfig : Section {
  Option<std::string> type{*this,
                           "type",
                           "auto",
                           "auto: cuda where there is one, else cpu",
                           {.choices = {"cpu", "cuda", "auto"}}};
  Option<std::optional<int64_t>> threads{
      *this, "threads", {}, "CPU threads; null: one per core", {.min = 1, .max = 1024}};
  Option<bool> graphs{
      *this, "graphs", true, "of cuda: record a step once and replay it", {.effect = Effect::none}};
  Option<bool> cudnn{*this, "cudnn", true,
                     "of cuda: convolutions go to cuDNN where it is found; false: as windows and "
                     "cuBLASLt's products"};
};

using DataConfig = std::variant<ParallelTextConfig, ImageConfig, SpeechConfig, TextConfig>;

struct Config {
  ModelConfig model;  // by model.type
  DataConfig data;    // the kind of data that this model learns from
  TrainConfig train;
  MemoryConfig memory;
  DeviceConfig device;

  // Out of line: compiled once, not in every file that copies a configuration.
  Config();
  Config(const Config&);
  Config(Config&&) noexcept;
  Config& operator=(const Config&);
  Config& operator=(Config&&) noexcept;
  ~Config();

  // The section of that type. ProgramError when model.type chose another.
  const NmtConfig& nmt() const;
  const ParallelTextConfig& parallel_text() const;
  const ImageConfig& images() const;
  const DeepSpeechConfig& deepspeech() const;
  const SpeechConfig& speech() const;
  const TextConfig& text() const;
  // "model", "data", "train", "memory", "device", in this order.
  std::vector<std::pair<std::string, Section*>> sections();
  std::vector<std::pair<std::string, const Section*>> sections() const;
};

// A value given on the command line: `--set key=value`, or a flag that stands for one.
struct Override {
  std::string key;    // train.lr
  std::string value;  // YAML: a scalar or a list
  std::string flag;   // what the user wrote, for errors: "--set", "--steps"
};
// "train.lr=0.1" as an Override. UsageError when there is no '=' or no section.
Override parse_set(const std::string& assignment);

// Where --config's argument is: a path (tried first), or a bare name in configs/ of the working
// directory, then of resource_dir(), with or without .yaml. UsageError lists the names there are.
std::filesystem::path find_config(const std::string& name_or_path);

// Reads, overrides (later ones win) and checks. Every fault of the user's is a UsageError
// "FILE:LINE: section.option: what; what to do", or with the flag's name in place of FILE:LINE.
Config load_config(const std::filesystem::path& file, const std::vector<Override>& overrides = {});
// The same from text; `file` only names it in errors.
Config parse_config(const std::string& text, const std::string& file,
                    const std::vector<Override>& overrides = {});

// Refuses values that this version does not have, and options that do not combine. Called by
// load_config; to be called again after options are changed by program.
void check_config(const Config& config);

// The whole configuration as YAML with its help as comments; parse_config reads it back equal.
std::string dump_config(const Config& config);
// docs/configuration.md.
std::string config_reference();

struct Difference {
  std::string key;
  std::string a, b;     // YAML of the two values; "(absent)" where model.type differs
  bool alters_results;  // false: a resumed run may differ here
};
std::vector<Difference> diff(const Config& a, const Config& b);
// 16 hex digits over every option that alters results.
std::string config_hash(const Config& config);

// One part of a parallel corpus; neither file need exist.
struct ParallelFiles {
  std::filesystem::path source, target;
};
// `part` is "train", "valid" or "test".
ParallelFiles parallel_files(const ParallelTextConfig& data, const std::string& part);
// A path under a root; absolute ones stand. A relative root that does not exist in the working
// directory but does in resource_dir() is taken from there.
std::filesystem::path path_below(std::filesystem::path root, const std::string& path);
template <class Data>  // a kind of data
std::filesystem::path data_path(const Data& data, const std::string& path) {
  return path_below(*data.root, path);
}

// The closest of `known` by edit distance, or empty when none is near. For "did you mean".
std::string nearest(const std::string& word, const std::vector<std::string>& known);

// What one model.type brings.
struct ModelType {
  std::string name;
  std::string help;  // one line
  ModelConfig model;
  DataConfig data;
};
const std::vector<ModelType>& model_types();

// One line of the table of what this version has; values as they stand in YAML, list items singly.
struct Available {
  std::string key;
  std::vector<std::string> values;
};
const std::vector<Available>& available_values();

// One line of the table of which options combine.
struct CombinationRule {
  std::string options;                  // those it is about, for the reader
  std::string text;                     // what must hold
  std::string (*fault)(const Config&);  // empty if it holds, else "key: what; what to do"
};
const std::vector<CombinationRule>& combination_rules();

}  // namespace pal
