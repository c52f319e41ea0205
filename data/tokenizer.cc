// The simple tokenizer and its reverse. Marks are listed; every other character that is not white
// space is part of a word, so that letters of any script stay whole.
#include "data/tokenizer.h"

#include <algorithm>
#include <cstdint>

#include "core/error.h"
#include "data/utf8.h"

namespace pal {
namespace {

struct Char {
  int32_t code;
  size_t begin, end;  // bytes in the line
};

bool is_digit(int32_t c) { return c >= '0' && c <= '9'; }
bool is_ascii_letter(int32_t c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; }

bool within(int32_t c, int32_t low, int32_t high) { return c >= low && c <= high; }

// Punctuation and symbols: ASCII, Latin-1, general punctuation, currency, arrows to dingbats,
// and the marks of East Asian and full-width text.
bool is_mark(int32_t c) {
  if (c < 0x80) return c > ' ' && c != 0x7F && !is_digit(c) && !is_ascii_letter(c);
  if (c < 0x100) {  // ª ² ³ µ ¹ º ¼ ½ ¾ belong to words
    return within(c, 0xA1, 0xBF) ? c != 0xAA && c != 0xAD && !within(c, 0xB2, 0xB3) && c != 0xB5 &&
                                       !within(c, 0xB9, 0xBA) && !within(c, 0xBC, 0xBE)
                                 : c == 0xD7 || c == 0xF7;
  }
  return within(c, 0x2010, 0x2027) || within(c, 0x2030, 0x205E) || within(c, 0x20A0, 0x20CF) ||
         within(c, 0x2190, 0x2BFF) || within(c, 0x3001, 0x3003) || within(c, 0x3008, 0x3011) ||
         within(c, 0x3014, 0x301F) || within(c, 0xFF01, 0xFF0F) || within(c, 0xFF1A, 0xFF20) ||
         within(c, 0xFF3B, 0xFF40) || within(c, 0xFF5B, 0xFF65);
}

bool is_word(int32_t c) { return !is_space(c) && !is_mark(c); }
bool is_letter(int32_t c) { return is_word(c) && !is_digit(c); }
bool is_apostrophe(int32_t c) { return c == '\'' || c == 0x2019; }

// Whether a mark between these two word characters belongs to the word.
bool joins(int32_t left, int32_t mark, int32_t right) {
  const bool digits = is_digit(left) && is_digit(right);
  switch (mark) {
    case ',':
    case ':': return digits;
    case '.': return digits || (is_letter(left) && is_letter(right));
    case '\'':
    case 0x2019: return is_letter(left) && is_letter(right);
    case '-':
    case 0x2010:
    case 0x2011:
    case '_':
    case '/':
    case '@':
    case '&':
    case '+': return true;
    default: return false;
  }
}

// Where the English clitic at the end of a word begins, or npos. `word` may be all of it.
size_t find_clitic(std::string_view word) {
  size_t mark = word.rfind('\''), letters = mark + 1;
  if (mark == std::string_view::npos) {
    mark = word.rfind("\u2019");
    letters = mark + 3;
  }
  if (mark == std::string_view::npos) return mark;
  std::string tail(word.substr(letters));
  for (char& c : tail) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  constexpr std::string_view kClitics[] = {"s", "t", "re", "ve", "ll", "d", "m"};
  const auto found = std::find(std::begin(kClitics), std::end(kClitics), tail);
  return found != std::end(kClitics) ? mark : std::string_view::npos;
}

std::vector<Char> decode_line(std::string_view line) {
  std::vector<Char> chars;
  chars.reserve(line.size());
  for (size_t pos = 0; pos < line.size();) {
    const size_t begin = pos;
    const int32_t code = decode_utf8(line, pos);
    chars.push_back({code, begin, pos});
  }
  return chars;
}

std::vector<std::string> tokenize_simple(std::string_view line) {
  const std::vector<Char> chars = decode_line(line);
  const auto code = [&](size_t i) { return i < chars.size() ? chars[i].code : ' '; };
  std::vector<std::string> words;
  for (size_t i = 0; i < chars.size();) {
    const int32_t first = code(i);
    if (is_space(first)) {
      ++i;
      continue;
    }
    size_t last = i;
    const bool after_space = i == 0 || is_space(code(i - 1));
    const bool sign = (first == '-' || first == '+') && after_space && is_digit(code(i + 1));
    if (is_mark(first) && !sign) {
      while (code(last + 1) == first) ++last;  // a run of one mark: ... -- !!
      words.emplace_back(line.substr(chars[i].begin, chars[last].end - chars[i].begin));
    } else {
      for (;;) {
        const int32_t next = code(last + 1);
        if (is_word(next)) {
          ++last;
        } else if (is_word(code(last + 2)) && joins(code(last), next, code(last + 2))) {
          last += 2;
        } else {
          break;
        }
      }
      const std::string_view word = line.substr(chars[i].begin, chars[last].end - chars[i].begin);
      const size_t clitic = find_clitic(word);
      words.emplace_back(word.substr(0, clitic));
      if (clitic != std::string_view::npos) words.emplace_back(word.substr(clitic));
    }
    i = last + 1;
  }
  return words;
}

enum class Side { none, closing, opening };  // which neighbour a mark leans on

// Pairs straight quotes, and German quotes, along one line.
struct QuoteState {
  bool straight = false, single = false, low = false;

