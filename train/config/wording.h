// Numbers and words as people read them, in messages, tables and pages.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

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

}  // namespace pal
