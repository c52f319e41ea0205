// Logging through spdlog, the only file that includes it ([M] it costs 6 s a file).
#define FMT_HEADER_ONLY  // Debian's spdlog uses the system's fmt; this saves linking it
#include "train/run_files/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <thread>

#include "train/config/wording.h"

namespace pal {
namespace {

bool on_terminal() { return isatty(STDERR_FILENO) == 1; }

thread_local std::string log_prefix;
int log_rank = 0;  // said once, before there are threads
std::string prefix() {
  return (log_rank ? "[rank " + std::to_string(log_rank) + "] " : "") + log_prefix;
}

// One logger for the process. On a terminal it first wipes the line that Progress may have left.
spdlog::logger& logger() {
  static spdlog::logger instance = [] {
    spdlog::logger made("pal", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made.set_pattern(on_terminal() ? "\r\x1b[K%v" : "%v");
    made.flush_on(spdlog::level::trace);
    return made;
  }();
  return instance;
}

// 185 s -> 3:05, 4,000 s -> 1:06:40
std::string clock(double seconds) {
  auto s = static_cast<int64_t>(std::min(seconds, 3.6e8) + 0.5);
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

}  // namespace

void log_as_rank(int rank) { log_rank = rank; }

void log_info(const std::string& message) {
  if (log_rank == 0) logger().info("{}{}", log_prefix, one_line(message));
}
void log_warn(const std::string& message) {
  logger().warn("{}warning: {}", prefix(), one_line(message));
}
void log_error(const std::string& message) {
  logger().error("{}pal: {}", prefix(), one_line(message));
}

void log_end(const std::string& message) {
  if (log_rank > 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  log_error(message);
}

LogPrefix::LogPrefix(const std::string& words) { log_prefix = one_line(words) + " "; }
LogPrefix::~LogPrefix() { log_prefix.clear(); }

std::string progress_text(const ProgressState& state) {
  std::string text = fmt::format("step {}", state.step);
  if (state.total_steps > 0) text += fmt::format("/{}", state.total_steps);
  text += fmt::format("  epoch {:.2f}  loss {:.4f}", state.epoch, state.loss);
  if (state.tokens_per_s > 0)
    text += "  " + thousands(std::llround(state.tokens_per_s)) + " " + state.unit + "/s";
  if (state.seconds_left >= 0) text += "  eta " + clock(state.seconds_left);
  return text;
}

Progress::Progress() : Progress(on_terminal()) {}
Progress::Progress(bool terminal) : terminal_(terminal && log_prefix.empty()) {}

void Progress::update(const ProgressState& state, bool due) {
  if (terminal_) {
    std::fprintf(stderr, "\r%s\x1b[K", progress_text(state).c_str());
    std::fflush(stderr);
    open_ = true;
  } else if (due) {
    log_info(progress_text(state));
  }
}

void Progress::finish() {
  if (open_) std::fputc('\n', stderr);
  open_ = false;
}

}  // namespace pal
