// Lines of a stream, one at a time: a pipe may bring as many as it likes.
#pragma once
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace pal {

class LineReader {
 public:
  // `in` is read by its descriptor, a block at a time, and as soon as there is something: a line
  // that is typed is there when it ends.
  explicit LineReader(std::FILE* in, std::string name);

  struct Line {
    std::string text;    // without its end; empty where the line will not do
    std::string defect;  // "standard input: line 7: invalid UTF-8, .."; empty: none
  };
  // None behind the last line. The rules are those of split_lines (data/text.h), but that a line
  // which will not do ends nothing. Error where the stream cannot be read.
  std::optional<Line> next();
  const std::string& name() const { return name_; }

 private:
  bool fill();
  Line take(size_t end);

  int descriptor_;
  std::string name_;
  std::string bytes_;  // read and not yet taken, from at_ on
  size_t at_ = 0;
  size_t offset_ = 0;   // of bytes_ in the stream
  size_t skipped_ = 0;  // bytes of a line that is too long, and was let go
  int64_t number_ = 0;  // of the last line
  bool ended_ = false;
};

}  // namespace pal
