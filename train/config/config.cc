// From YAML and overrides to a Config: which key is which option, types, limits, and where the
// configurations and the data are.
#include "train/config/config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "core/error.h"
#include "core/paths.h"
#include "train/config/wording.h"
#include "train/config/yaml.h"

namespace pal {
namespace fs = std::filesystem;

const std::vector<ModelType>& model_types() {
  static const std::vector<ModelType> table = [] {
    std::vector<ModelType> all;
    Models::for_each([&]<class M>(const ModelOf<M>& model, const auto& data) {
      all.push_back({M::kType, M::kHelp, model, data});
    });
    return all;
  }();
  return table;
}

namespace {

Section* as_section(ModelConfig& v) {
  return std::visit([](Section& s) { return &s; }, v);
}
Section* as_section(DataConfig& v) {
  return std::visit([](Section& s) { return &s; }, v);
}

std::vector<std::string> all_keys(Config& config) {
  std::vector<std::string> keys;
  for (auto& [section, options] : config.sections())
    for (AnyOption* option : options->options()) keys.push_back(section + "." + option->name);
  return keys;
}

std::vector<std::string> type_names() {
  std::vector<std::string> names;
  for (const ModelType& type : model_types()) names.push_back(type.name);
  return names;
}

// The choice that a word which is none probably meant: the nearest, or one that it is a part of
// (fp16 for dpr_fp16, or the other way round).
std::string meant(const std::string& word, const std::vector<std::string>& choices) {
  std::string near = nearest(word, choices);
  if (!near.empty() || word.size() < 3) return near;
  for (const std::string& choice : choices) {
    if (choice.find(word) != std::string::npos || word.find(choice) != std::string::npos) {
      return choice;
    }
  }
  return "";
}

// The key an unknown one probably meant: the same name in another section, else the nearest.
std::string meant(const std::string& key, Config& config) {
  std::vector<std::string> keys = all_keys(config);
  std::string leaf = key.substr(key.find('.') + 1);
  for (const auto& known : keys)
    if (known.substr(known.find('.') + 1) == leaf) return known;
  return nearest(key, keys);
}

// Turns YAML nodes into option values; `where` is the place that errors begin with.
class Reader {
 public:
  Reader(std::string where, std::string key, AnyOption& option)
      : where_(std::move(where)), key_(std::move(key)), option_(option) {}

  void read(const YamlNode& node) {
    option_.set(std::visit(
        [&](const auto& old) {
          return OptionValue(std::in_place_type<std::decay_t<decltype(old)>>, get(node, old));
        },
        option_.value()));
    option_.origin = where_;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw UsageError(where_ + ": " + key_ + ": " + what);
  }
  [[noreturn]] void wrong_type(const YamlNode& node) const {
    std::string advice;
    const OptionValue held = option_.value();
    bool wants_text = std::holds_alternative<std::string>(held) ||
                      std::holds_alternative<std::optional<std::string>>(held);
    if (node.kind == YamlNode::Kind::scalar && wants_text) advice = "; write it in quotes";
    if (node.kind == YamlNode::Kind::scalar &&
        std::holds_alternative<std::vector<std::string>>(held)) {
      advice = "; write it as [" + node.text.substr(0, 40) + "]";
    }
    std::string limits = limits_text(option_);
    fail("expected " + type_name(option_) + (limits.empty() ? "" : " (" + limits + ")") + ", got " +
         describe(node) + advice);
  }

