// Blocks of a stream, cut at the ends of lines.
#include "data/line_reader.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "data/descriptor.h"
#include "data/text.h"

namespace pal {
namespace {

constexpr size_t kBlock = size_t{1} << 16;

}  // namespace

LineReader::LineReader(std::FILE* in, std::string name)
    : descriptor_(fileno(in)), name_(std::move(name)) {}

// Some more bytes; false at the end.
bool LineReader::fill() {
  bytes_.erase(0, at_);
  offset_ += std::exchange(at_, 0);
  // A line that is too long is one already; its rest need not be kept.
  if (bytes_.size() > kMostLineBytes + kByteOrderMark.size() + 1) {
    skipped_ += bytes_.size();
    offset_ += bytes_.size();
    bytes_.clear();
  }
  const size_t had = bytes_.size();
  bytes_.resize(had + kBlock);
  const int count =
      uninterrupted([&] { return int(::read(descriptor_, bytes_.data() + had, kBlock)); });
  bytes_.resize(had + size_t(count > 0 ? count : 0));
  if (count < 0) {
    throw Error(kExitFailed, name_ + ": cannot be read to its end: " + std::strerror(errno));
  }
  return count > 0;
}

LineReader::Line LineReader::take(size_t end) {
  ++number_;
  std::string_view line(bytes_.data() + at_, end - at_);
  size_t begin = offset_ + at_;
  if (begin == 0 && line.starts_with(kByteOrderMark)) {
    line.remove_prefix(kByteOrderMark.size());
    begin = kByteOrderMark.size();
  }
  if (line.ends_with('\r')) line.remove_suffix(1);
  const std::string defect = skipped_ > 0 ? too_long_line() : defect_of_line(line, begin);
  skipped_ = 0;
  if (defect.empty()) return {.text = std::string(line), .defect = {}};
  return {.text = {}, .defect = name_ + ": line " + std::to_string(number_) + ": " + defect};
}

std::optional<LineReader::Line> LineReader::next() {
  size_t looked = at_;
  while (!ended_) {
    const size_t newline = bytes_.find('\n', looked);
    if (newline != std::string::npos) {
      Line line = take(newline);
      at_ = newline + 1;
      return line;
    }
    looked = bytes_.size() - at_;
    const size_t skipped = skipped_;
    ended_ = !fill();
    if (skipped_ != skipped) looked = 0;
  }
  // The last line may lack its end; a mark alone is no line.
  const std::string_view rest(bytes_.data() + at_, bytes_.size() - at_);
  const bool mark_alone = offset_ + at_ == 0 && rest == kByteOrderMark;
  if ((rest.empty() && skipped_ == 0) || mark_alone) return {};
  Line line = take(bytes_.size());
  at_ = bytes_.size();
  return line;
}

}  // namespace pal
