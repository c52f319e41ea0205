// What this version has, and which options combine. Both tables are also printed in
// docs/configuration.md. A new feature extends the first; a new conflict is a line in the second.
#include <algorithm>

#include "core/error.h"
#include "train/config/config.h"
#include "train/config/wording.h"

namespace pal {

// Options not named here accept everything they declare.
const std::vector<Available>& available_values() {
  static const std::vector<Available> table = {
      {"memory.recompute", {"none", "mirror", "sqrt", "echo"}},
      {"memory.encode", {}},
      {"memory.swap", {"none"}},
      {"memory.manager", {"static"}},
      {"memory.auto", {"false"}},
  };
  return table;
}

namespace {

std::string convolution_fault(const DeepSpeechConfig& model) {
  if (model.conv_kernels->size() != model.conv_strides->size())
    return "model.conv_strides: " + std::to_string(model.conv_strides->size()) + " for the " +
           std::to_string(model.conv_kernels->size()) +
           " convolutions of model.conv_kernels; give one each";
  for (size_t i = 0; i < model.conv_kernels->size(); ++i) {
    const Extents kernel = parse_extents((*model.conv_kernels)[i]);
    const Extents stride = parse_extents((*model.conv_strides)[i]);
    if (kernel.frames % 2 == 0 || kernel.bins % 2 == 0)
      return "model.conv_kernels: '" + (*model.conv_kernels)[i] +
             "' is not FRAMESxBINS in odd numbers, as 11x41";
    if (stride.frames < 1 || stride.bins < 1 || stride.frames > kernel.frames ||
        stride.bins > kernel.bins)
      return "model.conv_strides: '" + (*model.conv_strides)[i] +
             "' is not FRAMESxBINS within the kernel, as 2x2";
  }
  return "";
}

}  // namespace

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
           return "train.schedule: cosine needs train.schedule_steps; set it to the run's length "
                  "in "
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
      {"train.batch_words, train.batch_size, data.max_length",
       "batch_words takes the place of batch_size, which keeps its default, and is at least "
       "max_length",
       [](const Config& c) -> std::string {
         const auto& words = *c.train.batch_words;
         if (!words) return "";
         if (*c.train.batch_size != *TrainConfig().batch_size)
           return "train.batch_words: does not combine with train.batch_size; leave one of them "
                  "out";
         const auto* data = std::get_if<ParallelTextConfig>(&c.data);
         if (!data || *words >= *data->max_length) return "";
         return "train.batch_words: " + std::to_string(*words) +
                " hold no sentence of data.max_length " + std::to_string(*data->max_length) +
                "; raise it, or lower that";
       }},
      {"data.tokenizer, data.sentencepiece_file, data.source_vocab, data.target_vocab",
       "with sentencepiece the pieces are the vocabulary: no vocabulary files and sizes (but for "
       "data.synthetic); sentencepiece_file is of no use without it",
       [](const Config& c) -> std::string {
         const auto* data = std::get_if<ParallelTextConfig>(&c.data);
         if (!data) return "";
         if (*data->tokenizer != "sentencepiece") {
           if (!*data->sentencepiece_file) return "";
           return "data.sentencepiece_file: is of no use with data.tokenizer " + *data->tokenizer +
                  "; set that to sentencepiece";
         }
         const char* key = *data->source_vocab        ? "source_vocab"
                           : *data->target_vocab      ? "target_vocab"
                           : *data->synthetic         ? nullptr
                           : *data->source_vocab_size ? "source_vocab_size"
                           : *data->target_vocab_size ? "target_vocab_size"
                                                      : nullptr;
         if (!key) return "";
         return std::string("data.") + key +
                ": with data.tokenizer sentencepiece the pieces are "
                "the vocabulary; leave it null, and set data.sentencepiece_size";
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
       "target and all tie the output layer: hidden equals embedding",
       [](const Config& c) -> std::string {
         const auto* nmt = std::get_if<NmtConfig>(&c.model);
         if (!nmt || *nmt->hidden == *nmt->embedding) return "";
         if (*nmt->tie_embeddings != "target" && *nmt->tie_embeddings != "all") return "";
         return "model.tie_embeddings: " + *nmt->tie_embeddings +
                " needs model.hidden equal to model.embedding; change one of them";
       }},
      {"model.tie_embeddings, data.shared_vocabulary",
       "tie_embeddings: embeddings and all need one vocabulary",
       [](const Config& c) -> std::string {
         const auto* data = std::get_if<ParallelTextConfig>(&c.data);
         if (!data || *data->shared_vocabulary) return "";
         const std::string tie = std::visit(
             [](const auto& m) -> std::string {
               if constexpr (requires { m.tie_embeddings; }) return *m.tie_embeddings;
               return "none";
             },
             c.model);
         if (tie != "embeddings" && tie != "all") return "";
         return "model.tie_embeddings: " + tie +
                " needs data.shared_vocabulary: true; set it, or use target";
       }},
      {"model.heads, model.hidden", "the heads divide hidden, into 256 columns each at most",
       [](const Config& c) -> std::string {
         const auto* t = std::get_if<TransformerConfig>(&c.model);
         if (!t || (*t->hidden % *t->heads == 0 && *t->hidden / *t->heads <= 256)) return "";
         return "model.heads: " + std::to_string(*t->heads) + " do not divide model.hidden " +
                std::to_string(*t->hidden) + " into at most 256 columns each; change one of them";
       }},
      {"model.conv_kernels, model.conv_strides",
       "as many strides as kernels, FRAMESxBINS each; kernels are odd and no narrower than their "
       "stride",
       [](const Config& c) -> std::string {
         const auto* speech = std::get_if<DeepSpeechConfig>(&c.model);
         return speech ? convolution_fault(*speech) : "";
       }},
      {"data.join_least, data.join_most, data.features",
       "join_most is at least join_least; only sound is joined and played at another tempo",
       [](const Config& c) -> std::string {
         const auto* data = std::get_if<SpeechConfig>(&c.data);
         if (!data) return "";
         if (*data->join_most < *data->join_least)
           return "data.join_most: is below data.join_least; raise it";
         if (*data->features == "mfcc" && (*data->join_most > 1 || *data->tempo))
           return std::string(*data->tempo ? "data.tempo" : "data.join_most") +
                  ": files of data.features mfcc can be neither joined nor played; leave it out";
         return "";
       }},
      {"data.mean, data.std, data.channels", "1 or 3 channels, and as many numbers",
       [](const Config& c) -> std::string {
         const auto* data = std::get_if<ImageConfig>(&c.data);
         if (!data) return "";
         const auto channels = size_t(*data->channels);
         if (channels == 2) return "data.channels: 2 is neither grey (1) nor colour (3)";
         for (const auto* list : {&data->mean, &data->std})
           if (list->get().size() != channels)
             return "data." + list->name + ": has " + std::to_string(list->get().size()) +
                    " numbers for " + std::to_string(channels) + " channels; give one for each";
         return "";
       }},
      {"data.resize, data.image_size", "resize is at least image_size",
       [](const Config& c) -> std::string {
         const auto* data = std::get_if<ImageConfig>(&c.data);
         if (!data || !*data->resize || **data->resize >= *data->image_size) return "";
         return "data.resize: " + std::to_string(**data->resize) +
                " is less than "
                "data.image_size " +
                std::to_string(*data->image_size) + "; raise it";
       }},
      {"data.synthetic, data.classes", "made-up images need data.classes",
       [](const Config& c) -> std::string {
         const auto* data = std::get_if<ImageConfig>(&c.data);
         if (!data || !*data->synthetic || *data->classes) return "";
         return "data.classes: data.synthetic needs it; set it to a number of classes";
       }},
      {"train.batch_words, data", "batch_words counts words: of text only",
       [](const Config& c) -> std::string {
         if (!*c.train.batch_words || !std::get_if<ImageConfig>(&c.data)) return "";
         return "train.batch_words: images have no words; use train.batch_size";
       }},
  };
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
    const auto* list = std::get_if<std::vector<std::string>>(&option.value);
    std::vector<std::string> given = list ? *list : std::vector{yaml_text(option.value)};
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
