// Text that a command prints or a page that it writes, against a file of what it was.
#pragma once
#include <string>

namespace pal {

// A failure of the running test where `text` is not that of tests/FILE, with the first line that
// differs. With PAL_WRITE_GOLDEN=1 in the environment the file is written instead: whoever does
// that looks at what has changed, and says why in the commit.
void expect_golden(const std::string& file, const std::string& text);

// Whether the running test was run in a process of its own, whose library takes this processor for
// one with SSE 4.1 alone: what scratch memory its products need, and so what plans are, depends on
// the processor. False in that process, where the test goes on.
bool was_run_apart();

}  // namespace pal
