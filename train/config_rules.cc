// What this version has, and which options combine. Both tables are also printed in
// docs/configuration.md. A new feature extends the first; a new conflict is a line in the second.
#include <algorithm>

#include "core/error.h"
#include "train/config.h"

namespace pal {

// Options not named here accept everything they declare.
const std::vector<Available>& available_values() {
  static const std::vector<Available> table = {
      {"memory.schedule", {"program", "lifetime"}},
      {"memory.recompute", {"none", "mirror", "sqrt", "echo"}},
      {"memory.encode", {}},
      {"memory.swap", {"none"}},
      {"memory.manager", {"static"}},
      {"memory.auto", {"false"}},
      {"device.type", {"cpu", "auto"}},
  };
  return table;
}

const std::vector<CombinationRule>& combination_rules() {
  static const std::vector<CombinationRule> table = {
      {"train.steps, train.max_epochs", "one of them must be set",
       [](const Config& c) -> std::string {
         if (*c.train.steps || *c.train.max_epochs) return "";
         return "train.max_epochs: neither it nor train.steps is set, so training would not end; "
                "set one of them";
       }},
      {"train.clip_value, train.clip_norm", "at most one of them",
       [](const Config& c) -> std::string {
         if (!*c.train.clip_value || !*c.train.clip_norm) return "";
         return "train.clip_norm: does not combine with train.clip_value; set one of them to null";
       }},
      {"train.schedule, train.lr_decay_every, train.schedule_steps",
       "step needs lr_decay_every, cosine needs schedule_steps (more than warmup_steps)",
       [](const Config& c) -> std::string {
         const TrainConfig& t = c.train;
         if (*t.schedule == "step" && !*t.lr_decay_every)
           return "train.schedule: step needs train.lr_decay_every; set it to a number of updates";
         if (*t.schedule == "cosine" && !*t.schedule_steps)
           return "train.schedule: cosine needs train.schedule_steps; set it to the run's length in "
                  "updates";
         if (*t.schedule == "cosine" && **t.schedule_steps <= *t.warmup_steps)
           return "train.schedule_steps: not above train.warmup_steps, so nothing is left for the "
                  "cosine; raise it";
         return "";
       }},
      {"train.lr_min, train.lr", "lr_min is at most lr",
       [](const Config& c) -> std::string {
         if (*c.train.lr_min <= *c.train.lr) return "";
         return "train.lr_min: is above train.lr; lower it";
       }},
      {"data.max_length, data.bucket_width", "at most 12 buckets: max_length / bucket_width <= 12",
       [](const Config& c) -> std::string {
         const auto* data = std::get_if<ParallelTextConfig>(&c.data);
         if (!data || !*data->bucket_width) return "";
         int64_t width = **data->bucket_width;
         if ((*data->max_length + width - 1) / width <= 12) return "";
         return "data.bucket_width: " + std::to_string(width) +
                " makes more than 12 buckets up to data.max_length " +
                std::to_string(*data->max_length) + "; use " +
                std::to_string((*data->max_length + 11) / 12) + " or more";
       }},
      {"data.shared_vocabulary, data.source_vocab, data.target_vocab",
       "a shared vocabulary is one file and one size: the target's options stay null, or equal",
       [](const Config& c) -> std::string {
         const auto* data = std::get_if<ParallelTextConfig>(&c.data);
         if (!data || !*data->shared_vocabulary) return "";
         auto differs = [](const auto& source, const auto& target) {
           return *target && *target != *source;
         };
         if (differs(data->source_vocab, data->target_vocab))
           return "data.target_vocab: with data.shared_vocabulary it is data.source_vocab; "
                  "leave it null";
         if (differs(data->source_vocab_size, data->target_vocab_size))
           return "data.target_vocab_size: with data.shared_vocabulary it is "
                  "data.source_vocab_size; leave it null";
         return "";
       }},
      {"model.bidirectional, model.hidden", "a bidirectional layer needs an even hidden",
       [](const Config& c) -> std::string {
         const auto* nmt = std::get_if<NmtConfig>(&c.model);
         if (!nmt || !*nmt->bidirectional || *nmt->hidden % 2 == 0) return "";
         return "model.hidden: " + std::to_string(*nmt->hidden) +
                " is odd, but model.bidirectional gives each way half of it; make it even";
       }},
      {"model.tie_embeddings, model.hidden, model.embedding",
       "tied weights have one shape: hidden equals embedding",
       [](const Config& c) -> std::string {
         const auto* nmt = std::get_if<NmtConfig>(&c.model);
         if (!nmt || *nmt->tie_embeddings == "none" || *nmt->hidden == *nmt->embedding) return "";
         return "model.tie_embeddings: " + *nmt->tie_embeddings +
                " needs model.hidden equal to model.embedding; change one of them";
       }},
      {"model.tie_embeddings, data.shared_vocabulary", "tie_embeddings: all needs one vocabulary",
       [](const Config& c) -> std::string {
         const auto* nmt = std::get_if<NmtConfig>(&c.model);
         const auto* data = std::get_if<ParallelTextConfig>(&c.data);
         if (!nmt || !data || *nmt->tie_embeddings != "all" || *data->shared_vocabulary) return "";
         return "model.tie_embeddings: all needs data.shared_vocabulary: true; set it, or use "
                "target";
       }},
  };
  return table;
}

namespace {

// "FILE:12: " where the value was given, or nothing for a default.
std::string place(const AnyOption& option) {
  return option.origin.empty() ? "" : option.origin + ": ";
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

void check_available(const std::string& key, const AnyOption& option) {
  for (const Available& line : available_values()) {
    if (line.key != key) continue;
    const auto* list = std::get_if<std::vector<std::string>>(&option.value);
    std::vector<std::string> given = list ? *list : std::vector{yaml_text(option.value)};
    for (const auto& value : given)
      if (std::find(line.values.begin(), line.values.end(), value) == line.values.end())
        throw UsageError(place(option) + key + ": " + value +
                         " is not available in this version; use " +
                         (line.values.empty() ? "[]" : join(line.values)));
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
