// Numbers as text, and texts made of parts.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace pal {

// As printf prints it.
[[gnu::format(printf, 1, 2)]] std::string printed(const char* format, ...);
std::string print_float(double value);  // shortest text that reads back to the same value
// "1.42 GB", "12.0 MB", "640 B": powers of 1000, as the papers count.
std::string format_bytes(int64_t bytes);

// The parts one after the other: texts, numbers, what has a to_string, and functions that give
// text.
template <class... Parts> std::string join_parts(const Parts&... parts) {
  std::string text;
  auto append = [&]<class T>(const T& part) {
    using std::to_string;
    if constexpr (std::is_invocable_v<T>) {
      text += part();
    } else if constexpr (std::is_convertible_v<T, std::string_view>) {
      text += part;
    } else {
      text += to_string(part);
    }
  };
  (append(parts), ...);
  return text;
}

}  // namespace pal
