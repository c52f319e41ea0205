// clip_bits: a thread has eight elements, whose bits are one byte.
#include "ops/elementwise/activations.h"
#include "ops/kernels/cuda_elements.h"
#include "ops/tensors/clip_bits.h"

namespace pal {
namespace {

__global__ void clip_bits_kernel(Stored y, uint8_t* bits, Stored x, int64_t n, Clip clip,
                                 IntervalAttrs s) {
  const int64_t i = thread_number() * kGroup;
  if (i >= n) return;
  const int here = group_size(i, n);
  float v[kGroup];
  load8(x, i, here, v);
  uint32_t byte = 0;
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    v[k] = as_stored(x.type, clip(v[k]));
    byte |= uint32_t(k < here && s.lo < v[k] && v[k] < s.hi) << k;
  }
  if (y.data) store8(y, i, here, v);
  if (bits) bits[i / 8] = uint8_t(byte);
}

void run_clip_bits(const KernelArgs& a) {
  const int64_t n = a.in_spec[0].numel();
  const auto& interval = a.attrs.as<IntervalAttrs>();
  launch(clip_bits_kernel, grid_of_groups(groups_of(n)), a, stored(a.out[0], a.in_spec[0]),
         a.output<uint8_t>(1), stored(a.in[0], a.in_spec[0]), n, Clip(interval), interval);
}

}  // namespace

const Backend clip_bits_cuda{.run = run_clip_bits};

}  // namespace pal
