// The configuration: five sections of options, each option declared once (option.h has the idea).
// A new option of data, training or memory is a line in its section; of a model, a member of its
// own struct and a row in declare() (models/nmt_options.h). A new model is a row in Models. What is
// declared but not built yet is refused by rules.cc.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "models/bert_options.h"
#include "models/deepspeech2_options.h"
#include "models/gnmt_options.h"
#include "models/nmt_options.h"
#include "models/resnet_options.h"
#include "models/rhn_options.h"
#include "models/transformer_options.h"
#include "models/zoo_options.h"
#include "train/config/image_config.h"
#include "train/config/language_config.h"
#include "train/config/option.h"
#include "train/config/speech_config.h"
#include "train/config/train_config.h"
#include "train/config/translation_config.h"

namespace pal {

// The section "model" of a model with these options, as a plain value.
template <class Options> using ModelOf = Copied<ModelSection<Options>>;

// A model: its options, and the kind of data that it learns from.
template <class Options, class Data> struct ModelRow {};
// All models, in the order of the reference page.
template <class... Rows> struct ModelRows;
using Models =
    ModelRows<ModelRow<NmtOptions, ParallelTextConfig>,
              ModelRow<TransformerOptions, ParallelTextConfig>,
              ModelRow<ResNetOptions, ImageConfig>, ModelRow<ZooOptions, ImageConfig>,
              ModelRow<DeepSpeech2Options, SpeechConfig>, ModelRow<GnmtOptions, ParallelTextConfig>,
              ModelRow<BertOptions, TextConfig>, ModelRow<RhnOptions, TextConfig>>;

template <class... Options, class... Data> struct ModelRows<ModelRow<Options, Data>...> {
  using Sections = std::variant<ModelOf<Options>...>;
  // Calls each(M(), D()) for the section and the data of every model.
  template <class Each> static void for_each(Each&& each) {
    (each(ModelOf<Options>(), Data()), ...);
  }
};

using ModelConfig = Models::Sections;
using DataConfig = std::variant<ParallelTextConfig, ImageConfig, SpeechConfig, TextConfig>;

struct Config {
  ModelConfig model;  // by model.type
  DataConfig data;    // the kind of data that this model learns from
  TrainConfig train;
  MemoryConfig memory;
  DeviceConfig device;
  // Processes that train together. No option: a launcher says it, or who plans for several.
  int64_t ranks = 1;
  int64_t per_node = 0;  // of each machine, where all have as many; 0: machines are not told apart
  int gpu = 0;           // nor is the machine's GPU that device cuda means: a rank has its own

  // Out of line: compiled once, not in every file that copies a configuration.
  Config();
  Config(const Config&);
  Config(Config&&) noexcept;
  Config& operator=(const Config&);
  Config& operator=(Config&&) noexcept;
  ~Config();

  // The model's own options; null where model.type is another.
  template <class Options> const Options* options() const {
    const auto* section = std::get_if<ModelOf<Options>>(&model);
    return section ? &section->model : nullptr;
  }
  // The section of that kind of data. ProgramError when the model learns from another.
  const ParallelTextConfig& parallel_text() const;
  const ImageConfig& images() const;
  const SpeechConfig& speech() const;
  const TextConfig& text() const;
  // "model", "data", "train", "memory", "device", in this order.
  std::vector<std::pair<std::string, Section*>> sections();
  std::vector<std::pair<std::string, const Section*>> sections() const;
  // "train.lr"; null: there is no such option.
  AnyOption* find(const std::string& key);
};

// A value given on the command line: `--set key=value`, or a flag that stands for one.
struct Override {
  std::string key;    // train.lr
  std::string value;  // YAML: a scalar or a list
  std::string flag;   // what the user wrote, for errors: "--set", "--steps"
};
// "train.lr=0.1" as an Override. UsageError when there is no '=' or no section.
Override parse_set(const std::string& assignment);

// Where the argument of `flag` is: a path (tried first), or a bare name in configs/ of the working
// directory, then of resource_dir(), with or without .yaml. UsageError lists the names there are.
std::filesystem::path find_config(const std::string& name_or_path,
                                  const std::string& flag = "--config");

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
  std::string options;  // those it is about, for the reader
  std::string text;     // what must hold
  std::function<std::string(const Config&)>
      fault;  // empty if it holds, else "key: what; what to do"
};
const std::vector<CombinationRule>& combination_rules();

}  // namespace pal
