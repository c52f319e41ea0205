// UTF-8 by hand: a dozen lines a function, and no library that must be installed first.
#include "data/utf8.h"

namespace pal {

int32_t decode_utf8(std::string_view text, size_t& pos) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(pos);
  if (lead < 0x80) return static_cast<int32_t>(text[pos++]);
  const int extra = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
  if (lead < 0xC2 || lead > 0xF4 || text.size() - pos <= static_cast<size_t>(extra)) {
    ++pos;
    return -1;
  }
  int32_t code = static_cast<int32_t>(lead & (0x3Fu >> extra));
  for (int i = 1; i <= extra; ++i) {
    const unsigned next = byte(pos + static_cast<size_t>(i));
    if ((next & 0xC0) != 0x80) {
      ++pos;
      return -1;
    }
    code = (code << 6) | static_cast<int32_t>(next & 0x3F);
  }
  constexpr int32_t kSmallest[4] = {0, 0x80, 0x800, 0x10000};
  if (code < kSmallest[extra] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
    ++pos;
    return -1;
  }
  pos += static_cast<size_t>(extra) + 1;
  return code;
}

size_t find_invalid_utf8(std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    const size_t start = pos;
    if (decode_utf8(text, pos) < 0) return start;
  }
  return std::string_view::npos;
}

bool is_space(int32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::vector<std::string_view> split_words(std::string_view line) {
  std::vector<std::string_view> words;
  size_t begin = 0;
  for (size_t pos = 0; pos < line.size();) {
    const size_t start = pos;
    if (is_space(decode_utf8(line, pos))) {
      if (start > begin) words.push_back(line.substr(begin, start - begin));
      begin = pos;
    }
  }
  if (line.size() > begin) words.push_back(line.substr(begin));
  return words;
}

}  // namespace pal
