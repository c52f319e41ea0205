// Writing and reading positions.
#include "train/run_files/position.h"

#include <charconv>

#include "core/error.h"
#include "train/config/wording.h"

namespace pal {
namespace {

// Takes `word` and a space from the front of the text.
bool take_word(std::string_view& text, const std::string& word) {
  if (!text.starts_with(word + " ")) return false;
  text.remove_prefix(word.size() + 1);
  return true;
}

template <class T> bool take_number(std::string_view& text, int base, T& number) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, base);
  text.remove_prefix(static_cast<size_t>(rest - text.data()));
  return error == std::errc();
}

}  // namespace

std::string position_text(const std::vector<std::pair<std::string, int64_t>>& numbers,
                          uint64_t fingerprint) {
  std::string text;
  for (const auto& [name, number] : numbers) text += name + " " + std::to_string(number) + " ";
  return text + printed("data %016llx", static_cast<unsigned long long>(fingerprint));
}

std::vector<int64_t> read_position(const std::string& text, const std::vector<std::string>& names,
                                   uint64_t fingerprint, const std::string& task,
                                   const std::string& data) {
  std::vector<int64_t> numbers;
  std::string_view rest = text;
  std::string expected;
  bool good = true;
  for (const std::string& name : names) {
    int64_t& number = numbers.emplace_back(-1);
    good = good && take_word(rest, name) && take_number(rest, 10, number) && number >= 0 &&
           rest.starts_with(' ');
    if (good) rest.remove_prefix(1);
    expected += name + " N ";
  }
  uint64_t saved = 0;
  good = good && take_word(rest, "data") && take_number(rest, 16, saved) && rest.empty();
  if (!good) {
    throw UsageError(task + " cannot resume from the position '" + one_line(text) +
                     "': expected '" + expected + "data HEX'; use the checkpoint of this task");
  }
  if (saved != fingerprint) {
    throw UsageError(task + " cannot resume: " + data +
                     " are not what they were when the checkpoint was saved; restore the files, or "
                     "start a new run");
  }
  return numbers;
}

}  // namespace pal
