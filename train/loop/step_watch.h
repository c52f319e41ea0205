// Whether the steps whose results nobody reads went well. On an accelerator reading waits, so their
// losses, gates and gradient norms are copied into pinned memory as they run, and looked at when
// something is read. (The norm, as a library's kernel may hide a NaN from the loss: docs/cuda.md.)
#pragma once
#include <optional>
#include <vector>

#include "memory/run/program_set.h"

namespace pal {

class StepWatch {
 public:
  // Room for so many runs between two looks. Without an accelerator there is nothing to keep.
  StepWatch(std::shared_ptr<Accelerator> accelerator, int64_t runs);
  ~StepWatch();
  StepWatch(const StepWatch&) = delete;
  StepWatch& operator=(const StepWatch&) = delete;

  // After program.run(): keeps its loss, and with `last` (of the step's micro-batches) gate, norm.
  void keep(Executable& program, int64_t step, bool last);
  // The first step since the last call whose loss was not finite, whose gate was shut, or whose
  // gradients had a NaN. Waits, if anything was kept.
  std::optional<int64_t> first_bad();

 private:
  struct Kept {
    float loss, gate[4], norm[4];
  };
  std::shared_ptr<Accelerator> accelerator_;
  Kept* kept_ = nullptr;  // pinned
  const int64_t room_;
  std::vector<int64_t> steps_;  // of each that is kept
};

}  // namespace pal
