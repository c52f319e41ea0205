// Parallel text: two files, one sentence a line, line n of one the translation of line n of the
// other. Every defect is reported with file, line and the configuration key that named the file.
#pragma once
#include <string>
#include <vector>

namespace pal {

// Where a corpus file is, and how to tell the user about it.
struct CorpusFile {
  std::string path;
  std::string key;        // the configuration key that gave the path, e.g. data.train_source
  std::string hint = {};  // what to download when it is missing, and from where; may be empty
};

struct ParallelText {
  std::vector<std::string> source, target;  // equally many lines, in file order
};

// All lines of a text file, without line ends. CR LF and a leading byte order mark are tolerated;
// the last line may lack its line end. UsageError: missing or unreadable, empty, invalid UTF-8.
std::vector<std::string> read_lines(const CorpusFile& file);

// Both sides of a corpus. UsageError as read_lines, or when the line counts differ.
ParallelText read_parallel_text(const CorpusFile& source, const CorpusFile& target);

}  // namespace pal
