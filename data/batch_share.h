// Which of the batches of a run are this process's: of every `of` in a row, `count` from `first`
// on.
#pragma once
#include <cstdint>

namespace pal {

struct BatchShare {
  int64_t first = 0, count = 1, of = 1;

  // The number, among all batches, of number n of its own.
  int64_t number(int64_t n) const { return n / count * of + first + n % count; }
  // Batches of all that are over once n of its own are taken: behind its last of a row also the
  // others'.
  int64_t done(int64_t n) const { return n % count == 0 ? n / count * of : number(n - 1) + 1; }
};

}  // namespace pal
