// assign and moving_average, whose gate lies on the device: the kernel asks it.
#include "ops/kernels/cuda_elements.h"
#include "ops/kernels/operands.h"
#include "ops/tensors/state.h"

namespace pal {
namespace {

// The same bits: a conversion there and back would not keep every NaN.
__device__ void keep8(const Stored& to, const Stored& from, int64_t i, int n) {
  if (to.data == from.data) return;
  const bool half = to.type == DType::bf16 || to.type == DType::f16;
  for (int k = 0; k < n; ++k) {
    if (half)
      static_cast<uint16_t*>(to.data)[i + k] = static_cast<uint16_t*>(from.data)[i + k];
    else
      static_cast<uint32_t*>(to.data)[i + k] = static_cast<uint32_t*>(from.data)[i + k];
  }
}

// Updates of a state from (old, x): x in the state's type, or old + momentum (x - old); old itself,
// bit for bit, where there is a gate and it is shut (gate[1] is Gate::apply).
__global__ void state_kernel(Operands<2> a, const float* gate, bool average, float momentum) {
  const int64_t i = thread_number() * kGroup;
  if (i >= a.n) return;
  const int n = group_size(i, a.n);
  if (gate && gate[1] == 0) return keep8(a.out, a.in[0], i, n);
  float old[kGroup], x[kGroup];
  load8(a.in[0], i, n, old);
  load8(a.in[1], i, n, x);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    if (average) x[k] = old[k] + momentum * (x[k] - old[k]);
  }
  store8(a.out, i, n, x);
}
void update_state(const KernelArgs& a, bool average, float momentum) {
  Operands<2> operands{.out = stored(a.out[0], a.out_spec[0]), .n = a.out_spec[0].numel()};
  for (size_t k = 0; k < 2; ++k) operands.in[k] = stored(a.in[k], a.in_spec[k]);
  launch(state_kernel, grid_of_groups(groups_of(operands.n)), a, operands,
         input_if_present<float>(a, 2), average, momentum);
}
void run_assign(const KernelArgs& a) {
  // A type that stays as it is is moved, unless a gate has to be asked first. The kernel knows
  // elements of two and of four bytes.
  const DType type = a.in_spec[0].dtype;
  const bool moved = type == a.in_spec[1].dtype && !input_if_present(a, 2);
  require(moved || is_float(type) || type == DType::i32, "assign",
          to_string(a.in_spec[0]) + " cannot be assigned behind a gate on a GPU");
  if (!moved) return update_state(a, false, 0);
  copy_async(a, a.out[0], a.in[1], a.out_spec[0].bytes());
}
void run_moving_average(const KernelArgs& a) {
  update_state(a, true, a.attrs.as<MovingAverageAttrs>().momentum);
}

}  // namespace

const Backend assign_cuda{.run = run_assign};
const Backend moving_average_cuda{.run = run_moving_average};

}  // namespace pal