  bool get(const YamlNode& node, bool) const {
    if (node.kind != YamlNode::Kind::scalar || scalar_type(node) != ScalarType::boolean)
      wrong_type(node);
    return node.text[0] == 't' || node.text[0] == 'T';
  }
  int64_t get(const YamlNode& node, int64_t) const {
    if (node.kind != YamlNode::Kind::scalar || scalar_type(node) != ScalarType::integer)
      wrong_type(node);
    std::string_view digits = node.text;
    if (digits[0] == '+') digits.remove_prefix(1);
    int64_t v = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), v);
    if (error != std::errc() || end != digits.data() + digits.size())
      fail(node.text.substr(0, 40) + " does not fit an integer");
    check_range(static_cast<double>(v), node);
    return v;
  }
  double get(const YamlNode& node, double) const {
    ScalarType type = node.kind == YamlNode::Kind::scalar ? scalar_type(node) : ScalarType::string;
    if (type != ScalarType::integer && type != ScalarType::number) wrong_type(node);
    std::string_view text = node.text;
    if (text[0] == '+') text.remove_prefix(1);
    double v = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(v))
      fail(node.text.substr(0, 40) + " is not a finite number");
    check_range(v, node);
    return v;
  }
  std::string get(const YamlNode& node, const std::string&) const {
    if (node.kind != YamlNode::Kind::scalar || scalar_type(node) != ScalarType::string)
      wrong_type(node);
    check_choice(node.text);
    return node.text;
  }
  std::vector<std::string> get(const YamlNode& node, const std::vector<std::string>&) const {
    if (node.kind != YamlNode::Kind::list) wrong_type(node);
    std::vector<std::string> items;
    for (const YamlNode& item : node.items) {
      items.push_back(get(item, std::string()));
      if (std::count(items.begin(), items.end(), item.text) > 1)
        fail(item.text + " is listed twice; keep one");
    }
    return items;
  }
  std::vector<double> get(const YamlNode& node, const std::vector<double>&) const {
    if (node.kind != YamlNode::Kind::list) wrong_type(node);
    std::vector<double> items;
    for (const YamlNode& item : node.items) items.push_back(get(item, double()));
    return items;
  }
  TextMap get(const YamlNode& node, const TextMap&) const {
    if (node.kind != YamlNode::Kind::map) wrong_type(node);
    TextMap map;
    for (size_t i = 0; i < node.keys.size(); ++i) {
      const Reader item(where_, key_ + "." + node.keys[i].text, option_);
      map[node.keys[i].text] = item.get(node.items[i], std::string());
    }
    return map;
  }
  Size get(const YamlNode& node, Size) const {
    if (node.kind != YamlNode::Kind::scalar) wrong_type(node);
    try {
      return parse_size(node.text);
    } catch (const UsageError& e) {
      fail(e.what());
    }
  }
  template <class T> std::optional<T> get(const YamlNode& node, const std::optional<T>&) const {
    bool scalar = node.kind == YamlNode::Kind::scalar || node.kind == YamlNode::Kind::null;
    if (scalar && scalar_type(node) == ScalarType::null) return std::nullopt;
    return get(node, T());
  }

  void check_range(double v, const YamlNode& node) const {
    const OptionRules& r = option_.rules;
    bool low = r.above_min ? v <= r.min : v < r.min;
    bool high = r.below_max ? v >= r.max : v > r.max;
    if (low || high) fail(node.text + " is out of range; it must be " + limits_text(option_));
  }
  void check_choice(const std::string& text) const {
    const auto& choices = option_.rules.choices;
    if (choices.empty() || std::find(choices.begin(), choices.end(), text) != choices.end()) return;
    fail(yaml_quoted(text.substr(0, 60)) + " is not one of " + comma_list(choices) +
         did_you_mean(meant(text, choices)));
  }

  std::string where_, key_;
  AnyOption& option_;
};

struct ParsedOverride {
  const Override& from;
  YamlNode node;
};

ParsedOverride parse_override(const Override& o) {
  YamlNode node;
  try {
    node = parse_yaml(o.value, o.flag);
  } catch (const UsageError& e) {
    throw UsageError(o.flag + ": " + o.key + ": the value is not YAML (" + e.what() + ")");
  }
  return {o, std::move(node)};
}

// The node of `key` in a map, or null.
const YamlNode* child(const YamlNode& map, const std::string& key) {
  for (size_t i = 0; i < map.keys.size(); ++i)
    if (map.keys[i].text == key) return &map.items[i];
  return nullptr;
}

// Chooses the model and data sections by model.type, which everything else is checked against.
void choose_model(Config& config, const YamlNode& root, const std::string& file,
                  const std::vector<ParsedOverride>& overrides) {
  const YamlNode* node = nullptr;
  std::string where = file;
  const YamlNode* model = child(root, "model");
  if (model) node = child(*model, "type");
  if (node) where += ":" + std::to_string(node->line);
  for (const auto& o : overrides)
    if (o.from.key == "model.type") {
      node = &o.node;
      where = o.from.flag;
    }
  if (!node)
    throw UsageError(file + ": model.type: missing; set it to one of " + comma_list(type_names()));
  for (const ModelType& type : model_types())
    if (node->kind == YamlNode::Kind::scalar && node->text == type.name) {
      config.model = type.model;
      config.data = type.data;
      return;
    }
  throw UsageError(where + ": model.type: " + describe(*node) + " is not one of " +
                   comma_list(type_names()) + did_you_mean(nearest(node->text, type_names())));
}

