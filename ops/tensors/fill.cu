// fill: words where the bytes are whole words, else bytes.
#include "ops/kernels/cuda_elements.h"
#include "ops/tensors/fill.h"

namespace pal {
namespace {

// A value in every element: four bytes at a time, then the bytes that are left.
__global__ void fill_kernel(uint8_t* y, int64_t bytes, uint32_t pattern, uint8_t last) {
  const int64_t i = thread_number() * 4;
  if (i >= bytes) return;
  for (int k = 0; k < 4 && i + k < bytes; ++k) {
    y[i + k] = i + k + 1 == bytes ? last : uint8_t(pattern >> (8 * k));
  }
}
__global__ void fill_words_kernel(uint32_t* y, int64_t words, uint32_t pattern) {
  const int64_t i = thread_number() * 4;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (i + k < words) y[i + k] = pattern;
  }
}
// Four bytes of the pattern that the value makes in memory.
uint32_t fill_pattern(DType type, float value) {
  switch (type) {
    case DType::f32: return float_bits(value);
    case DType::bf16: return from_float<bf16>(value).bits * 0x10001u;
    case DType::f16: return from_float<f16>(value).bits * 0x10001u;
    case DType::i32: return uint32_t(int32_t(value));
    case DType::u8: return uint8_t(value) * 0x1010101u;
    case DType::u4: return (uint32_t(value) & 15u) * 0x11111111u;
    case DType::bit: break;
  }
  return value > 0 ? 0xffffffffu : 0;
}
void run_fill(const KernelArgs& a) {
  const TensorSpec& spec = a.out_spec[0];
  const float value = a.attrs.as<FillAttrs>().value;
  const int64_t bytes = spec.bytes(), n = spec.numel();
  const uint32_t pattern = fill_pattern(spec.dtype, value);
  if (bytes % 4 == 0 && reinterpret_cast<uintptr_t>(a.out[0]) % 4 == 0 &&
      (bits(spec.dtype) >= 8 || n % 8 == 0)) {
    return launch(fill_words_kernel, {blocks_of(bytes / 4, 4 * kThreads)}, a, a.output<uint32_t>(0),
                  bytes / 4, pattern);
  }
  uint8_t last = bytes ? uint8_t(pattern >> (8 * ((bytes - 1) % 4))) : 0;
  if (spec.dtype == DType::bit && n % 8 && last) last = uint8_t((1u << (n % 8)) - 1);
  if (spec.dtype == DType::u4 && n % 2) last &= 15;
  launch(fill_kernel, {blocks_of(bytes, 4 * kThreads)}, a, a.output<uint8_t>(0), bytes, pattern,
         last);
}

}  // namespace

const Backend fill_cuda{.run = run_fill};

}  // namespace pal
