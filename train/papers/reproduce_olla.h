// What OLLA's figures compare, for one network and batch size.
#pragma once
#include <cstdint>

#include "core/program.h"

namespace pal {

struct OllaComparison {
  int64_t nodes = 0;             // of the recorded step
  int64_t in_program_order = 0;  // most bytes alive, no in-place
  int64_t ordered = 0;           // the same in our order
  int64_t reserved = 0;          // by the caching allocator, in program order
  double its_fragmentation = 0;
  int64_t planned = 0, planned_inplace = 0;
  double our_fragmentation = 0;
  double seconds = 0;  // of everything that compile() does, kernels included
};
OllaComparison olla_compare(const Program& recorded);

}  // namespace pal
