// put_row and moving_averages: the row's number lies on the device.
#include "core/scalars.h"
#include "ops/kernels/cuda_elements.h"
#include "ops/kernels/operands.h"
#include "ops/tensors/state_rows.h"

namespace pal {
namespace {

__global__ void row_kernel(uint8_t* to, const uint8_t* row, int64_t bytes, int64_t rows,
                           const int32_t* number) {
  const int64_t i = thread_number();
  if (i < bytes) to[*number % rows * bytes + i] = row[i];
}
void run_put_row(const KernelArgs& a) {
  const int64_t bytes = a.in_spec[1].bytes();
  if (a.out[0] != a.in[0]) copy_async(a, a.out[0], a.in[0], a.out_spec[0].bytes());
  const bool alone = a.in_spec[2].numel() == 1;
  const auto* number = alone ? a.input<int32_t>(2) : &a.input<StepScalars>(2)->micro_batch;
  launch(row_kernel, Grid{blocks_of(bytes, kThreads)}, a, a.output<uint8_t>(0), a.input<uint8_t>(1),
         bytes, a.in_spec[0].shape[0], number);
}

__global__ void averages_kernel(float* out, const float* old, const float* rows, int64_t count,
                                int64_t size, const float* gate, float momentum) {
  const int64_t i = thread_number();
  if (i >= size) return;
  float x = old[i];
  const bool applies = !gate || gate[1] != 0;
  for (int64_t r = 0; applies && r < count; ++r) x = x + momentum * (rows[r * size + i] - x);
  out[i] = x;
}
void run_averages(const KernelArgs& a) {
  const int64_t size = a.in_spec[0].numel();
  launch(averages_kernel, Grid{blocks_of(size, kThreads)}, a, a.output(0), a.input(0), a.input(1),
         a.in_spec[1].shape[0], size, input_if_present<float>(a, 2),
         a.attrs.as<MovingAverageAttrs>().momentum);
}

}  // namespace

const Backend put_row_cuda{.run = run_put_row};
const Backend moving_averages_cuda{.run = run_averages};

}  // namespace pal
