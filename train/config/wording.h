// Numbers and words as people read them, in messages, tables and pages.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/text.h"  // printed

namespace pal {

// 5120 -> 5,120
std::string thousands(int64_t number);
// So many digits after the point.
std::string fixed(double v, int digits);
// a, b, c
std::string comma_list(const std::vector<std::string>& words);
// What an error adds when a word is nearly a known one; nothing when `near` is empty.
std::string did_you_mean(const std::string& near);
// Without line breaks and other control characters, nor spaces at the end.
std::string one_line(std::string text);
// 12400 -> "12.4k", 0.00003 -> "3e-5", 3.25 -> "3.25": at most `digits` significant ones.
std::string short_number(double v, int digits = 4);
// &, <, >, ", ' as entities.
std::string escape_html(const std::string& text);

}  // namespace pal
