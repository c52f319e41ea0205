// Numbers and words as people read them.
#include "train/config/wording.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace pal {

std::string thousands(int64_t number) {
  std::string text = std::to_string(number);
  const ptrdiff_t first = number < 0 ? 1 : 0;
  for (auto at = ptrdiff_t(text.size()) - 3; at > first; at -= 3) text.insert(size_t(at), 1, ',');
  return text;
}

std::string fixed(double v, int digits) { return printed("%.*f", digits, v); }

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

std::string short_number(double v, int digits) {
  const double size = std::abs(v);
  double scaled = v;
  const char* suffix = "";
  if (size >= 1e9)
    scaled = v / 1e9, suffix = "G";
  else if (size >= 1e6)
    scaled = v / 1e6, suffix = "M";
  else if (size >= 1e4)
    scaled = v / 1e3, suffix = "k";
  if (digits > 6 || (size > 0 && size < 1e-3)) scaled = v, suffix = "";
  std::string out = printed("%.*g", digits, scaled);
  const size_t e = out.find('e');  // 3e-04 -> 3e-4
  if (e != std::string::npos) out = out.substr(0, e + 1) + std::to_string(std::atoi(&out[e + 1]));
  return out + suffix;
}

std::string escape_html(const std::string& text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

}  // namespace pal
