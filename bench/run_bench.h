// The main program of a benchmark that is no suite of Google Benchmark's.
#pragma once
#include <cstdio>
#include <ctime>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace pal {

// `pal bench` gives every suite the same arguments, those of Google Benchmark among them: they are
// left out, and of a list of benchmarks nothing is run.
inline int run_bench(const char* name, int (*run)(int, char**), int argc, char** argv) {
  std::vector<char*> mine;
  for (int i = 0; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with("--benchmark_list")) return 0;
    if (!argument.starts_with("--benchmark_")) mine.push_back(argv[i]);
  }
  try {
    return run(static_cast<int>(mine.size()), mine.data());
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return error.exit_code;
  }
}

// Seconds of the processor that this process has used.
inline double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

// Seconds, from which differences are taken: the processor's where one thread works, so that what
// else runs counts for less, else the clock's.
inline double seconds_now(int threads) {
  if (threads <= 1) return processor_seconds();
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

}  // namespace pal
