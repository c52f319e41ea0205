// What one option is: a value, and everything said about it in one place.
//
//   struct TrainSection : Section {
//     Option<int64_t> batch_size =
//         option("batch_size", 128, "sentences a micro-batch", {.min = 1});
//   };
//   using TrainConfig = Copied<TrainSection>;
//
// That line is the only declaration. The options of a model are members of the model's own plain
// struct (models/nmt_options.h), which names them in declare().
//
// The reader, --dump-config, the error messages, the comparison of two configurations and
// docs/configuration.md all walk Section::options().
#pragma once
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/names.h"

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

using TextMap = std::map<std::string, std::string>;

// The types an option may have; optional ones accept null.
using OptionValue =
    std::variant<bool, int64_t, double, std::string, std::vector<std::string>,
                 std::optional<int64_t>, std::optional<double>, std::optional<std::string>,
                 std::optional<Size>, std::optional<bool>, std::vector<double>, TextMap>;

// Whether a change of the option may change what is computed (losses, weights, metrics):
// `none_if_exact`, where something else rounds stashed values.
enum class Effect : uint8_t { results, none, none_if_exact };

// What an option accepts beyond its type, and what it touches.
struct OptionRules {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;              // min itself is excluded
  bool below_max = false;              // max itself is excluded
  std::vector<std::string> choices{};  // of a string, or of each item of a list or map
  Effect effect = Effect::results;
  std::vector<std::string> lossy{};  // of the choices, those that round what is computed
  // Values, as YAML, with which a model computes the same but for the order of its sums.
  std::vector<std::string> recordings{};
};

// An option with its type erased: it reads and writes a value that stands elsewhere.
class AnyOption {
 public:
  std::string name;  // inside its section: batch_size
  std::string help;  // one line
  OptionRules rules;
  std::string origin;  // where the value was given: "nmt.yaml:12", "--set"; empty for the default

  template <class T>
  AnyOption(const char* option_name, T& place, const char* one_line, OptionRules option_rules);

  OptionValue value() const { return get_(place_); }
  void set(const OptionValue& value) { set_(place_, value); }  // of the same type as value()

 private:
  void* place_;
  OptionValue (*get_)(const void* place);
  void (*set_)(void* place, const OptionValue& value);
};

// How a T stands in an OptionValue: as itself, but for floats (the nearest short decimal, so that
// 0.1f reads 0.1) and enumerations (by name).
template <class T> struct HeldAs {
  using Type = T;
  static const T& give(const T& v) { return v; }
  static const T& take(const T& v) { return v; }
};
template <> struct HeldAs<float> {
  using Type = double;
  static double give(float v);
  static float take(double v) { return float(v); }
};
template <> struct HeldAs<std::optional<float>> {
  using Type = std::optional<double>;
  static Type give(const std::optional<float>& v) {
    return v ? Type(HeldAs<float>::give(*v)) : Type();
  }
  static std::optional<float> take(const Type& v) {
    return v ? std::optional(float(*v)) : std::nullopt;
  }
};
template <Named E> struct HeldAs<E> {
  using Type = std::string;
  static std::string give(E v) { return name_of(v); }
  static E take(const std::string& name) {
    E v{};
    read_name(name, v);
    return v;
  }
};

template <class T>
AnyOption::AnyOption(const char* option_name, T& place, const char* one_line,
                     OptionRules option_rules)
    : name(option_name),
      help(one_line),
      rules(std::move(option_rules)),
      place_(&place),
      get_([](const void* p) {
        return OptionValue(std::in_place_type<typename HeldAs<T>::Type>,
                           HeldAs<T>::give(*static_cast<const T*>(p)));
      }),
      set_([](void* p, const OptionValue& v) {
        *static_cast<T*>(p) = HeldAs<T>::take(std::get<typename HeldAs<T>::Type>(v));
      }) {
  if constexpr (Named<T>) {
    for (const auto& each : names(T{})) rules.choices.emplace_back(each);
  }
}

class Section;
struct EmptyValue {};
// What Section::option() hands to the member that it declares.
template <class T> struct DeclaredOption {
  Section& section;
  const char* name;
  T initial;
  const char* help;
  OptionRules rules;
};

// A named group of options. An option writes into this very section, so that a section is copied
// option by option (Copied).
class Section {
 public:
  Section() = default;
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

  std::vector<AnyOption*> options();
  std::vector<const AnyOption*> options() const;
  // Null when there is no such option.
  AnyOption* find(std::string_view name);

 protected:
  // Declares a member that is an option; {} is null, or an empty list.
  template <class T = EmptyValue>
  DeclaredOption<T> option(const char* name, T initial, const char* help, OptionRules rules = {}) {
    return {*this, name, std::move(initial), help, std::move(rules)};
  }
  // Declares a member of a plain struct, which is a member of this section, as an option; what it
  // holds now is the default.
  template <class T>
  AnyOption& bind(const char* name, T& place, const char* help, OptionRules rules = {}) {
    return options_.emplace_back(name, place, help, std::move(rules));
  }
  void take(const Section& other);  // values and origins of a section of the same type

 private:
  template <class T> friend struct Option;
  std::deque<AnyOption> options_;
};

// A section as a plain value.
template <class S> struct Copied final : S {
  Copied() = default;
  Copied(const Copied& other) : S() { this->take(other); }
  Copied& operator=(const Copied& other) {
    this->take(other);
    return *this;
  }
};

// The section "model" of one model.type: its options, in the order of M::declare().
template <class M> struct ModelSection : Section {
  M model;
  std::string type = M::kType;

  ModelSection() {
    bind("type", type, "the kind of model", {.choices = {M::kType}});
    model.declare(Binder{*this});
  }

 private:
  struct Binder {
    ModelSection& section;
    template <class T>
    void operator()(const char* name, T& member, const char* help, OptionRules rules = {}) const {
      section.bind(name, member, help, std::move(rules));
    }
  };
};

// A member that is an option. Reads like the value it holds.
template <class T> struct Option {
  template <class Initial>
  Option(DeclaredOption<Initial> d)  // so that a member reads Option<T> x = option(...)
      : value_(value_of(std::move(d.initial))),
        declared_(d.section.bind(d.name, value_, d.help, std::move(d.rules))) {}
  Option(const Option&) = delete;
  Option& operator=(const Option&) = delete;
  Option& operator=(T v) {
    value_ = std::move(v);
    return *this;
  }
  const T& get() const { return value_; }
  const T& operator*() const { return value_; }
  const T* operator->() const { return &value_; }
  operator const T&() const { return value_; }
  operator const AnyOption&() const { return declared_; }
  friend bool operator==(const Option& a, const T& b) { return a.value_ == b; }

 private:
  static T value_of(EmptyValue) { return {}; }
  template <class Initial> static T value_of(Initial v) { return T(std::move(v)); }

  T value_;
  const AnyOption& declared_;
};

// The type in words: "integer", "number or null", "list of strings".
std::string type_name(const AnyOption& option);
// The value as YAML that reads back to the same value.
std::string yaml_text(const OptionValue& value);
// What is accepted beyond the type, in words: "at least 1", "one of none, echo"; empty if
// anything.
std::string limits_text(const AnyOption& option);

}  // namespace pal
