// What one option is: a value, and everything said about it in one place.
//
//   struct TrainConfig : Section {
//     Option<int64_t> batch_size{*this, "batch_size", 128, "sentences a micro-batch", {.min = 1}};
//   };
//
// That line is the only declaration. The reader, --dump-config, the error messages, the comparison
// of two configurations and docs/configuration.md all walk Section::options().
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace pal {

// A number of bytes, written as 4096, 512MiB, 1.5 GB, ...
struct Size {
  int64_t bytes = 0;
  bool operator==(const Size&) const = default;
};

// Reads "11GiB", "1.5 GB", "4096". UsageError (without a place) when it is not a size above 0.
Size parse_size(std::string_view text);
// The exact inverse, with the largest binary unit that divides the size: 11GiB, 1500000000.
std::string to_string(Size size);

// The types an option may have; optional ones accept null.
using OptionValue =
    std::variant<bool, int64_t, double, std::string, std::vector<std::string>,
                 std::optional<int64_t>, std::optional<double>, std::optional<std::string>,
                 std::optional<Size>, std::vector<double>>;

// Whether a change of the option may change what is computed (losses, weights, metrics).
enum class Effect : uint8_t { results, none };

// What an option accepts beyond its type, and what it touches.
struct OptionRules {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;              // min itself is excluded
  bool below_max = false;              // max itself is excluded
  std::vector<std::string> choices{};  // of a string, or of each item of a list
  Effect effect = Effect::results;
  std::vector<std::string> lossy{};  // with Effect::none: values that change results nevertheless
};

// An option with its type erased.
struct AnyOption {
  std::string name;   // inside its section: batch_size
  std::string help;   // one line
  OptionValue value;  // its alternative is the option's type and never changes
  OptionRules rules;
  std::string origin;  // where the value was given: "nmt.yaml:12", "--set"; empty for the default
};

// A named group of options. Options enroll themselves, as distances from the section, so that a
// section can be copied as a plain value.
class Section {
 public:
  std::vector<AnyOption*> options();
  std::vector<const AnyOption*> options() const;
  // Null when there is no such option.
  AnyOption* find(std::string_view name);

 private:
  template <class T> friend struct Option;
  void enroll(AnyOption& option);
  std::vector<std::ptrdiff_t> distances_;
};

// An option whose type is T, one of OptionValue's. Reads like the value it holds.
template <class T> struct Option : AnyOption {
  Option(Section& section, const char* option_name, T initial, const char* one_line,
         OptionRules option_rules = {})
      : AnyOption{option_name,
                  one_line,
                  OptionValue(std::in_place_type<T>, std::move(initial)),
                  std::move(option_rules),
                  {}} {
    section.enroll(*this);
  }
  const T& get() const { return std::get<T>(value); }
  const T& operator*() const { return get(); }
  const T* operator->() const { return &get(); }
  operator const T&() const { return get(); }
  Option& operator=(T v) {
    value.template emplace<T>(std::move(v));
    return *this;
  }
  friend bool operator==(const Option& a, const T& b) { return a.get() == b; }
};

// The type in words: "integer", "number or null", "list of strings".
std::string type_name(const AnyOption& option);
// The value as YAML that reads back to the same value.
std::string yaml_text(const OptionValue& value);
// What is accepted beyond the type, in words: "at least 1", "one of none, echo"; empty if anything.
std::string limits_text(const AnyOption& option);

}  // namespace pal
