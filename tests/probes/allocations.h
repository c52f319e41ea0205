// Counts calls of operator new while a piece of code runs, and tells ours from a library's by the
// shared object that called: frames of the C++ and C libraries are walked through.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

namespace pal::test {

struct Allocations {
  int64_t ours = 0;        // asked for by code of this executable, in which all of pal is linked
  int64_t theirs = 0;      // by oneDNN, the OpenMP runtime, ..
  std::string first_ours;  // symbol, or address in the executable, of the first caller of ours
  std::string first_theirs;
};

// Runs `work` on this thread and counts what every thread allocates meanwhile.
Allocations count_allocations(const std::function<void()>& work);

// False in builds where a sanitizer owns the allocator: there nothing is counted.
bool can_count_allocations();

}  // namespace pal::test
