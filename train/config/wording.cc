// Numbers and words as people read them.
#include "train/config/wording.h"

#include <cstddef>
#include <cstdio>

namespace pal {

std::string thousands(int64_t number) {
  std::string text = std::to_string(number);
  const ptrdiff_t first = number < 0 ? 1 : 0;
  for (auto at = ptrdiff_t(text.size()) - 3; at > first; at -= 3) text.insert(size_t(at), 1, ',');
  return text;
}

std::string fixed(double v, int digits) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*f", digits, v);
  return text;
}

std::string comma_list(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string did_you_mean(const std::string& near) {
  return near.empty() ? "" : "; did you mean " + near + "?";
}

std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

}  // namespace pal
