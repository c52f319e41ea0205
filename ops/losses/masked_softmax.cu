// masked_softmax over the leading axis.
//
// A block has 32 columns, a lane each. Its warps share the steps for what is costly, and leave the
// exponentials (or products) in shared memory, where the first warp adds them up in order of steps.
// Where there are too many steps for that, the first warp computes them again itself.
#include "ops/kernels/cuda_rows.h"
#include "ops/kernels/math.h"
#include "ops/kernels/operands.h"
#include "ops/losses/masked_softmax.h"

namespace pal {
namespace {

constexpr int64_t kStepsInShared = 320;

struct Column {
  int64_t at;  // its number
  bool exists;
};
__device__ Column column_of_lane(int64_t batch) {
  const int64_t at = int64_t(blockIdx.x) * kWarp + lane_number();
  return {at, at < batch};
}

// Lane by lane the sum of f(step, column) over the steps, in order, in all warps.
template <class F> __device__ float sum_steps(int64_t steps, float* totals, float* terms, F f) {
  const int lane = lane_number();
  const bool kept = steps <= kStepsInShared;
  if (kept) {
    for (int64_t s = warp_number(); s < steps; s += kRowsPerBlock) terms[s * kWarp + lane] = f(s);
  }
  __syncthreads();
  if (warp_number() == 0) {
    float sum = 0;
    for (int64_t s = 0; s < steps; ++s) sum += kept ? terms[s * kWarp + lane] : f(s);
    totals[lane] = sum;
  }
  __syncthreads();
  return totals[lane];
}
size_t column_bytes(int64_t steps) {  // maxima of the warps, totals, terms
  const int64_t kept = steps <= kStepsInShared ? steps : 0;
  return size_t(kRowsPerBlock + 1 + kept) * kWarp * sizeof(float);
}

template <class T>
__global__ void masked_softmax_kernel(T* y, const T* x, const int32_t* lengths, int64_t steps,
                                      int64_t batch) {
  float* maxima = shared_memory<float>();
  float* totals = maxima + kRowsPerBlock * kWarp;
  float* terms = totals + kWarp;
  const Column column = column_of_lane(batch);
  const int lane = lane_number();
  const int64_t length = !column.exists ? 0 : lengths ? lengths[column.at] : steps;
  float top = -__builtin_huge_valf();
  for (int64_t s = warp_number(); s < steps && s < length; s += kRowsPerBlock) {
    const float v = load(x, s * batch + column.at);
    top = v > top ? v : top;
  }
  maxima[warp_number() * kWarp + lane] = top;
  __syncthreads();
  for (int w = 0; w < kRowsPerBlock; ++w) {
    const float other = maxima[w * kWarp + lane];
    top = other > top ? other : top;
  }
  auto term = [&](int64_t s) {
    return s < length ? exp(load(x, s * batch + column.at) - top) : 0.0f;
  };
  const float total = sum_steps(steps, totals, terms, term);
  for (int64_t s = warp_number(); column.exists && s < steps; s += kRowsPerBlock) {
    const float e = steps <= kStepsInShared ? terms[s * kWarp + lane] : term(s);
    store(y, s * batch + column.at, s < length ? e / total : 0.0f);
  }
}
void run_masked_softmax(const KernelArgs& a) {
  const int64_t steps = a.in_spec[0].shape[0], batch = a.in_spec[0].shape[1];
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    launch(masked_softmax_kernel<T>, {blocks_of(batch, kWarp)}, kThreads, column_bytes(steps),
           stream_of(a), a.output<T>(0), a.input<T>(0), input_if_present<int32_t>(a, 1), steps,
           batch);
  });
}

template <class T>
__global__ void masked_softmax_grad_kernel(T* dx, const T* y, const T* dy, int64_t steps,
                                           int64_t batch) {
  float* totals = shared_memory<float>();
  float* terms = totals + kWarp;
  const Column column = column_of_lane(batch);
  const float dot = sum_steps(steps, totals, terms, [&](int64_t s) {
    const int64_t i = s * batch + column.at;
    return column.exists ? load(y, i) * load(dy, i) : 0.0f;
  });
  for (int64_t s = warp_number(); column.exists && s < steps; s += kRowsPerBlock) {
    const int64_t i = s * batch + column.at;
    store(dx, i, load(y, i) * (load(dy, i) - dot));
  }
}
void run_masked_softmax_grad(const KernelArgs& a) {
  const int64_t steps = a.in_spec[0].shape[0], batch = a.in_spec[0].shape[1];
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) {
    launch(masked_softmax_grad_kernel<T>, {blocks_of(batch, kWarp)}, kThreads, column_bytes(steps),
           stream_of(a), a.output<T>(0), a.input<T>(0), a.input<T>(1), steps, batch);
  });
}

}  // namespace

const Backend masked_softmax_cuda{.run = run_masked_softmax};
const Backend masked_softmax_grad_cuda{.run = run_masked_softmax_grad};

}  // namespace pal
