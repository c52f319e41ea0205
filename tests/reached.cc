// A mark for every byte of code, that holds the number of the test by which it was last reached.
#include "tests/reached.h"

#include <link.h>

#include <algorithm>
#include <atomic>
#include <memory>

namespace pal::test {
namespace {

struct Code {
  uintptr_t base = 0;   // where the program lies in memory
  uintptr_t bytes = 0;  // from there to the end of its code
};

// The first entry is the program itself.
int look(dl_phdr_info* info, size_t, void* to) {
  Code& code = *static_cast<Code*>(to);
  code.base = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    code.bytes = std::max<uintptr_t>(code.bytes, part.p_vaddr + part.p_memsz);
  }
  return 1;
}

using Mark = std::atomic<uint16_t>;
Code code;
std::unique_ptr<Mark[]> marks;  // null: nothing is asked for
std::atomic<uint16_t> now = 0;

}  // namespace

void begin_reaching() {
  if (!marks) {
    dl_iterate_phdr(look, &code);
    marks = std::make_unique<Mark[]>(code.bytes);
  }
  if (++now == 0) {  // the numbers begin anew
    for (uintptr_t i = 0; i < code.bytes; ++i) marks[i] = 0;
    now = 1;
  }
}

std::vector<uint64_t> reached_places() {
  std::vector<uint64_t> out;
  for (uintptr_t i = 0; i < code.bytes; ++i) {
    if (marks[i] == now) out.push_back(i);
  }
  return out;
}

}  // namespace pal::test

extern "C" void __sanitizer_cov_trace_pc() {
  using namespace pal::test;
  if (!marks) return;
  const uintptr_t at = reinterpret_cast<uintptr_t>(__builtin_return_address(0)) - 1 - code.base;
  if (at < code.bytes) marks[at].store(now, std::memory_order_relaxed);
}
