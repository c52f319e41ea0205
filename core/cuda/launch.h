// What every .cu file shares: checked calls, the one function that starts kernels, indices, and the
// block's shared memory. docs/cuda.md says how kernels are written and tested.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "core/accelerator.h"
#include "core/device.h"
#include "core/op.h"

namespace pal {

// DeviceError "softmax.cu:12: out of memory" unless the call succeeded.
inline void check_cuda(cudaError_t status, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  if (status == cudaSuccess) return;
  const std::string path = file;
  throw DeviceError(path.substr(path.find_last_of('/') + 1) + ":" + std::to_string(line) + ": " +
                    cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")");
}

inline cudaStream_t stream_of(const KernelArgs& a) {
  return static_cast<cudaStream_t>(a.queue.stream);
}

// Blocks of a launch, and where in the source it was asked for.
struct Grid {
  int64_t blocks;
  const char* file;
  int line;
  Grid(int64_t count, const char* at_file = __builtin_FILE(), int at_line = __builtin_LINE())
      : blocks(count), file(at_file), line(at_line) {}
};

// Told of every launch where it is there: a test that counts them defines it.
[[gnu::weak]] void on_launch(const char* file, int line);

// Starts a kernel of so many blocks in one row, each of `block` threads (a multiple of 32) with
// `shared` bytes of shared memory. Nothing where there are no blocks. A row may have 2^31 - 1 of
// them, which no tensor that a card holds needs; columns of a grid end at 65,535, so there are
// none. Kernels start nowhere else, so that tests/emulation can run them on the processor.
template <class... P>
void launch(void (*kernel)(P...), Grid grid, int block, size_t shared, cudaStream_t stream,
            std::type_identity_t<P>... args) {
  if (grid.blocks <= 0) return;
  if (on_launch) on_launch(grid.file, grid.line);
  if (grid.blocks > 0x7fffffff) {
    throw DeviceError("a launch of " + std::to_string(grid.blocks) +
                      " blocks: no grid is so large");
  }
  void* pointers[] = {const_cast<void*>(static_cast<const void*>(&args))...};
  check_cuda(cudaLaunchKernel(kernel, dim3(unsigned(grid.blocks)), dim3(unsigned(block)), pointers,
                              shared, stream),
             grid.file, grid.line);
}

constexpr int kThreads = 256;  // of a block, where nothing speaks for another number
constexpr int kWarp = 32;

inline int64_t blocks_of(int64_t n, int64_t per_block) { return (n + per_block - 1) / per_block; }

// The thread's number among all of a one-dimensional launch.
__device__ inline int64_t thread_number() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }
// Where columns are summed in chunks of rows, a thread has a column of a chunk. The launch has
// blocks_of(width, threads of a block) * chunks blocks, those of a chunk side by side.
struct ChunkColumn {
  int64_t chunk, column;
};
__device__ inline ChunkColumn chunk_and_column(int64_t width) {
  const unsigned across = unsigned((width + blockDim.x - 1) / blockDim.x);
  const unsigned chunk = blockIdx.x / across;
  return {chunk, int64_t(blockIdx.x - chunk * across) * blockDim.x + threadIdx.x};
}
__device__ inline int lane_number() { return int(threadIdx.x % kWarp); }
__device__ inline int warp_number() { return int(threadIdx.x / kWarp); }

// The block's shared memory, as many bytes as launch was told; what it holds at first is unknown.
template <class T> __device__ T* shared_memory() {
  extern __shared__ __align__(16) unsigned char block_shared_memory[];
  return reinterpret_cast<T*>(block_shared_memory);
}

}  // namespace pal
