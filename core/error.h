// Errors a user can act on. Every message says what is wrong, where, and what to do about it;
// the class says how the program must exit (ExitCode).
#pragma once
#include <stdexcept>
#include <string>

namespace pal {

enum ExitCode : int {
  kExitDone = 0,
  kExitFailed = 1,        // failed while running
  kExitUsage = 2,         // bad usage, configuration or data
  kExitBudget = 3,        // does not fit the memory budget
  kExitInterrupted = 130  // interrupted, state saved
};

struct Error : std::runtime_error {
  Error(ExitCode code, const std::string& what) : std::runtime_error(what), exit_code(code) {}
  ExitCode exit_code;
};

// Bad usage, configuration or data: the user's input must change.
struct UsageError : Error {
  explicit UsageError(const std::string& what) : Error(kExitUsage, what) {}
};

// The program was put together wrongly (shapes, operands, schedules) or failed while it ran.
struct ProgramError : Error {
  explicit ProgramError(const std::string& what) : Error(kExitFailed, what) {}
};

// The step does not fit the byte budget it was given.
struct BudgetError : Error {
  explicit BudgetError(const std::string& what) : Error(kExitBudget, what) {}
};

}  // namespace pal
