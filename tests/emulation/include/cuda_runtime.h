// CUDA as the processor acts it: this header stands in for the toolkit's when .cu files are
// compiled by the C++ compiler for the tests. It has what they use and no more. Kernels run as
// docs/cuda.md says: blocks one after the other, a block's threads as fibers; streams are queues of
// work that is done when somebody waits for it.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __shared__
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

// Vectors that notice when they lie where the hardware would not take them.
namespace pal::emulation {
void check_vector(const void* at, size_t boundary);
template <class T> struct Two { T x{}, y{}; };
template <class T> struct Four { T x{}, y{}, z{}, w{}; };
template <class Numbers, size_t kBoundary> struct Vector : Numbers {
  Vector() = default;
  template <class... T> Vector(T... each) : Numbers{each...} {}
  Vector(const Vector& other) : Numbers() { *this = other; }
  Vector& operator=(const Vector& other) {
    check_vector(this, kBoundary), check_vector(&other, kBoundary);
    std::memcpy(static_cast<void*>(this), static_cast<const void*>(&other), sizeof *this);
    return *this;
  }
};
}  // namespace pal::emulation
struct alignas(8) float2 : pal::emulation::Vector<pal::emulation::Two<float>, 8> {
  using Vector::Vector;
};
struct alignas(16) float4 : pal::emulation::Vector<pal::emulation::Four<float>, 16> {
  using Vector::Vector;
};
struct alignas(16) uint4 : pal::emulation::Vector<pal::emulation::Four<unsigned>, 16> {
  using Vector::Vector;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// Of the thread that runs.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
namespace pal {
extern unsigned char block_shared_memory[];
}

void __syncthreads();
void __syncwarp(unsigned mask = 0xffffffffu);

namespace pal::emulation {
// The value that `lane` of this warp brought; every lane of `mask` must bring one.
void exchange(unsigned mask, void* value, size_t bytes, int lane);
int lane();
// What the lanes of this warp bring, all of them, kSlot bytes a lane; there until they bring
// again. all_have_read(): nobody goes on before all have come.
constexpr size_t kSlot = 32;
const unsigned char* bring(const void* value, size_t bytes);
void all_have_read();
// A copy of the thread's that is done when it waits for all of its own; zeros where `from` is null.
void copy_later(void* to, const void* from, size_t bytes);
void wait_for_copies();
[[noreturn]] void refuse(const char* what);
// The thread's part of a warp's product; whether it is counted in place of being done.
bool count_product(double flops);
}  // namespace pal::emulation

template <class T> T __shfl_sync(unsigned mask, T value, int source) {
  pal::emulation::exchange(mask, &value, sizeof value, source & 31);
  return value;
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int bits) {
  pal::emulation::exchange(mask, &value, sizeof value, pal::emulation::lane() ^ bits);
  return value;
}
template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned by) {
  const int source = pal::emulation::lane() + int(by);
  pal::emulation::exchange(mask, &value, sizeof value,
                           source < 32 ? source : pal::emulation::lane());
  return value;
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  unsigned all = 0;
  if (mask == 0xffffffffu) {  // in five turns
    all = unsigned(predicate != 0) << pal::emulation::lane();
    for (int bits = 1; bits < 32; bits *= 2) all |= __shfl_xor_sync(mask, all, bits);
    return all;
  }
  for (int lane = 0; lane < 32; ++lane) {
    if (mask >> lane & 1) all |= unsigned(__shfl_sync(mask, predicate != 0, lane)) << lane;
  }
  return all;
}

inline void __threadfence_system() {}

inline int __popc(unsigned word) { return __builtin_popcount(word); }

// ---- the runtime ----

enum cudaError_t : int {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorLaunchFailure = 719,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905,
  cudaErrorStreamCaptureImplicit = 906,
  cudaErrorIllegalState = 401,
  cudaErrorCapturedEvent = 907,
};
enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone = 0, cudaStreamCaptureStatusActive = 1 };
constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventDisableTiming = 2;

struct EmulatedStream;
struct EmulatedEvent;
struct EmulatedGraph;
using cudaStream_t = EmulatedStream*;
using cudaEvent_t = EmulatedEvent*;
using cudaGraph_t = EmulatedGraph*;
using cudaGraphExec_t = EmulatedGraph*;
struct cudaUUID_t {
  char bytes[16];
};
struct cudaDeviceProp {
  char name[256];
  cudaUUID_t uuid;
  size_t totalGlobalMem;
  int major, minor, multiProcessorCount;
};

const char* cudaGetErrorString(cudaError_t);
const char* cudaGetErrorName(cudaError_t);
cudaError_t cudaGetLastError();
cudaError_t cudaRuntimeGetVersion(int*);
cudaError_t cudaDriverGetVersion(int*);
cudaError_t cudaGetDeviceCount(int*);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp*, int);
cudaError_t cudaSetDevice(int);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaMalloc(void**, size_t);
cudaError_t cudaFree(void*);
cudaError_t cudaMallocHost(void**, size_t);
cudaError_t cudaFreeHost(void*);
cudaError_t cudaMemset(void*, int, size_t);
cudaError_t cudaMemsetAsync(void*, int, size_t, cudaStream_t);
cudaError_t cudaMemcpyAsync(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t);
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t*, unsigned, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaEventCreateWithFlags(cudaEvent_t*, unsigned);
cudaError_t cudaEventDestroy(cudaEvent_t);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t);
constexpr unsigned cudaEventRecordDefault = 0, cudaEventRecordExternal = 1;
cudaError_t cudaEventRecordWithFlags(cudaEvent_t, cudaStream_t, unsigned flags);
cudaError_t cudaEventSynchronize(cudaEvent_t);
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to);
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode);
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*);
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus*);
constexpr unsigned long long cudaGraphInstantiateFlagUseNodePriority = 8;
cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long flags);
cudaError_t cudaGraphDestroy(cudaGraph_t);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t);
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t);

namespace pal::emulation {
// Queues the work (without a stream: does it at once).
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);
// Runs body() as every thread of the grid; it may read the `bytes` of `parameters`.
// std::runtime_error where a kernel breaks a rule.
void run_grid(dim3 grid, dim3 block, size_t shared, const std::function<void()>& body,
              const void* parameters, size_t bytes);
}  // namespace pal::emulation

template <class... P>
cudaError_t cudaLaunchKernel(void (*kernel)(P...), dim3 grid, dim3 block, void** args,
                             size_t shared, cudaStream_t stream) {
  auto values = [&]<size_t... I>(std::index_sequence<I...>) {
    return std::tuple<P...>(*static_cast<P*>(args[I])...);
  }
  (std::index_sequence_for<P...>{});
  return pal::emulation::enqueue(stream, [=, call = std::pair(kernel, values)] {
    pal::emulation::run_grid(
        grid, block, shared, [&call] { std::apply(call.first, call.second); }, &call, sizeof call);
  });
}
