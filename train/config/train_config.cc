// Which options of the sections train and memory combine.
#include "train/config/train_config.h"

#include <algorithm>

#include "core/error.h"
#include "ops/encodings/dpr.h"

namespace pal {

Rules<TrainConfig> train_rules() {
  return {
      {"train.steps, train.max_epochs", "one of them must be set",
       [](const TrainConfig& t) -> std::string {
         if (*t.steps || *t.max_epochs) return "";
         return "train.max_epochs: neither it nor train.steps is set, so training would not end; "
                "set one of them";
       }},
      {"train.clip_value, train.clip_norm", "at most one of them",
       [](const TrainConfig& t) -> std::string {
         if (!*t.clip_value || !*t.clip_norm) return "";
         return "train.clip_norm: does not combine with train.clip_value; set one of them to null";
       }},
      {"train.schedule, train.lr_decay_every, train.schedule_steps",
       "step needs lr_decay_every, cosine needs schedule_steps (more than warmup_steps)",
       [](const TrainConfig& t) -> std::string {
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
      {"train.overlap_micro_batches, train.accumulate",
       "overlapping takes two micro-batches or more",
       [](const TrainConfig& t) -> std::string {
         if (!*t.overlap_micro_batches || t.accumulate->value_or(1) > 1) return "";
         return "train.overlap_micro_batches: there is one micro-batch in an update; raise "
                "train.accumulate, or leave it out";
       }},
      {"train.bucket", "auto, or a size",
       [](const TrainConfig& t) -> std::string {
         if (*t.bucket == "auto") return "";
         try {
           parse_size(*t.bucket);
         } catch (const UsageError& error) {
           return std::string("train.bucket: ") + error.what() + "; give a size, or auto";
         }
         return "";
       }},
      {"train.overlap_micro_batches, train.reduction",
       "overlapped micro-batches are summed one after the other",
       [](const TrainConfig& t) -> std::string {
         if (!*t.overlap_micro_batches || t.reduction->value_or("library") == "library") return "";
         return "train.overlap_micro_batches: does not combine with train.reduction: ordered; "
                "leave "
                "one of them out";
       }},
      {"train.lr_min, train.lr", "lr_min is at most lr",
       [](const TrainConfig& t) -> std::string {
         if (*t.lr_min <= *t.lr) return "";
         return "train.lr_min: is above train.lr; lower it";
       }},
  };
}

std::vector<std::string> dpr_names(const std::string& prefix) {
  std::vector<std::string> all;
  for (const char* name : names(Dpr{})) all.push_back(prefix + name);
  return all;
}

std::vector<std::string> encode_choices() {
  std::vector<std::string> all{"binarize", "ssdc", "dropout_bits"};
  for (std::string& name : dpr_names("dpr_")) all.push_back(std::move(name));
  return all;
}

namespace {

// The option by which a technique is asked for, as a key and its value; "" where there is none.
std::string technique_of(const MemoryConfig& m) {
  if (*m.recompute != Recompute::none) {
    return std::string("memory.recompute: ") + to_string(*m.recompute);
  }
  if (!m.encode->empty()) return "memory.encode";
  if (!m.dpr_layers->empty()) return "memory.dpr_layers";
  if (*m.swap != Swap::none) return "memory.swap: " + name_of(*m.swap);
  if (*m.manager != Manager::fixed) return "memory.manager: " + name_of(*m.manager);
  return "";
}

}  // namespace

bool chooses_plan(const MemoryConfig& m) {
  return m.automatic->value_or(m.budget->has_value() && technique_of(m).empty());
}

bool allows(const MemoryConfig& m, const char* what) {
  return std::find(m.allow->begin(), m.allow->end(), what) != m.allow->end();
}

Rules<MemoryConfig> memory_rules() {
  return {{"memory.auto, memory.budget", "a plan is chosen from a budget",
           [](const MemoryConfig& m) -> std::string {
             if (!m.automatic->value_or(false) || m.budget->has_value()) return "";
             return "memory.auto: there is no budget to choose by; set memory.budget (11GiB), or "
                    "leave it out";
           }},
          {"memory.auto, memory.recompute, memory.encode, memory.dpr_layers, memory.swap, "
           "memory.manager",
           "auto: true decides itself on all of these",
           [](const MemoryConfig& m) -> std::string {
             const std::string technique = technique_of(m);
             if (!m.automatic->value_or(false) || technique.empty()) return "";
             return "memory.auto: true does not combine with " + technique +
                    ", which it would choose itself; leave one of them out";
           }},
          {"memory.manager, memory.swap", "delta and dtr decide what is copied out themselves",
           [](const MemoryConfig& m) -> std::string {
             if (*m.manager == Manager::fixed || *m.swap == Swap::none) return "";
             return "memory.swap: " + name_of(*m.swap) +
                    " does not combine with memory.manager: " + name_of(*m.manager) +
                    ", which decides itself what is copied out; keep one";
           }},
          {"memory.encode, memory.dpr_layers",
           "of the dpr_ formats one, or several that dpr_layers gives to scopes",
           [](const MemoryConfig& m) -> std::string {
             const std::vector<std::string>& encode = *m.encode;
             const auto count = [&](const std::string& name) {
               return std::count(encode.begin(), encode.end(), name);
             };
             int64_t formats = 0;
             for (const std::string& name : dpr_names("dpr_")) formats += count(name);
             if (formats < 2) return "";
             if (m.dpr_layers->empty()) {
               return "memory.encode: has several dpr_ formats; keep one, or say in "
                      "memory.dpr_layers which scopes get which";
             }
             for (const std::string& name : dpr_names("")) {
               const bool given =
                   std::any_of(m.dpr_layers->begin(), m.dpr_layers->end(),
                               [&](const auto& layer) { return layer.second == name; });
               if (count("dpr_" + name) == 0 || given) continue;
               return "memory.encode: has several dpr_ formats, of which memory.dpr_layers gives "
                      "dpr_" +
                      name +
                      " to no scope; leave it out, or keep it alone for all "
                      "scopes that dpr_layers does not name";
             }
             return "";
           }}};
}

}  // namespace pal
