// An operator's attributes: one plain struct per operator, held type-erased in a node.
//
//   struct MatmulAttrs {
//     bool ta = false, tb = false;
//     auto fields() const { return std::tuple{field("ta", ta), field("tb", tb)}; }
//   };
//
// fields() gives printing, hashing and equality; values may be bool, integers, floats, DType,
// Shape.
#pragma once
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>

#include "core/spec.h"
#include "core/text.h"

namespace pal {

template <class T> struct Field {
  const char* name;
  T value;
};
template <class T> Field<T> field(const char* name, T value) { return {name, value}; }

struct NoAttrs {
  auto fields() const { return std::tuple<>{}; }
};

class Attrs {
 public:
  Attrs() : Attrs(NoAttrs{}) {}
  template <class A>
  requires(!std::is_same_v<A, Attrs>) Attrs(A attrs)
      : held_(std::make_shared<Held<A>>(std::move(attrs))) {}  // NOLINT: implicit

  // The struct inside. Throws std::bad_cast when the operator's struct is another one.
  template <class A> const A& as() const { return dynamic_cast<const Held<A>&>(*held_).attrs; }
  std::string print() const { return held_->print(); }  // "ta=true tb=false"
  size_t hash() const { return held_->hash(); }
  bool operator==(const Attrs& other) const {
    return held_ == other.held_ || held_->equals(*other.held_);
  }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual std::string print() const = 0;
    virtual size_t hash() const = 0;
    virtual bool equals(const Base& other) const = 0;
  };
  template <class T> static std::string text(const T& value) {
    if constexpr (std::is_same_v<T, bool>)
      return value ? "true" : "false";
    else if constexpr (std::is_same_v<T, Shape> || std::is_same_v<T, DType>)
      return to_string(value);
    else if constexpr (std::is_floating_point_v<T>)
      return print_float(value);
    else
      return std::to_string(static_cast<int64_t>(value));
  }
  template <class T> static size_t number(const T& value) {
    if constexpr (std::is_same_v<T, Shape>)
      return hash_of(TensorSpec{value});
    else if constexpr (std::is_floating_point_v<T>)
      return std::bit_cast<uint64_t>(double(value));
    else
      return static_cast<size_t>(value);
  }
  template <class A> struct Held final : Base {
    explicit Held(A a) : attrs(std::move(a)) {}
    std::string print() const override {
      std::string out;
      auto one = [&](const auto& f) {
        if (!out.empty()) out += ' ';
        out += f.name, out += '=', out += text(f.value);
      };
      std::apply([&](const auto&... f) { (one(f), ...); }, attrs.fields());
      return out;
    }
    size_t hash() const override {
      size_t h = typeid(A).hash_code();
      std::apply([&](const auto&... f) { ((h = hash_combine(h, number(f.value))), ...); },
                 attrs.fields());
      return h;
    }
    bool equals(const Base& other) const override {
      auto* same = dynamic_cast<const Held*>(&other);
      if (!same) return false;
      return std::apply(
          [&](const auto&... a) {
            return std::apply([&](const auto&... b) { return ((a.value == b.value) && ...); },
                              same->attrs.fields());
          },
          attrs.fields());
    }
    A attrs;
  };
  std::shared_ptr<const Base> held_;
};

}  // namespace pal
