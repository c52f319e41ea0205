// Parallel text: two files, one sentence a line, line n of one the translation of line n of the
// other. Every defect is reported with file, line and the configuration key that named the file.
#pragma once
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace pal {

// Where a corpus file is, and how to tell the user about it.
struct CorpusFile {
  std::string path;
  std::string key;        // the configuration key that gave the path, e.g. data.train_source
  std::string hint = {};  // what to download when it is missing, and from where; may be empty
};
std::string to_string(const CorpusFile& file);  // corpus/train.en (data.train_source)

struct ParallelText {
  std::vector<std::string> source, target;  // equally many lines, in file order
};

// A longer line is no sentence: line ends are missing, or the file is no text.
inline constexpr size_t kMostLineBytes = size_t{4} << 20;
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // may begin a text

// The rest of an open file, or no more of it than shows that a line exceeds kMostLineBytes.
// std::ferror tells whether it could be read.
std::string read_bytes(std::FILE* in);

// What is wrong with a line that begins `begin` bytes into its file: invalid UTF-8, a NUL byte,
// more than kMostLineBytes. Empty: nothing.
std::string defect_of_line(std::string_view line, size_t begin);
std::string too_long_line();  // of more than kMostLineBytes

// The lines of a text, without line ends; none where there is no byte. CR LF and a leading byte
// order mark are tolerated; the last line may lack its line end. UsageError, beginning with `name`:
// a line that is invalid UTF-8, holds a NUL byte, or exceeds kMostLineBytes.
std::vector<std::string> split_lines(std::string_view bytes, const std::string& name);

// All lines of a text file. UsageError: missing or unreadable, empty, and as split_lines.
std::vector<std::string> read_lines(const CorpusFile& file);

// Both sides of a corpus. UsageError as read_lines, or when the line counts differ.
ParallelText read_parallel_text(const CorpusFile& source, const CorpusFile& target);

}  // namespace pal
