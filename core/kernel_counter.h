// What an accelerator's kernels do, counted without one: the emulated GPU (tests/emulation) runs
// the operators' own code and watches it. docs/decisions/counted-kernels.md says how, and why.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace pal {

// One launch: of a kernel, of a library's product, of a copy or a fill.
struct LaunchCount {
  enum class Kind : uint8_t { kernel, library, copy, fill };
  Kind kind = Kind::kernel;
  std::string where;                // "softmax.cu:256", the launch in the source; "cuBLASLt"
  int64_t blocks = 0, threads = 0;  // of a kernel; threads of a block
  // Bytes of the device's memory, in sectors of 32. A block moves each sector once, and again where
  // it comes back after it has touched more than its part of a cache; neighbouring blocks, which
  // run at once, share what they move. Of a library: its operands and results, once.
  double read = 0, written = 0;
  // Bytes of the sectors that warps ask for, whose threads make their accesses in step: more than
  // was moved where an instruction takes a part of each sector. Of the first 64 accesses of a
  // thread.
  double asked = 0;
  double accesses = 0;       // of threads, of any width
  double product_flops = 0;  // of tensor cores (mma.sync), and of a library
  bool operator==(const LaunchCount&) const = default;
};

class KernelCounter {
 public:
  virtual ~KernelCounter() = default;
  struct Bytes {
    const void* at;
    int64_t size;
  };
  // What `work` launches on the accelerator, in that order. Large grids run in part, and are
  // counted as if the rest were like it; libraries do not run. Of `operands` small ones are read
  // once a launch, whoever reads them.
  virtual std::vector<LaunchCount> count(const std::function<void()>& work,
                                         const std::vector<Bytes>& operands = {}) = 0;
  // To the accelerator's memory.
  virtual void write(void* to, const void* from, int64_t bytes) = 0;
};

// Defined where the emulated GPU is part of the program, else null. From then on that GPU has more
// memory than any card, of which it uses what is written.
[[gnu::weak]] std::unique_ptr<KernelCounter> make_kernel_counter();

}  // namespace pal
