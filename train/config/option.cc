// Option values as text and back: sizes, YAML literals, the words for types and limits.
#include "train/config/option.h"

#include <charconv>
#include <cmath>

#include "core/error.h"
#include "train/config/yaml.h"

namespace pal {
namespace {

struct Unit {
  const char* name;
  double bytes;
};
constexpr double kKi = 1024;
constexpr Unit kUnits[] = {{"TiB", kKi* kKi* kKi* kKi},
                           {"GiB", kKi* kKi* kKi},
                           {"MiB", kKi* kKi},
                           {"KiB", kKi},
                           {"TB", 1e12},
                           {"GB", 1e9},
                           {"MB", 1e6},
                           {"KB", 1e3},
                           {"B", 1}};

bool same_ignoring_case(std::string_view a, std::string_view b) {
  auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (lower(a[i]) != lower(b[i])) return false;
  return true;
}

// Shortest text that reads back to the same double.
std::string number_text(double v) {
  char buffer[32];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, v).ptr;
  return {buffer, end};
}

std::string limit_number(double v) {
  return std::abs(v) < 1e15 && v == std::floor(v) ? std::to_string(static_cast<int64_t>(v))
                                                  : number_text(v);
}

// One overload for each of OptionValue's alternatives.
struct Printer {
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(int64_t v) const { return std::to_string(v); }
  std::string operator()(double v) const { return number_text(v); }
  std::string operator()(const std::string& v) const { return yaml_quoted(v); }
  std::string operator()(const Size& v) const { return to_string(v); }
  std::string operator()(const std::vector<std::string>& items) const {
    std::string text = "[";
    for (const auto& item : items) text += (text.size() > 1 ? ", " : "") + yaml_quoted(item);
    return text + "]";
  }
  std::string operator()(const std::vector<double>& items) const {
    std::string text = "[";
    for (const double item : items) text += (text.size() > 1 ? ", " : "") + number_text(item);
    return text + "]";
  }
  std::string operator()(const TextMap& map) const {
    std::string text = "{";
    for (const auto& [key, value] : map) {
      text += (text.size() > 1 ? ", " : "") + yaml_quoted(key) + ": " + yaml_quoted(value);
    }
    return text + "}";
  }
  template <class T> std::string operator()(const std::optional<T>& v) const {
    return v ? (*this)(*v) : "null";
  }
};

}  // namespace

Size parse_size(std::string_view text) {
  auto fail = [&](const char* why) -> Size {
    throw UsageError(yaml_quoted(text.substr(0, 40)) + " is not a size: " + why +
                     "; write it as 11GiB, 1.5 GB or a number of bytes");
  };
  double number = 0;
  auto [rest, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc()) return fail("it must start with a number");
  std::string_view unit(rest, static_cast<size_t>(text.data() + text.size() - rest));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  double scale = unit.empty() ? 1 : 0;
  for (const Unit& u : kUnits)
    if (same_ignoring_case(unit, u.name)) scale = u.bytes;
  if (scale == 0) return fail("the unit must be B, KB, MB, GB, TB, KiB, MiB, GiB or TiB");
  double bytes = std::floor(number * scale);
  if (!(bytes >= 1)) return fail("it must be at least one byte");
  if (bytes > 0x1p53) return fail("it is too large");  // beyond this a double skips integers
  return {static_cast<int64_t>(bytes)};
}

std::string to_string(Size size) {
  for (int i = 0; i < 4; ++i) {
    auto unit = static_cast<int64_t>(kUnits[i].bytes);
    if (size.bytes > 0 && size.bytes % unit == 0)
      return std::to_string(size.bytes / unit) + kUnits[i].name;
  }
  return std::to_string(size.bytes);
}

double HeldAs<float>::give(float v) {
  char buffer[32];
  const char* end = std::to_chars(buffer, buffer + sizeof buffer, v).ptr;
  double decimal = 0;
  std::from_chars(buffer, end, decimal);
  return decimal;
}

std::vector<AnyOption*> Section::options() {
  std::vector<AnyOption*> all;
  for (AnyOption& each : options_) all.push_back(&each);
  return all;
}

std::vector<const AnyOption*> Section::options() const {
  std::vector<const AnyOption*> all;
  for (const AnyOption& each : options_) all.push_back(&each);
  return all;
}

void Section::take(const Section& other) {
  for (size_t i = 0; i < options_.size(); ++i) {
    options_[i].set(other.options_[i].value());
    options_[i].origin = other.options_[i].origin;
  }
}

AnyOption* Section::find(std::string_view name) {
  for (AnyOption* option : options())
    if (option->name == name) return option;
  return nullptr;
}

std::string type_name(const AnyOption& option) {
  static constexpr const char* kNames[] = {
      "true or false",   "integer",        "number",         "string",       "list of strings",
      "integer or null", "number or null", "string or null", "size or null", "true, false or null",
      "list of numbers", "map of strings"};
  static_assert(std::size(kNames) == std::variant_size_v<OptionValue>);
  return kNames[option.value().index()];
}

std::string yaml_text(const OptionValue& value) { return std::visit(Printer{}, value); }

std::string limits_text(const AnyOption& option) {
  const OptionRules& r = option.rules;
  std::string text;
  if (!r.choices.empty()) {
    const OptionValue held = option.value();
    const bool several = std::holds_alternative<std::vector<std::string>>(held) ||
                         std::holds_alternative<TextMap>(held);
    text = r.choices.size() == 1 ? "" : several ? "any of " : "one of ";
    for (size_t i = 0; i < r.choices.size(); ++i) text += (i ? ", " : "") + r.choices[i];
  }
  if (std::isfinite(r.min)) text += (r.above_min ? "above " : "at least ") + limit_number(r.min);
  if (std::isfinite(r.max))
    text += std::string(text.empty() ? "" : " and ") + (r.below_max ? "below " : "at most ") +
            limit_number(r.max);
  return text;
}

}  // namespace pal
