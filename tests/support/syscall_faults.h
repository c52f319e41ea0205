// Runs a program and lets one of its system calls fail: the n-th that would change a file below a
// folder, or map one. By ptrace and a seccomp filter, so that calls of libraries and of every
// thread count too.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace pal::test {

enum class Fault {
  none,       // counts
  kill,       // SIGKILL in place of the call
  full,       // ENOSPC, from this call on
  broken,     // EIO, once
  read_only,  // EROFS, from this call on
  interrupt,  // EINTR, once
  part,       // once: writes half of the bytes
};

struct FaultAt {
  std::filesystem::path below;  // absolute, without links
  Fault fault = Fault::none;
  int64_t call = 0;  // from 0
};

struct TracedRun {
  int status = 0;                  // exit code, or -signal
  std::vector<std::string> calls;  // "write run/metrics.jsonl": those that count, until the end
};

// `arguments`: the program and what it is given; `out` and `err` take its output. Throws
// std::system_error where the machine allows no tracing.
TracedRun run_with_fault(const std::vector<std::string>& arguments,
                         const std::filesystem::path& folder, const std::filesystem::path& out,
                         const std::filesystem::path& err, const FaultAt& at);

// Whether this machine can do it (Linux on x86-64, and tracing is allowed).
bool can_trace_faults();

}  // namespace pal::test
