// Levenshtein distances.
#include "train/speech/error_rate.h"

#include <algorithm>
#include <string>
#include <vector>

#include "data/utf8.h"

namespace pal {
namespace {

template <class T>
ErrorRate distance(const std::vector<T>& hypothesis, const std::vector<T>& reference) {
  std::vector<int64_t> row(reference.size() + 1);
  for (size_t j = 0; j < row.size(); ++j) row[j] = static_cast<int64_t>(j);
  for (size_t i = 1; i <= hypothesis.size(); ++i) {
    int64_t diagonal = row[0];
    row[0] = static_cast<int64_t>(i);
    for (size_t j = 1; j < row.size(); ++j) {
      const int64_t substituted = diagonal + (hypothesis[i - 1] != reference[j - 1]);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return {row.back(), static_cast<int64_t>(reference.size())};
}

std::vector<int32_t> characters(std::string_view text) {
  std::vector<int32_t> out;
  for (const std::string_view word : split_words(text)) {
    if (!out.empty()) out.push_back(' ');
    for (size_t pos = 0; pos < word.size();) out.push_back(decode_utf8(word, pos));
  }
  return out;
}

}  // namespace

double ErrorRate::percent() const {
  if (units == 0) return errors == 0 ? 0 : 100;
  return 100 * static_cast<double>(errors) / static_cast<double>(units);
}

ErrorRate& ErrorRate::operator+=(const ErrorRate& other) {
  errors += other.errors;
  units += other.units;
  return *this;
}

ErrorRate word_errors(std::string_view hypothesis, std::string_view reference) {
  return distance(split_words(hypothesis), split_words(reference));
}

ErrorRate character_errors(std::string_view hypothesis, std::string_view reference) {
  return distance(characters(hypothesis), characters(reference));
}

}  // namespace pal
