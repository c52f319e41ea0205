// Reading and writing of placement problems.
#include "train/commands/place_csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iterator>
#include <string_view>
#include <unordered_map>

#include "core/error.h"

namespace pal {
namespace {

constexpr std::array<const char*, 4> kColumns{"id", "lower", "upper", "size"};
// What the first edition of minimalloc's problems calls them.
constexpr std::array<const char*, 4> kOldColumns{"buffer", "start", "end", "size"};

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> fields;
  for (size_t begin = 0;;) {
    const size_t comma = line.find(',', begin);
    fields.push_back(trim(line.substr(begin, comma - begin)));
    if (comma == std::string_view::npos) return fields;
    begin = comma + 1;
  }
}

// A field as an error message can show it: short, and free of control characters.
std::string shown(std::string_view field) {
  std::string out(field.substr(0, 40));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < ' ') c = '?';
  }
  return "'" + out + (field.size() > 40 ? "...'" : "'");
}

struct RowReader {
  const std::string& name;
  int64_t line = 0;

  [[noreturn]] void fail(const std::string& what) const {
    throw UsageError(name + ":" + std::to_string(line) + ": " + what);
  }

  int64_t number(std::string_view field, const char* column) const {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error == std::errc::result_out_of_range)
      fail(std::string(column) + " " + shown(field) + " does not fit in 64 bits");
    if (error != std::errc() || end != field.data() + field.size())
      fail(std::string(column) + " " + shown(field) + " is not a whole number");
    return value;
  }

  // Where each of kColumns stands in the header.
  std::array<size_t, 4> columns(std::string_view header) const {
    auto fields = split(header);
    if (std::equal(fields.begin(), fields.end(), kOldColumns.begin(), kOldColumns.end()))
      return {0, 1, 2, 3};
    std::array<size_t, 4> at;
    for (size_t i = 0; i < kColumns.size(); ++i) {
      at[i] = size_t(std::find(fields.begin(), fields.end(), kColumns[i]) - fields.begin());
      if (at[i] == fields.size())
        fail(std::string("the header has no column ") + kColumns[i] +
             "; it must name id,lower,upper,size");
      if (std::count(fields.begin(), fields.end(), kColumns[i]) > 1)
        fail(std::string("the header names ") + kColumns[i] + " twice");
    }
    if (std::count(fields.begin(), fields.end(), "offset"))
      fail("there is an offset column already; remove it");
    return at;
  }
};

}  // namespace

PlaceTable parse_place_csv(const std::string& text, const std::string& name) {
  PlaceTable table;
  RowReader reader{name};
  std::array<size_t, 4> at{};
  size_t width = 0;
  int64_t total = 0;
  std::unordered_map<std::string_view, int64_t> line_of;  // by id; views into text
  std::string_view rest(text);
  if (rest.substr(0, 3) == "\xef\xbb\xbf") rest.remove_prefix(3);  // a byte order mark
  while (!rest.empty()) {
    ++reader.line;
    const size_t end = rest.find('\n');
    const std::string_view line = trim(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.empty()) continue;
    if (width == 0) {
      at = reader.columns(line);
      width = split(line).size();
      table.header = line;
      continue;
    }
    const auto fields = split(line);
    if (fields.size() != width)
      reader.fail(std::to_string(fields.size()) + " fields where the header has " +
                  std::to_string(width));
    const std::string_view id = fields[at[0]];
    if (id.empty()) reader.fail("the id is empty");
    const auto [before, is_new] = line_of.try_emplace(id, reader.line);
    if (!is_new)
      reader.fail("id " + shown(id) + " was given in line " + std::to_string(before->second));
    Buffer b{reader.number(fields[at[1]], "lower"), reader.number(fields[at[2]], "upper"),
             reader.number(fields[at[3]], "size")};
    if (b.upper < b.lower)
      reader.fail("upper " + std::to_string(b.upper) + " is before lower " +
                  std::to_string(b.lower));
    if (b.size < 0) reader.fail("size " + std::to_string(b.size) + " is negative");
    if (b.size > INT64_MAX / 4 - total) reader.fail("the sizes so far add up to 2^61 or more");
    total += b.size;
    table.buffers.push_back(b);
    table.lines.emplace_back(line);
  }
  if (width == 0)
    throw UsageError(name + ": the file is empty; it must begin with id,lower,upper,size");
  return table;
}

PlaceTable read_place_csv(const std::filesystem::path& file) {
  if (std::filesystem::is_directory(file))
    throw UsageError(file.string() + ": is a folder; give a file of id,lower,upper,size");
  std::ifstream in(file, std::ios::binary);
  if (!in)
    throw UsageError(file.string() + ": cannot be opened; give a file of id,lower,upper,size");
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) throw UsageError(file.string() + ": cannot be read");
  return parse_place_csv(text, file.string());
}

std::string place_csv(const PlaceTable& table, std::span<const int64_t> offset) {
  std::string out = table.header + ",offset\n";
  for (size_t i = 0; i < table.lines.size(); ++i)
    out += table.lines[i] + "," + std::to_string(offset[i]) + "\n";
  return out;
}

}  // namespace pal
