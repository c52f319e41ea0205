// An operator's attributes: one plain struct per operator, boxed without its type in a node.
//
//   struct MatmulAttrs {
//     bool ta = false, tb = false;
//     auto fields() const { return std::tuple{field("ta", ta), field("tb", tb)}; }
//   };
//
// fields() gives printing, hashing and equality; values may be bool, integers, floats, DType,
// Shape, lists of Shape.
#pragma once
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <vector>

#include "core/spec.h"
#include "core/text.h"

namespace pal {

template <class T> struct Field {
  const char* name;
  T value;
  bool printed = true;
  bool operator==(const Field& other) const { return value == other.value; }
};
template <class T> Field<T> field(const char* name, T value) { return {name, value}; }
// One that most nodes do without: printed where it is set.
template <class T> Field<T> rare_field(const char* name, T value) {
  return {name, value, value != T{}};
}

struct NoAttrs {
  auto fields() const { return std::tuple<>{}; }
};

class Attrs {
 public:
  Attrs() : Attrs(NoAttrs{}) {}
  template <class A>
  requires(!std::is_same_v<A, Attrs>) Attrs(A attrs)
      : boxed_(std::make_shared<Boxed<A>>(std::move(attrs))) {}  // NOLINT: implicit

  // The struct inside. Throws std::bad_cast when the operator's struct is another one.
  template <class A> const A& as() const { return dynamic_cast<const Boxed<A>&>(*boxed_).attrs; }
  std::string print() const { return boxed_->print(); }  // "ta=true tb=false"
  size_t hash() const { return boxed_->hash(); }
  bool operator==(const Attrs& other) const {
    return boxed_ == other.boxed_ || boxed_->equals(*other.boxed_);
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
    else if constexpr (std::is_same_v<T, std::vector<Shape>>) {
      std::string out;
      for (const Shape& shape : value) out += to_string(shape) += ' ';
      return out;
    } else
      return std::to_string(static_cast<int64_t>(value));
  }
  template <class T> static size_t number(const T& value) {
    if constexpr (std::is_same_v<T, Shape>)
      return hash_of(TensorSpec{value});
    else if constexpr (std::is_floating_point_v<T>)
      return std::bit_cast<uint64_t>(double(value));
    else if constexpr (std::is_same_v<T, std::vector<Shape>>) {
      size_t h = value.size();
      for (const Shape& shape : value) h = hash_combine(h, number(shape));
      return h;
    } else
      return static_cast<size_t>(value);
  }
  template <class A> struct Boxed final : Base {
    explicit Boxed(A a) : attrs(std::move(a)) {}
    std::string print() const override {
      std::string out;
      auto one = [&](const auto& f) {
        if (!f.printed) return;
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
      auto* same = dynamic_cast<const Boxed*>(&other);
      return same && attrs.fields() == same->attrs.fields();
    }
    A attrs;
  };
  std::shared_ptr<const Base> boxed_;
};

}  // namespace pal
