// Flags by CLI11.
#include "train/commands/flags.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <type_traits>

#include "core/error.h"
#include "train/config/wording.h"

namespace pal {
namespace fs = std::filesystem;

template <class T> void Flags::add(const char* name, T& value, const char* help, FlagRules rules) {
  CLI::Option* option = nullptr;
  if constexpr (std::is_same_v<T, bool>) {
    option = app_.add_flag(name, value, help);
  } else {
    option = app_.add_option(name, value, help)->type_name(rules.type);
  }
  if (rules.required) option->required();
  if (rules.repeatable) {
    option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->delimiter('\0');
  }
  if (rules.optional) option->expected(0, 1);
  if (rules.excludes) option->excludes(app_.get_option(rules.excludes));
}

template void Flags::add(const char*, bool&, const char*, FlagRules);
template void Flags::add(const char*, std::string&, const char*, FlagRules);
template void Flags::add(const char*, fs::path&, const char*, FlagRules);
template void Flags::add(const char*, int64_t&, const char*, FlagRules);
template void Flags::add(const char*, double&, const char*, FlagRules);
template void Flags::add(const char*, std::optional<int64_t>&, const char*, FlagRules);
template void Flags::add(const char*, std::vector<std::string>&, const char*, FlagRules);
template void Flags::add(const char*, std::vector<fs::path>&, const char*, FlagRules);

void Flags::pair(const char* one, const char* other) {
  app_.get_option(one)->needs(app_.get_option(other));
  app_.get_option(other)->needs(app_.get_option(one));
}

std::function<std::vector<std::string>()> Flags::words_without(const std::string& name) const {
  return [&app = app_, name] {
    std::vector<std::string> words;
    for (const CLI::Option* option : app.get_options()) {
      const std::string flag = option->get_name();
      if (option->count() == 0 || flag == name) continue;
      if (option->get_items_expected_max() == 0) {
        words.push_back(flag);
        continue;
      }
      for (const std::string& value : option->results()) {
        if (value.starts_with('-')) {
          words.push_back(flag + "=" + value);
        } else {
          words.insert(words.end(), {flag, value});
        }
      }
    }
    return words;
  };
}

void add_json(Flags& flags, bool& json, const char* excludes) {
  flags.add("--json", json, "print one JSON object on standard output, logs on standard error",
            {.excludes = excludes});
}

void add_strict(Flags& flags, bool& strict) {
  flags.add("--strict", strict, "end at the first input that will not do");
}
void add_models(Flags& flags, std::string& model) {
  flags.add("--model", model, "folder of a run; several: an ensemble",
            {.type = "DIR[,DIR...]", .required = true});
}

void add_beam(Flags& flags, BeamOptions& beam) {
  flags.add("--beam", beam.beam, "hypotheses side by side; 1 is greedy search (5)", {.type = "K"});
  flags.add("--length-penalty", beam.length_penalty,
            "score = log P / words^A; 0: the probability alone (1)", {.type = "A"});
  flags.add("--allow-unknown", beam.allow_unknown, "<unk> may be chosen");
}

std::pair<int64_t, int64_t> parse_bucket(const std::string& text) {
  std::pair<int64_t, int64_t> lengths{0, 0};
  const char* end = text.data() + text.size();
  auto first = std::from_chars(text.data(), end, lengths.first);
  bool ok = first.ec == std::errc() && first.ptr != end && *first.ptr == ',';
  if (ok) {
    auto second = std::from_chars(first.ptr + 1, end, lengths.second);
    ok = second.ec == std::errc() && second.ptr == end;
  }
  if (!ok || lengths.first < 1 || lengths.second < 1) {
    throw UsageError("--bucket: '" + one_line(text) + "' is not two lengths; write it as 30,40");
  }
  return lengths;
}

void check_range(const char* flag, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return;
  throw UsageError(std::string(flag) + ": " + std::to_string(value) + " is out of range; give " +
                   std::to_string(least) +
                   (most == INT64_MAX ? " or more" : " to " + std::to_string(most)));
}

void ConfigFlags::add(Flags& flags) {
  flags.add("--config", config, "path of a .yaml file, or the name of one in configs/",
            {.type = "C"});
  flags.add("--set", set, "override an option: --set train.lr=0.001 (repeatable)",
            {.type = "KEY=VALUE", .repeatable = true});
}

Config ConfigFlags::read(const std::string& command, const fs::path& fallback,
                         const std::vector<Override>& overrides, std::string& name) const {
  std::vector<Override> all;
  for (const std::string& assignment : set) all.push_back(parse_set(assignment));
  all.insert(all.end(), overrides.begin(), overrides.end());
  if (config.empty() && fallback.empty()) {
    throw UsageError(command + ": --config is missing; give a path, or a name in configs/");
  }
  const fs::path file = config.empty() ? fallback : find_config(config);
  name = (config.empty() ? fs::absolute(file).parent_path().filename() : file.stem()).string();
  return load_config(file, all);
}

}  // namespace pal
