// A warp for each tile; one block for their sum.
#include "ops/sums/cuda_sums.h"
#include "ops/sums/square_tiles.h"

namespace pal {
namespace {

template <class T>
__global__ void square_tiles_kernel(float* out, const T* x, int64_t size, int64_t tiles) {
  const int64_t tile = thread_number() / kWarp;
  if (tile >= tiles) return;
  const int64_t begin = tile * kTile, n = size - begin < kTile ? size - begin : kTile;
  const float sum = warp_row_sum(n, [&](int64_t i) {
    const float v = load(x, begin + i);
    return v * v;
  });
  if (lane_number() == 0) out[tile] = sum;
}
void run_square_tiles(const KernelArgs& a) {
  const int64_t tiles = a.out_spec[0].numel();
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    launch(square_tiles_kernel<T>, Grid{blocks_of(tiles * kWarp, kThreads)}, a, a.output(0),
           a.input<T>(0), a.in_spec[0].numel(), tiles);
  });
}

__global__ void sum_tiles_kernel(float* out, const float* tiles, int64_t count, int64_t chunks) {
  const double sum = tree_sum(chunks, shared_memory<double>(), [&](int64_t c) {
    double chunk = 0;
    for (int64_t t = c * kTilesPerChunk; t < (c + 1) * kTilesPerChunk && t < count; ++t) {
      chunk += double(tiles[t]);
    }
    return chunk;
  });
  if (threadIdx.x == 0) *out = float(sum);
}
void run_sum_tiles(const KernelArgs& a) {
  const int64_t count = a.in_spec[0].numel();
  launch(sum_tiles_kernel, {1}, kTreeLanes, kTreeLanes * sizeof(double), stream_of(a), a.output(0),
         a.input(0), count, blocks_of(count, kTilesPerChunk));
}

}  // namespace

const Backend square_tiles_cuda{.run = run_square_tiles};
const Backend sum_tiles_cuda{.run = run_sum_tiles};

}  // namespace pal
