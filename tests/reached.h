// Which code a test reaches, in a build with -DPAL_REACH=ON (scripts/mutate makes one): the
// compiler calls __sanitizer_cov_trace_pc at the head of every basic block of our libraries.
#pragma once
#include <cstdint>
#include <vector>

namespace pal::test {

// Forgets what was reached.
void begin_reaching();
// The places reached since, each once, as offsets into the program's file.
std::vector<uint64_t> reached_places();

}  // namespace pal::test