void read_file(Config& config, const YamlNode& root, const std::string& file) {
  std::vector<std::string> names;
  for (auto& [name, section] : config.sections()) names.push_back(name);
  for (size_t i = 0; i < root.keys.size(); ++i) {
    const std::string& name = root.keys[i].text;
    std::string where = file + ":" + std::to_string(root.keys[i].line);
    auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) {
      std::string near = nearest(name, names);
      if (near.empty()) near = meant("." + name, config);
      throw UsageError(where + ": " + name + ": unknown section" +
                       (near.empty() ? "; there are " + comma_list(names) : did_you_mean(near)));
    }
    const YamlNode& body = root.items[i];
    if (body.kind == YamlNode::Kind::null) continue;  // `memory:` with nothing under it
    if (body.kind != YamlNode::Kind::map)
      throw UsageError(where + ": " + name + ": expected options, one `key: value` a line, got " +
                       describe(body));
    Section& section = *config.sections()[static_cast<size_t>(at - names.begin())].second;
    for (size_t k = 0; k < body.keys.size(); ++k) {
      std::string key = name + "." + body.keys[k].text;
      where = file + ":" + std::to_string(body.keys[k].line);
      AnyOption* option = section.find(body.keys[k].text);
      if (!option)
        throw UsageError(where + ": " + key + ": unknown key" + did_you_mean(meant(key, config)));
      Reader(where, key, *option).read(body.items[k]);
    }
  }
}

void apply(Config& config, const ParsedOverride& o) {
  size_t dot = o.from.key.find('.');
  for (auto& [name, section] : config.sections()) {
    if (name != o.from.key.substr(0, dot)) continue;
    if (dot == std::string::npos) continue;
    AnyOption* option = section->find(o.from.key.substr(dot + 1));
    if (!option) continue;
    if (o.node.kind == YamlNode::Kind::map && !std::holds_alternative<TextMap>(option->value())) {
      throw UsageError(o.from.flag + ": " + o.from.key +
                       ": expected one value or a [list], got a map");
    }
    Reader(o.from.flag, o.from.key, *option).read(o.node);
    return;
  }
  throw UsageError(o.from.flag + ": " + o.from.key + ": unknown key" +
                   did_you_mean(meant(o.from.key, config)));
}

// Names without .yaml in configs/ of the working directory and of the program's own files.
std::set<std::string> config_names() {
  std::set<std::string> names;
  for (const fs::path& folder : {fs::path("configs"), resource_dir() / "configs"}) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored))
      if (entry.path().extension() == ".yaml") names.insert(entry.path().stem().string());
  }
  return names;
}

}  // namespace

Config::Config() = default;
Config::Config(const Config&) = default;
Config::Config(Config&&) noexcept = default;
Config& Config::operator=(const Config&) = default;
Config& Config::operator=(Config&&) noexcept = default;
Config::~Config() = default;

namespace {

template <class Data> const Data& data_of(const DataConfig& data, const char* what) {
  if (const auto* own = std::get_if<Data>(&data)) return *own;
  throw ProgramError(std::string("[config] the model does not learn from ") + what);
}

}  // namespace

const ParallelTextConfig& Config::parallel_text() const {
  return data_of<ParallelTextConfig>(data, "parallel text");
}
const ImageConfig& Config::images() const { return data_of<ImageConfig>(data, "images"); }
const SpeechConfig& Config::speech() const { return data_of<SpeechConfig>(data, "speech"); }
const TextConfig& Config::text() const { return data_of<TextConfig>(data, "running text"); }

std::vector<std::pair<std::string, Section*>> Config::sections() {
  return {{"model", as_section(model)},
          {"data", as_section(data)},
          {"train", &train},
          {"memory", &memory},
          {"device", &device}};
}

std::vector<std::pair<std::string, const Section*>> Config::sections() const {
  auto list = const_cast<Config*>(this)->sections();  // handed on as const
  return {list.begin(), list.end()};
}

