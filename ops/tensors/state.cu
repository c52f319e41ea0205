// assign and moving_average, whose gate lies on the device: the kernel asks it. Many states'
// averages in a launch.
#include "ops/kernels/cuda_elements.h"
#include "ops/kernels/operands.h"
#include "ops/tensors/state.h"

namespace pal {
namespace {

// The same bits: a conversion there and back would not keep every NaN.
__device__ void keep(const Stored& to, const Stored& from, int64_t i, int n) {
  if (to.data == from.data) return;
  const bool half = to.type == DType::bf16 || to.type == DType::f16;
  for (int k = 0; k < n; ++k) {
    if (half)
      static_cast<uint16_t*>(to.data)[i + k] = static_cast<uint16_t*>(from.data)[i + k];
    else
      static_cast<uint32_t*>(to.data)[i + k] = static_cast<uint32_t*>(from.data)[i + k];
  }
}

__device__ bool is_shut(const float* gate) { return gate && gate[1] == 0; }  // Gate::apply

// x in the state's type; old itself, bit for bit, where there is a gate and it is shut.
__global__ void assign_kernel(Operands<2> a, const float* gate) {
  const int64_t i = thread_number() * kGroup;
  if (i >= a.n) return;
  const int n = group_size(i, a.n);
  if (is_shut(gate)) return keep(a.out, a.in[0], i, n);
  float x[kGroup];
  load8(a.in[1], i, n, x);
  store8(a.out, i, n, x);
}

constexpr int kAverages = 64;  // in a launch: where they are is its parameter (4 KB)

struct Average {
  const void *old, *x;
  void* out;
  const float* gate;  // null: none
  int64_t n;
  int first_block;
  DType type, x_type;  // of old and out, and of x
};
struct Averages {
  Average at[kAverages];
  int count;
};

// old + momentum (x - old); old itself where a gate is shut.
__global__ void moving_average_kernel(Averages all, float momentum) {
  int which = 0;
  while (which + 1 < all.count && int(blockIdx.x) >= all.at[which + 1].first_block) ++which;
  const Average& t = all.at[which];
  const int64_t block = int(blockIdx.x) - t.first_block;
  const Eight eight(block * blockDim.x + threadIdx.x, t.n, true);
  if (eight.none()) return;
  const auto tensor = [](const void* data, DType type) {
    return Stored{.data = const_cast<void*>(data),
                  .type = type,
                  .vector = reinterpret_cast<uintptr_t>(data) % 16 == 0};
  };
  const Stored old = tensor(t.old, t.type), out = tensor(t.out, t.type);
  if (is_shut(t.gate)) {
#pragma unroll
    for (int four = 0; four < 2; ++four) keep(out, old, eight.at[four], eight.size(four));
    return;
  }
  float from[kGroup], x[kGroup];
  eight.load(old, from);
  eight.load(tensor(t.x, t.x_type), x);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) x[k] = from[k] + momentum * (x[k] - from[k]);
  eight.store(out, x);
}

void run_assign(const KernelArgs& a) {
  // A type that stays as it is is moved, unless a gate has to be asked first. The kernel knows
  // elements of two and of four bytes.
  const DType type = a.in_spec[0].dtype;
  const bool moved = type == a.in_spec[1].dtype && !input_if_present(a, 2);
  require(moved || is_float(type) || type == DType::i32, "assign",
          to_string(a.in_spec[0]) + " cannot be assigned behind a gate on a GPU");
  if (moved) return copy_async(a, a.out[0], a.in[1], a.out_spec[0].bytes());
  Operands<2> operands{.out = stored(a.out[0], a.out_spec[0]), .n = a.out_spec[0].numel()};
  for (size_t k = 0; k < 2; ++k) operands.in[k] = stored(a.in[k], a.in_spec[k]);
  launch(assign_kernel, grid_of_groups(groups_of(operands.n)), a, operands,
         input_if_present<float>(a, 2));
}
void run_moving_average(const KernelArgs& a) {
  Averages all{.count = 0};
  int blocks = 0;
  auto start = [&] {
    if (all.count) {
      launch(moving_average_kernel, {blocks}, a, all, a.attrs.as<MovingAverageAttrs>().momentum);
    }
    all.count = blocks = 0;
  };
  for (size_t k = 0; k < a.out.size(); ++k) {
    const int64_t n = a.out_spec[k].numel();
    if (!a.out[k] || n == 0) continue;
    if (all.count == kAverages) start();
    all.at[all.count++] = {a.in[3 * k],
                           a.in[3 * k + 1],
                           a.out[k],
                           input_if_present<float>(a, 3 * k + 2),
                           n,
                           blocks,
                           a.out_spec[k].dtype,
                           a.in_spec[3 * k + 1].dtype};
    blocks += int(blocks_of(groups_of(n), kThreads));
  }
  start();
}

}  // namespace

const Backend assign_cuda{.run = run_assign};
const Backend moving_average_cuda{.run = run_moving_average};

}  // namespace pal
