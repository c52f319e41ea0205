// Messages for people, on standard error: standard output belongs to results. spdlog stays behind
// this header.
#pragma once
#include <cstdint>
#include <string>

namespace pal {

// One line each; line breaks inside are kept out. Warnings begin with "warning: ", errors with
// "pal: ". Thread-safe. On a terminal a message takes the place of the progress line.
void log_info(const std::string& message);
void log_warn(const std::string& message);
void log_error(const std::string& message);

// Where several processes share a run: from here on, of a rank other than 0, what log_info says is
// left out, and warnings and errors begin with "[rank 2] ".
void log_as_rank(int rank);
// The error that ends this process. Ranks other than 0 wait half a second: what all of them find
// wrong is said by rank 0, with which their launcher ends the others.
void log_end(const std::string& message);

// Where several runs share a process: while it lives, what its thread logs begins with `words` and
// a space.
class LogPrefix {
 public:
  explicit LogPrefix(const std::string& words);
  ~LogPrefix();
  LogPrefix(const LogPrefix&) = delete;
  LogPrefix& operator=(const LogPrefix&) = delete;
};

struct ProgressState {
  int64_t step = 0;
  int64_t total_steps = 0;  // 0: not known
  double epoch = 0;
  double loss = 0;
  double tokens_per_s = 0;      // 0: left out
  double seconds_left = -1;     // below 0: not known
  const char* unit = "tokens";  // what tokens are
};
// "step 120/4000  epoch 1.42  loss 3.2103  5,120 tokens/s  eta 3:05".
std::string progress_text(const ProgressState& state);

// The progress of a run: on a terminal one line that rewrites itself, elsewhere a line per update
// that is `due` (when a step row is written too). Called from one thread.
class Progress {
 public:
  // A terminal or not, as standard error is. Under a LogPrefix it counts as none: several runs
  // cannot rewrite one line.
  Progress();
  explicit Progress(bool terminal);
  ~Progress() { finish(); }
  void update(const ProgressState& state, bool due);
  void finish();  // leaves the last line standing

 private:
  bool terminal_;
  bool open_ = false;  // the terminal's cursor stands on our line
};

}  // namespace pal
