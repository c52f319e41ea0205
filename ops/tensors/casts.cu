// cast and to_bits, eight elements a thread; many tensors' casts in a launch.
#include "ops/kernels/cuda_elements.h"
#include "ops/tensors/casts.h"

namespace pal {
namespace {

constexpr int kCast = 96;            // tensors in a launch: where they are is its parameter (4 KB)
constexpr int64_t kCastStretch = 4;  // groups of a thread

struct CastTensor {
  const void* x;
  void* y;
  int64_t n;
  int first_block;
  DType type;  // of x
};
struct CastTensors {
  CastTensor at[kCast];
  int count;
  DType type;  // of y
};

__global__ void cast_kernel(CastTensors tensors) {
  int which = 0, behind = tensors.count;  // the last tensor that begins with this block or before
  while (behind - which > 1) {
    const int middle = (which + behind) / 2;
    (tensors.at[middle].first_block <= int(blockIdx.x) ? which : behind) = middle;
  }
  const CastTensor& t = tensors.at[which];
  const Stored x = stored_at(t.x, t.type), y = stored_at(t.y, tensors.type);
  const int64_t block = int(blockIdx.x) - t.first_block;
  for (int64_t k = 0; k < kCastStretch; ++k) {
    const Eight eight((block * kCastStretch + k) * blockDim.x + threadIdx.x, t.n, true);
    if (eight.none()) return;
    float v[kGroup];
    eight.load(x, v);
    eight.store(y, v);
  }
}

// A matrix with zeros behind its rows and columns; eight elements of the result a thread.
__global__ void wider_cast_kernel(Stored y, Stored x, int64_t y_rows, int64_t y_columns,
                                  int64_t rows, int64_t columns) {
  const auto [row, j, at, n] = row_group(y_rows, y_columns);
  if (n == 0) return;
  const int there = row < rows && j < columns ? group_size(j, columns) : 0;
  float v[kGroup];
  load8(x, there ? row * columns + j : 0, there, v);
  store8(y, at, n, v);
}
void run_wider(const KernelArgs& a, size_t k) {
  const TensorSpec &x = a.in_spec[k], &y = a.out_spec[k];
  const int64_t rows = y.shape[0], columns = y.shape[1];
  launch(wider_cast_kernel, grid_of_groups(rows * groups_of(columns)), a,
         stored(a.out[k], y, columns), stored(a.in[k], x, x.shape[1]), rows, columns, x.shape[0],
         x.shape[1]);
}

void run_cast(const KernelArgs& a) {
  const DType type = a.attrs.as<CastAttrs>().to;
  CastTensors tensors{.count = 0, .type = type};
  int blocks = 0;
  auto start = [&] {
    if (tensors.count) launch(cast_kernel, {blocks}, kThreads, a, tensors);
    tensors.count = blocks = 0;
  };
  for (size_t k = 0; k < a.in.size(); ++k) {
    const TensorSpec& from = a.in_spec[k];
    if (!a.out[k] || from.numel() == 0) continue;
    if (from.shape != a.out_spec[k].shape) {
      run_wider(a, k);
      continue;
    }
    if (from.dtype == type) {
      copy_async(a, a.out[k], a.in[k], from.bytes());
      continue;
    }
    if (tensors.count == kCast) start();
    tensors.at[tensors.count++] = {a.in[k], a.out[k], from.numel(), blocks, from.dtype};
    blocks += int(blocks_of(from.numel(), kThreads * kGroup * kCastStretch));
  }
  start();
}

}  // namespace

const Backend cast_cuda{.run = run_cast};
const Backend to_bits_cuda{.run = run_map<1, Inside>};

}  // namespace pal
