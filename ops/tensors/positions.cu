// add_positions. Where positions count from 0, as in training, they are a table of the processor's
// making that lies on the device. Else, as a word is decoded, a thread has a column of a position,
// computes its angle in f64, and adds the same number to all of the batch.
#include "core/accelerator.h"
#include "ops/kernels/cuda_elements.h"
#include "ops/kernels/cuda_rows.h"
#include "ops/kernels/operands.h"
#include "ops/tensors/positions.h"

namespace pal {
namespace {

// x and y (steps * batch, width) in eight elements a thread, table (steps, width).
__global__ void add_table_kernel(Stored y, Stored x, Stored table, float factor, int64_t rows,
                                 int64_t batch, int64_t width, bool apart) {
  const RowEight e(rows, width, apart);
  if (e.none()) return;
  const int64_t of_step[2] = {divide(e.row[0], batch) * width + e.column[0],
                              divide(e.row[1], batch) * width + e.column[1]};
  float v[kGroup], position[kGroup];
  e.load(x, v), e.load(table, of_step, position);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) v[k] = factor * v[k] + position[k];
  e.store(y, v);
}

__global__ void add_positions_kernel(Stored y, Stored x, const int32_t* first, float factor,
                                     int64_t steps, int64_t batch, int64_t width) {
  const int64_t i = thread_number();  // t * width + column
  if (i >= steps * width) return;
  const int64_t t = divide(i, width), j = i - t * width;
  const double frequency = pow(10000.0, -2.0 * double(j / 2) / double(width));
  const double angle = double(t + *first) * frequency;
  const float position = float(j % 2 == 0 ? sin(angle) : cos(angle));
#pragma unroll 4
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t at = (t * batch + b) * width + j;
    store1(y, at, factor * load1(x, at) + position);
  }
}

// The state is the table.
Prepared prepare_positions(const Device& device, SpecSpan in, SpecSpan, const Attrs&) {
  if (present(in, 1)) return {};
  const std::vector<float> table = position_table(in[0].shape[0], in[0].shape[2]);
  const int64_t bytes = int64_t(table.size() * sizeof(float));
  const std::shared_ptr<Accelerator> gpu = device.accelerator;
  const std::shared_ptr<std::byte> memory(gpu->allocate(Space::device, bytes, true),
                                          [gpu](std::byte* p) { gpu->release(Space::device, p); });
  gpu->copy(kComputeQueue, memory.get(), table.data(), bytes);
  gpu->synchronize();
  return {.state = memory};
}

void run_positions(const KernelArgs& a) {
  const Shape& shape = a.in_spec[0].shape;
  const int64_t steps = shape[0], batch = shape[1], width = shape[2];
  const float factor = a.attrs.as<AddPositionsAttrs>().factor;
  const Stored y = stored(a.out[0], a.out_spec[0], width), x = stored(a.in[0], a.in_spec[0], width);
  if (const auto* first = input_if_present<int32_t>(a, 1)) {
    return launch(add_positions_kernel, {blocks_of(steps * width, kColumnThreads)}, kColumnThreads,
                  a, y, x, first, factor, steps, batch, width);
  }
  launch(add_table_kernel, grid_of_groups(steps * batch * groups_of(width)), a, y, x,
         stored(a.state, {{steps, width}}, width), factor, steps * batch, batch, width,
         row_fours_apart(width, y, x));
}

}  // namespace

const Backend add_positions_cuda{.run = run_positions, .prepare = prepare_positions};

}  // namespace pal
