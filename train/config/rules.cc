// What this version has, and which options combine: those of one section stand in its file, those
// of several here. Both tables are also printed in docs/configuration.md.
#include <algorithm>

#include "core/error.h"
#include "train/config/config.h"
#include "train/config/wording.h"

namespace pal {

// Options not named here accept everything they declare.
const std::vector<Available>& available_values() {
  static constexpr auto all = names(Recompute());
  static const std::vector<Available> table = {
      {"memory.recompute", {all.begin(), all.end()}},
  };
  return table;
}

namespace {

void add(std::vector<CombinationRule>& all, const Rules<TrainConfig>& rules) {
  for (const auto& rule : rules) {
    all.push_back({rule.options, rule.text,
                   [fault = rule.fault](const Config& c) { return fault(c.train); }});
  }
}
void add(std::vector<CombinationRule>& all, const Rules<MemoryConfig>& rules) {
  for (const auto& rule : rules) {
    all.push_back({rule.options, rule.text,
                   [fault = rule.fault](const Config& c) { return fault(c.memory); }});
  }
}

// Of a kind of data: hold wherever a model learns from it.
template <class Data> void add(std::vector<CombinationRule>& all, const Rules<Data>& rules) {
  for (const auto& rule : rules) {
    all.push_back({rule.options, rule.text, [fault = rule.fault](const Config& c) {
                     const auto* data = std::get_if<Data>(&c.data);
                     return data ? fault(*data) : std::string();
                   }});
  }
}

// Of all models that have rules.
void add_model_rules(std::vector<CombinationRule>& all) {
  Models::for_each([&]<class M>(const ModelOf<M>&, const auto&) {
    if constexpr (requires { M::rules(); }) {
      for (const auto& rule : M::rules()) {
        all.push_back({rule.options, rule.text, [fault = rule.fault](const Config& c) {
                         const M* options = c.options<M>();
                         return options ? fault(*options) : std::string();
                       }});
      }
    }
  });
}

std::string words_of_a_batch(const Config& c) {
  const auto& words = *c.train.batch_words;
  if (!words) return "";
  if (*c.train.batch_size != *TrainConfig().batch_size) {
    return "train.batch_words: does not combine with train.batch_size; leave one of them out";
  }
  const auto* data = std::get_if<ParallelTextConfig>(&c.data);
  if (!data || *words >= *data->max_length) return "";
  return "train.batch_words: " + std::to_string(*words) + " hold no sentence of data.max_length " +
         std::to_string(*data->max_length) + "; raise it, or lower that";
}

std::string one_vocabulary(const Config& c) {
  const auto* data = std::get_if<ParallelTextConfig>(&c.data);
  if (!data || *data->shared_vocabulary) return "";
  const std::string tie = std::visit(
      [](const auto& m) -> std::string {
        if constexpr (requires { m.model.tie; }) return name_of(m.model.tie);
        return "none";
      },
      c.model);
  if (tie != "embeddings" && tie != "all") return "";
  return "model.tie_embeddings: " + tie +
         " needs data.shared_vocabulary: true; set it, or use target";
}

std::string words_of_text(const Config& c) {
  if (!*c.train.batch_words || std::holds_alternative<ParallelTextConfig>(c.data)) return "";
  return "train.batch_words: only pairs of sentences are gathered by words; use train.batch_size";
}

std::string smoothed_labels(const Config& c) {
  if (*c.train.label_smoothing == 0 || std::holds_alternative<ParallelTextConfig>(c.data) ||
      std::holds_alternative<ImageConfig>(c.data)) {
    return "";
  }
  return "train.label_smoothing: only translators and classifiers of images have it; leave it out";
}

// Copies to the host have queues of their own, and managers addresses; sparse maps may overflow,
// and then their step runs again.
std::string overlapped_memory(const Config& c) {
  if (!*c.train.overlap_micro_batches) return "";
  const std::string does_not = "train.overlap_micro_batches: does not combine with memory.";
  if (*c.memory.swap != Swap::none) {
    return does_not + "swap: " + name_of(*c.memory.swap) + "; leave one of them out";
  }
  if (*c.memory.manager != Manager::fixed) {
    return does_not + "manager: " + name_of(*c.memory.manager) + "; leave one of them out";
  }
  const std::vector<std::string>& encode = *c.memory.encode;
  if (std::find(encode.begin(), encode.end(), "ssdc") == encode.end()) return "";
  return does_not + "encode: ssdc; leave one of them out";
}

}  // namespace

const std::vector<CombinationRule>& combination_rules() {
  static const std::vector<CombinationRule> table = [] {
    std::vector<CombinationRule> all;
    add(all, train_rules());
    add(all, memory_rules());
    all.push_back({"train.overlap_micro_batches, memory.swap, memory.manager, memory.encode",
                   "overlapped micro-batches neither swap nor are managed, and have no ssdc maps",
                   overlapped_memory});
    all.push_back({"train.batch_words, train.batch_size, data.max_length",
                   "batch_words takes the place of batch_size, which keeps its default, and is at "
                   "least max_length",
                   words_of_a_batch});
    add(all, parallel_text_rules());
    add_model_rules(all);
    all.push_back({"model.tie_embeddings, data.shared_vocabulary",
                   "tie_embeddings: embeddings and all need one vocabulary", one_vocabulary});
    add(all, speech_rules());
    add(all, image_rules());
    all.push_back({"train.batch_words, data", "batch_words counts words of pairs of sentences",
                   words_of_text});
    all.push_back({"train.label_smoothing, data",
                   "label_smoothing is of translators and of classifiers of images",
                   smoothed_labels});
    return all;
  }();
  return table;
}

namespace {

// "FILE:12: " where the value was given, or nothing for a default.
std::string place(const AnyOption& option) {
  return option.origin.empty() ? "" : option.origin + ": ";
}

void check_available(const std::string& key, const AnyOption& option) {
  for (const Available& line : available_values()) {
    if (line.key != key) continue;
    const OptionValue held = option.value();
    const auto* list = std::get_if<std::vector<std::string>>(&held);
    std::vector<std::string> given = list ? *list : std::vector{yaml_text(held)};
    for (const auto& value : given)
      if (std::find(line.values.begin(), line.values.end(), value) == line.values.end())
        throw UsageError(place(option) + key + ": " + value +
                         " is not available in this version; use " +
                         (line.values.empty() ? "[]" : comma_list(line.values)));
  }
}

}  // namespace

void check_config(const Config& config) {
  for (const auto& [section, options] : config.sections())
    for (const AnyOption* option : options->options())
      check_available(section + "." + option->name, *option);
  for (const CombinationRule& rule : combination_rules()) {
    std::string fault = rule.fault(config);
    if (fault.empty()) continue;
    std::string key = fault.substr(0, fault.find(':'));
    std::string where;
    for (const auto& [section, options] : config.sections())
      for (const AnyOption* option : options->options())
        if (section + "." + option->name == key) where = place(*option);
    throw UsageError(where + fault);
  }
}

}  // namespace pal
