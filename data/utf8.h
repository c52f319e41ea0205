// UTF-8: decoding, validation, and the white space that separates words.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace pal {

// The code point that starts at text[pos], and moves pos past it. Overlong forms, surrogates and
// values above U+10FFFF are invalid (RFC 3629): then the result is -1 and pos moves one byte.
int32_t decode_utf8(std::string_view text, size_t& pos);

// Offset of the first byte that is not valid UTF-8, or npos.
size_t find_invalid_utf8(std::string_view text);

// White space as Python's str.split() has it: ASCII, U+001C..1F, NEL, NBSP, U+2000..200A, U+3000...
bool is_space(int32_t code_point);

// The words of a line, split on white space; views into `line`.
std::vector<std::string_view> split_words(std::string_view line);

}  // namespace pal
