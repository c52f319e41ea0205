// A Config as text: the dump that reads back, the reference page, differences and the hash.
#include <algorithm>
#include <cstdint>

#include "train/config/config.h"
#include "train/config/wording.h"

namespace pal {
namespace {

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text;
}

// Stashed values are rounded: which, depends on the plan.
bool is_lossy(const Config& config) {
  for (const auto& [name, section] : config.sections()) {
    for (const AnyOption* option : section->options()) {
      const auto& lossy = option->rules.lossy;
      auto rounds = [&](const std::string& value) {
        return std::find(lossy.begin(), lossy.end(), value) != lossy.end();
      };
      const OptionValue held = option->value();
      if (const auto* list = std::get_if<std::vector<std::string>>(&held)) {
        if (std::any_of(list->begin(), list->end(), rounds)) return true;
      } else if (const auto* map = std::get_if<TextMap>(&held)) {
        for (const auto& [key, value] : *map) {
          if (rounds(value)) return true;
        }
      }
    }
  }
  return false;
}

// Of a list, of which membership decides and order does not.
std::vector<std::string> sorted_items(const AnyOption& option) {
  auto items = std::get<std::vector<std::string>>(option.value());
  std::sort(items.begin(), items.end());
  return items;
}

bool alters_results(const AnyOption& a, const AnyOption& b, bool lossy) {
  if (a.rules.effect == Effect::results) return true;
  if (a.rules.effect == Effect::none_if_exact) return lossy;
  if (a.rules.lossy.empty()) return false;
  return lossy && sorted_items(a) != sorted_items(b);  // what is kept exact decides with it
}

// `|` would end a table's cell.
std::string cell(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string option_table(const std::string& section, const Section& options) {
  std::string page = "| option | type | default | |\n|---|---|---|---|\n";
  for (const AnyOption* option : options.options()) {
    std::string limits = limits_text(*option);
    std::string key = section + "." + option->name;
    std::string resume = option->rules.effect == Effect::none ? " *" : "";
    if (option->rules.effect == Effect::none_if_exact) resume = " **";
    std::string missing;
    for (const Available& line : available_values())
      if (line.key == key) {
        missing = "; in this version: ";
        for (size_t i = 0; i < line.values.size(); ++i) missing += (i ? ", " : "") + line.values[i];
        if (line.values.empty()) missing += "[]";
      }
    page += "| `" + key + "`" + resume + " | " + cell(type_name(*option)) +
            (limits.empty() ? "" : ", " + cell(limits)) + cell(missing) + " | `" +
            yaml_text(option->value()) + "` | " + cell(option->help) + " |\n";
  }
  return page + "\n";
}

}  // namespace

std::string dump_config(const Config& config) {
  std::string text;
  for (const auto& [name, section] : config.sections()) {
    text += (text.empty() ? "" : "\n") + name + ":\n";
    for (const AnyOption* option : section->options()) {
      // Ranges are in the reference page; choices are what a reader of a dump wants to know.
      std::string limits = option->rules.choices.size() > 1 ? limits_text(*option) : "";
      text += padded("  " + option->name + ": " + yaml_text(option->value()), 32) + "  # " +
              option->help + (limits.empty() ? "" : " (" + limits + ")") + "\n";
    }
  }
  return text;
}

std::string config_reference() {
  std::string page =
      "# Configuration\n\n"
      "Made by `pal config-reference` from the declarations in train/config and in models' "
      "*_options.h; do not edit.\n\n"
      "A configuration is a YAML file with the sections below. `--config` takes a path, or the\n"
      "name of a file in configs/. `--set section.option=value` overrides any option, and may be\n"
      "repeated; the last one wins. `--steps N` stands for `train.steps=N` and\n"
      "`train.max_epochs=null`, `--device D` for `device.type=D`, `--budget SIZE` for\n"
      "`memory.budget=SIZE`. `--dump-config` prints the result. Unknown keys, wrong types and\n"
      "values out of range are errors (exit 2).\n\n"
      "Sizes are a number of bytes, or a number with KB, MB, GB, TB (powers of 1000) or KiB, MiB,\n"
      "GiB, TiB (powers of 1024).\n\n"
      "Files of `data` are looked for under `data.root`. A relative root is looked for from the\n"
      "working directory first, then from the folder that holds the program's own configs/ and\n"
      "data/samples/.\n\n"
      "Options marked * do not alter what is computed: `--resume` lets them change (of\n"
      "`memory.encode`, the dpr_ values do alter it). Those marked ** do not either, as long as "
      "no\n"
      "stashed value is rounded (`memory.encode: [dpr_..]`, `memory.dpr_layers`): which are,\n"
      "depends on the plan.\n\n";
  for (const ModelType& type : model_types()) {
    page += "## model, with type: " + type.name + "\n\nA " + type.help + ".\n\n";
    std::visit([&](const Section& s) { page += option_table("model", s); }, type.model);
    page += "## data, for " + type.name + "\n\n";
    std::visit([&](const Section& s) { page += option_table("data", s); }, type.data);
  }
  page += "## train\n\n" + option_table("train", TrainConfig());
  page += "## memory\n\n" + option_table("memory", MemoryConfig());
  page += "## device\n\n" + option_table("device", DeviceConfig());
  page += "## Which options combine\n\n| options | rule |\n|---|---|\n";
  std::string last;
  for (const CombinationRule& rule : combination_rules()) {
    const std::string row = "| " + rule.options + " | " + cell(rule.text) + " |\n";
    if (row != last) page += row;  // two models may have the same rule
    last = row;
  }
  return page;
}

std::vector<Difference> diff(const Config& a, const Config& b) {
  std::vector<Difference> all;
  const bool lossy = is_lossy(a) || is_lossy(b);
  auto sections_a = a.sections(), sections_b = b.sections();
  for (size_t i = 0; i < sections_a.size(); ++i) {
    const auto& [name, section_a] = sections_a[i];
    const Section* section_b = sections_b[i].second;
    auto find = [](const Section* section, const std::string& option) {
      for (const AnyOption* o : section->options())
        if (o->name == option) return o;
      return static_cast<const AnyOption*>(nullptr);
    };
    for (const AnyOption* x : section_a->options()) {
      const AnyOption* y = find(section_b, x->name);
      if (!y)
        all.push_back({name + "." + x->name, yaml_text(x->value()), "(absent)", true});
      else if (x->value() != y->value())
        all.push_back({name + "." + x->name, yaml_text(x->value()), yaml_text(y->value()),
                       alters_results(*x, *y, lossy)});
    }
    for (const AnyOption* y : section_b->options())
      if (!find(section_a, y->name))
        all.push_back({name + "." + y->name, "(absent)", yaml_text(y->value()), true});
  }
  return all;
}

std::string config_hash(const Config& config) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  auto add = [&](const std::string& text) {
    for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
    hash = (hash ^ 0xff) * 0x100000001b3;  // a byte that UTF-8 never has, between fields
  };
  const bool lossy = is_lossy(config);
  for (const auto& [name, section] : config.sections())
    for (const AnyOption* option : section->options()) {
      const OptionValue value = option->value();
      const Effect effect = option->rules.effect;
      if (effect == Effect::results || (lossy && effect == Effect::none_if_exact)) {
        add(name + "." + option->name);
        add(yaml_text(value));
      } else if (lossy && !option->rules.lossy.empty()) {
        add(name + "." + option->name);
        for (const std::string& item : sorted_items(*option)) add(item);
      }
    }
  return printed("%016llx", static_cast<unsigned long long>(hash));
}

}  // namespace pal