AnyOption* Config::find(const std::string& key) {
  const size_t dot = key.find('.');
  if (dot == std::string::npos) return nullptr;
  for (auto& [name, section] : sections()) {
    if (name == key.substr(0, dot)) return section->find(key.substr(dot + 1));
  }
  return nullptr;
}

std::string nearest(const std::string& word, const std::vector<std::string>& known) {
  std::string best;
  // A third of the letters may be wrong: enough for typing errors, too little for nonsense.
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  if (word.size() > 200) return "";
  for (const std::string& k : known) {
    std::vector<size_t> row(k.size() + 1);  // Levenshtein, one row at a time
    for (size_t j = 0; j <= k.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= word.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j <= k.size(); ++j) {
        size_t substituted = diagonal + (word[i - 1] != k[j - 1]);
        diagonal = row[j];
        row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
      }
    }
    if (row[k.size()] < std::min(best_distance, k.size())) {
      best_distance = row[k.size()];
      best = k;
    }
  }
  return best;
}

Override parse_set(const std::string& assignment) {
  size_t equals = assignment.find('=');
  size_t dot = assignment.find('.');
  if (equals == std::string::npos || dot == std::string::npos || dot > equals ||
      assignment.substr(0, equals).find_first_of(" \n\r\t") != std::string::npos)
    throw UsageError("--set: " + yaml_quoted(assignment) +
                     " is not an assignment; write it as train.lr=0.001");
  return {assignment.substr(0, equals), assignment.substr(equals + 1), "--set"};
}

fs::path find_config(const std::string& name, const std::string& flag) {
  std::error_code ignored;
  for (const fs::path& candidate :
       {fs::path(name), "configs" / fs::path(name), "configs" / fs::path(name + ".yaml"),
        resource_dir() / "configs" / name, resource_dir() / "configs" / (name + ".yaml")})
    if (!name.empty() && fs::is_regular_file(candidate, ignored)) return candidate;
  std::set<std::string> names = config_names();
  std::vector<std::string> list(names.begin(), names.end());
  std::string stem = fs::path(name).stem().string();
  throw UsageError(flag + ": there is no file '" + name + "' and no configuration of that name" +
                   did_you_mean(nearest(stem, list)) +
                   (list.empty() ? "; give the path of a .yaml file"
                                 : " (there are: " + comma_list(list) + ")"));
}

Config parse_config(const std::string& text, const std::string& file,
                    const std::vector<Override>& overrides) {
  YamlNode root = parse_yaml(text, file);
  if (root.kind != YamlNode::Kind::map && root.kind != YamlNode::Kind::null)
    throw UsageError(file + ":" + std::to_string(std::max(1, root.line)) +
                     ": expected the sections model, data, train, memory and device, got " +
                     describe(root));
  std::vector<ParsedOverride> parsed;
  for (const Override& o : overrides) parsed.push_back(parse_override(o));
  Config config;
  choose_model(config, root, file, parsed);
  read_file(config, root, file);
  for (const auto& o : parsed) apply(config, o);
  check_config(config);
  return config;
}

Config load_config(const fs::path& file, const std::vector<Override>& overrides) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored) || !in || !(text << in.rdbuf() || in.peek() == EOF))
    throw UsageError(file.string() + ": cannot be read; is it a configuration file?");
  return parse_config(text.str(), file.string(), overrides);
}

fs::path path_below(fs::path root, const std::string& path) {
  std::error_code ignored;
  if (root.is_relative() && !fs::exists(root, ignored) &&
      fs::exists(resource_dir() / root, ignored))
    root = resource_dir() / root;
  return (root / path).lexically_normal();  // an absolute `path` replaces root
}

ParallelFiles parallel_files(const ParallelTextConfig& data, const std::string& part) {
  auto files = [&](const std::optional<std::string>& source,
                   const std::optional<std::string>& target) -> ParallelFiles {
    return {data_path(data, source.value_or(part + "." + *data.source_lang)),
            data_path(data, target.value_or(part + "." + *data.target_lang))};
  };
  if (part == "train") return files(data.train_source, data.train_target);
  if (part == "valid") return files(data.valid_source, data.valid_target);
  if (part == "test") return files(data.test_source, data.test_target);
  throw ProgramError("[config] no part '" + part + "' of a corpus; there are train, valid, test");
}

}  // namespace pal
