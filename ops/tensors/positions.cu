// add_positions: a thread has a column of a position, and adds the same number to all of the batch.
// The angle is computed in f64, as on the CPU; its sine and cosine are those of the library.
#include "ops/kernels/cuda_rows.h"
#include "ops/kernels/operands.h"
#include "ops/tensors/positions.h"

namespace pal {
namespace {

__global__ void add_positions_kernel(Stored y, Stored x, const int32_t* first, float factor,
                                     int64_t steps, int64_t batch, int64_t width) {
  const int64_t i = thread_number();  // t * width + column
  if (i >= steps * width) return;
  const int64_t t = i / width, j = i - t * width;
  const double frequency = pow(10000.0, -2.0 * double(j / 2) / double(width));
  const double angle = double(t + (first ? *first : 0)) * frequency;
  const float position = float(j % 2 == 0 ? sin(angle) : cos(angle));
#pragma unroll 4
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t at = (t * batch + b) * width + j;
    store1(y, at, factor * load1(x, at) + position);
  }
}

void run_positions(const KernelArgs& a) {
  const Shape& shape = a.in_spec[0].shape;
  launch(add_positions_kernel, {blocks_of(shape[0] * shape[2], kColumnThreads)}, kColumnThreads, a,
         stored(a.out[0], a.out_spec[0]), stored(a.in[0], a.in_spec[0]),
         input_if_present<int32_t>(a, 1), a.attrs.as<AddPositionsAttrs>().factor, shape[0],
         shape[1], shape[2]);
}

}  // namespace

const Backend add_positions_cuda{.run = run_positions};

}  // namespace pal