  Side side_of(std::string_view word) {
    size_t pos = 0;
    const int32_t mark = decode_utf8(word, pos);
    if (!is_mark(mark)) return Side::none;
    if (is_apostrophe(mark) && word.size() > pos) {
      return find_clitic(word) == 0 ? Side::closing : Side::none;
    }
    const auto toggle = [](bool& open) {
      open = !open;
      return open ? Side::opening : Side::closing;
    };
    switch (mark) {
      case '"': return toggle(straight);
      case '\'': return toggle(single);
      case 0x201E: low = true; return Side::opening;  // „
      case 0x201C: {                                  // “ closes „ and opens otherwise
        const Side side = low ? Side::closing : Side::opening;
        low = false;
        return side;
      }
      case '.':
      case ',':
      case '!':
      case '?':
      case ';':
      case ':':
      case '%':
      case ')':
      case ']':
      case '}':
      case 0x201D:
      case 0x2019:
      case 0x203A:
      case 0xBB:
      case 0x2026:
      case 0xB0:
      case 0x3001:
      case 0x3002:
      case 0xFF01:
      case 0xFF0C:
      case 0xFF1A:
      case 0xFF1B:
      case 0xFF1F: return Side::closing;
      case '(':
      case '[':
      case '{':
      case 0x2018:
      case 0x2039:
      case 0xAB:
      case 0xBF:
      case 0xA1:
      case '$':
      case 0x20AC:
      case 0xA3:
      case 0xA5:
      case '#':
      case 0x201A: return Side::opening;
      default: return Side::none;
    }
  }
};

}  // namespace

Tokenizer tokenizer_named(std::string_view name) {
  if (name == "whitespace") return Tokenizer::whitespace;
  if (name == "simple") return Tokenizer::simple;
  throw UsageError("[tokenizer] unknown tokenizer '" + std::string(name) +
                   "'; choose whitespace or simple");
}

std::vector<std::string> tokenize(std::string_view line, Tokenizer tokenizer) {
  if (tokenizer == Tokenizer::simple) return tokenize_simple(line);
  const std::vector<std::string_view> words = split_words(line);
  return {words.begin(), words.end()};
}

std::string detokenize(std::span<const std::string> words, Tokenizer tokenizer) {
  std::string line;
  QuoteState quotes;
  bool glue = true;  // no space before the next word
  for (const std::string& word : words) {
    const Side side =
        tokenizer == Tokenizer::simple && !word.empty() ? quotes.side_of(word) : Side::none;
    if (!glue && side != Side::closing) line += ' ';
    line += word;
    glue = side == Side::opening;
  }
  return line;
}

}  // namespace pal
