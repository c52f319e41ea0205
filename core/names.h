// The names of an enumeration's values, from one list that stands beside the enumeration:
//
//   enum class Tie { none, target, all };
//   constexpr auto names(Tie) { return std::array{"none", "target", "all"}; }
#pragma once
#include <array>
#include <cstddef>
#include <string>
#include <type_traits>

namespace pal {

template <class E>
concept Named = std::is_enum_v<E> && requires {
  names(E{});
};

template <Named E> std::string name_of(E value) { return names(value)[size_t(value)]; }

// False when there is no value of that name; `value` stays as it was.
template <Named E> bool read_name(const std::string& name, E& value) {
  const auto all = names(E{});
  for (size_t i = 0; i < all.size(); ++i) {
    if (name != all[i]) continue;
    value = E(i);
    return true;
  }
  return false;
}

}  // namespace pal
