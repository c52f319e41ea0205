// The device, its memory, and errors, as CUDA's runtime has them.
#include <cuda_runtime.h>

#include <cstring>
#include <stdexcept>
#include <utility>

#include "tests/emulation/counting.h"
#include "tests/emulation/emulation.h"
#include "tests/emulation/memory.h"
#include "tests/emulation/runtime.h"

namespace pal::emulation {
namespace {

int64_t in_use = 0, linked = 0;
thread_local cudaError_t last_error = cudaSuccess;

int64_t bytes_free() { return settings().memory - settings().context - in_use; }

}  // namespace

cudaError_t fail(cudaError_t error) { return last_error = error; }
int64_t bytes_linked() { return linked; }

}  // namespace pal::emulation

using namespace pal::emulation;

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorStreamCaptureUnjoined: return "a forked stream was not joined";
    default: return "an error";
  }
}
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation           ? "cudaErrorMemoryAllocation"
         : error == cudaErrorStreamCaptureUnjoined    ? "cudaErrorStreamCaptureUnjoined"
         : error == cudaErrorStreamCaptureInvalidated ? "cudaErrorStreamCaptureInvalidated"
                                                      : "cudaError";
}
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaRuntimeGetVersion(int* v) { return *v = 13000, cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* v) { return *v = settings().driver, cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* n) {
  *n = settings().devices;
  if (settings().driver < 13000) return fail(cudaErrorInsufficientDriver);
  return *n ? cudaSuccess : fail(cudaErrorNoDevice);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int number) {
  *p = {.name = "Emulated GPU",
        .uuid = {{'e', 'm', 'u', char(number)}},
        .totalGlobalMem = size_t(settings().memory),
        .major = settings().major,
        .minor = settings().minor,
        .multiProcessorCount = settings().multiprocessors};
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const auto held = hold();
  *total = size_t(settings().memory), *free = size_t(bytes_free());
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** p, size_t bytes) {
  const auto held = hold();
  if (is_spoiled()) return fail(cudaErrorStreamCaptureUnsupported);
  if (is_to_fail(settings().good_allocations)) return fail(cudaErrorMemoryAllocation);
  if (int64_t(bytes) > bytes_free()) return fail(cudaErrorMemoryAllocation);
  if (!(*p = allocate(Kind::device, bytes))) return fail(cudaErrorMemoryAllocation);
  in_use += int64_t(bytes);
  if (settings().untouched) return cudaSuccess;
  const Reach reach;
  std::memset(*p, 0xFF, bytes);  // nobody may count on zeros
  return cudaSuccess;
}
cudaError_t cudaFree(void* p) {
  const auto held = hold();
  if (is_spoiled()) return fail(cudaErrorStreamCaptureUnsupported);
  if (!p) return cudaSuccess;
  drain();
  in_use -= int64_t(size_of(Kind::device, p));
  release(Kind::device, p);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** p, size_t bytes) {
  const auto held = hold();
  if (is_spoiled()) return fail(cudaErrorStreamCaptureUnsupported);
  if (is_to_fail(settings().good_pins)) return fail(cudaErrorMemoryAllocation);
  if (!(*p = allocate(Kind::pinned, bytes))) return fail(cudaErrorMemoryAllocation);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* p) {
  const auto held = hold();
  if (is_spoiled()) return fail(cudaErrorStreamCaptureUnsupported);
  if (!p) return cudaSuccess;
  drain();
  release(Kind::pinned, p);
  return cudaSuccess;
}
// Of device memory: asynchronous, whatever its name says.
cudaError_t cudaMemset(void* p, int value, size_t bytes) {
  return cudaMemsetAsync(p, value, bytes, nullptr);
}
cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t stream) {
  const auto held = hold();
  if (!stream && is_spoiled()) return fail(cudaErrorStreamCaptureImplicit);
  if (!is_reachable(p, bytes)) return fail(cudaErrorInvalidValue);
  return enqueue(stream, [=] {
    if (!count_bytes(pal::LaunchCount::Kind::fill, bytes)) std::memset(p, value, bytes);
  });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  const auto held = hold();
  if (is_to_fail(settings().good_copies)) return fail(cudaErrorInvalidValue);
  if (is_device(to) != is_device(from) && !is_capturing()) linked += int64_t(bytes);
  return enqueue(stream, [=] {
    if (count_bytes(pal::LaunchCount::Kind::copy, bytes)) return;
    const auto *a = static_cast<const char*>(to), *b = static_cast<const char*>(from);
    if (a < b + bytes && b < a + bytes) throw std::runtime_error("emulation: a copy onto itself");
    std::memcpy(to, from, bytes);
  });
}
