// Conversions tile by tile, on all workers.
#include "ops/kernels/f32_copies.h"

#include <algorithm>

#include "ops/kernels/tiles.h"

namespace pal {
namespace {

// f(first element, elements) for the tiles of n elements of 16 bits.
template <class F> void each_tile(const Queue& queue, int64_t n, F f) {
  parallel_chunks(queue, n, kElementGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kTile) f(i, std::min(kTile, end - i));
  });
}

float* copy_at(const KernelArgs& a, int64_t at) {
  return reinterpret_cast<float*>(a.workspace + at);
}

void widen(const Queue& queue, const void* from, const TensorSpec& spec, float* to) {
  each_tile(queue, spec.numel(),
            [&](int64_t i, int64_t n) { load_tile(from, spec.dtype, i, n, to + i); });
}

}  // namespace

int64_t reserve_f32_copy(const TensorSpec& spec, int64_t& bytes) {
  if (spec.dtype == DType::f32) return kNoCopy;
  const int64_t at = align_up(bytes);
  bytes = at + align_up(spec.numel() * int64_t(sizeof(float)));
  return at;
}

F32Copies reserve_f32_copies(SpecSpan in, SpecSpan out, int64_t& bytes) {
  return {reserve_f32_copy(in[0], bytes), reserve_f32_copy(in[1], bytes),
          reserve_f32_copy(out[0], bytes)};
}

const float* f32_operand(const KernelArgs& a, size_t k, int64_t at) {
  if (at == kNoCopy) return a.input(k);
  widen(a.queue, a.in[k], a.in_spec[k], copy_at(a, at));
  return copy_at(a, at);
}

float* f32_result(const KernelArgs& a, int64_t at, const void* sum) {
  if (at != kNoCopy) {
    if (sum) widen(a.queue, sum, a.out_spec[0], copy_at(a, at));
    return copy_at(a, at);
  }
  if (sum) copy_bytes(a.queue, a.out[0], sum, a.out_spec[0].bytes());
  return a.output(0);
}

void store_f32_result(const KernelArgs& a, int64_t at) {
  if (at == kNoCopy) return;
  const float* result = copy_at(a, at);
  each_tile(a.queue, a.out_spec[0].numel(), [&](int64_t i, int64_t n) {
    store_tile(a.out[0], a.out_spec[0].dtype, i, n, result + i);
  });
}

}  // namespace pal
