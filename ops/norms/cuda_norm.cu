// The chunks' sums added up: a block has eight channels, which lie side by side, a sector of f32.
#include "ops/norms/cuda_norm.h"

namespace pal {
namespace {

constexpr int kTreeColumns = 8;
constexpr int kTreeThreads = kTreeLanes * kTreeColumns;

// tree_sum of ops/kernels/rows.h for each of the columns, of which a thread's is its number modulo
// kTreeColumns; for all threads. f(i): of the thread's column.
template <class F> __device__ double sum_for_all(int64_t count, double* shared, F f) {
  const unsigned lane = threadIdx.x / kTreeColumns;
  double sum = 0;
#pragma unroll 4
  for (int64_t i = lane; i < count; i += kTreeLanes) sum += f(i);
  shared[threadIdx.x] = sum;
  for (unsigned width = kTreeLanes / 2; width > 0; width /= 2) {
    __syncthreads();
    if (lane < width) shared[threadIdx.x] += shared[threadIdx.x + width * kTreeColumns];
  }
  __syncthreads();
  const double all = shared[threadIdx.x % kTreeColumns];
  __syncthreads();
  return all;
}
// The thread's channel; those beyond the last stand for it, and write nothing.
__device__ int64_t tree_channel(const NormRows& r) {
  const int64_t c = int64_t(blockIdx.x) * kTreeColumns + threadIdx.x % kTreeColumns;
  return c < r.channels ? c : r.channels - 1;
}
__device__ bool writes_channel(const NormRows& r) {
  return threadIdx.x < kTreeColumns &&
         int64_t(blockIdx.x) * kTreeColumns + threadIdx.x < r.channels;
}
// Valid rows of a chunk, and of all.
__device__ double rows_counted(const float* count, const NormRows& r, int64_t chunk) {
  const int64_t begin = chunk * r.per_chunk;
  return r.all ? double(chunk_end(r, begin) - begin) : double(count[chunk]);
}
__device__ double rows_counted(const float* count, const NormRows& r, double* shared) {
  if (r.all) return double(r.rows);
  return sum_for_all(r.chunks, shared, [&](int64_t k) { return double(count[k]); });
}
// What sums are divided by.
__device__ double at_least_one(double rows) { return rows > 1 ? rows : 1; }

// A channel's statistics, and, where `mean` is not null, the factor of (x - mean).
__global__ void __launch_bounds__(kTreeThreads)
    batch_norm_moments_kernel(NormMoments to, const float* partial, const float* count,
                              const float* gamma, NormRows r, double eps) {
  double* shared = shared_memory<double>();
  const int64_t c = tree_channel(r);
  const double counted = rows_counted(count, r, shared), rows = at_least_one(counted);
  auto own = [&](int64_t chunk) {
    const float* p = partial + chunk * 3 * r.channels + c;
    return rows_counted(count, r, chunk) * double(p[0]) + double(p[r.channels]);
  };
  const double center = sum_for_all(r.chunks, shared, own) / rows;
  const double m2 = sum_for_all(r.chunks, shared, [&](int64_t chunk) {
    const double n = rows_counted(count, r, chunk);
    if (n == 0) return 0.0;
    const double distance = own(chunk) / n - center;
    return double(partial[(chunk * 3 + 2) * r.channels + c]) + n * distance * distance;
  });
  if (!writes_channel(r)) return;
  const float rstd = float(1 / sqrt(m2 / rows + eps));
  if (to.mean) to.mean[c] = float(center), to.scale[c] = gamma[c] * rstd;
  if (to.mean_out) to.mean_out[c] = float(center);
  if (to.rstd_out) to.rstd_out[c] = rstd;
  if (to.variance_out) to.variance_out[c] = float(m2 / (rows > 2 ? rows - 1 : 1));
  if (!to.own) return;
  to.own[c] = float(center), to.own[r.channels + c] = float(m2);
  if (c == 0) to.own[2 * r.channels] = float(counted);
}

__global__ void __launch_bounds__(kTreeThreads)
    batch_norm_grad_sums_kernel(NormGradientSums to, const float* partial, const float* count,
                                const float* rstd, NormRows r) {
  double* shared = shared_memory<double>();
  const int64_t c = tree_channel(r);
  const double counted = rows_counted(count, r, shared), rows = at_least_one(counted);
  const double sum = sum_for_all(
      r.chunks, shared, [&](int64_t chunk) { return double(partial[chunk * 2 * r.channels + c]); });
  const double products = sum_for_all(r.chunks, shared, [&](int64_t chunk) {
    return double(partial[(chunk * 2 + 1) * r.channels + c]);
  });
  if (!writes_channel(r)) return;
  const double dot = products * double(rstd[c]);
  if (to.dbeta) to.dbeta[c] = float(sum);
  if (to.dgamma) to.dgamma[c] = float(dot);
  if (to.mean_dy) to.mean_dy[c] = float(sum / rows);
  if (to.slope) to.slope[c] = float(dot * double(rstd[c]) / rows);
  if (!to.own) return;
  to.own[c] = float(sum), to.own[r.channels + c] = float(dot);
  if (c == 0) to.own[2 * r.channels] = float(counted);
}

}  // namespace

void finish_moments(const KernelArgs& a, const NormRows& r, const NormMoments& to,
                    const float* gamma, float eps) {
  const NormSpace s(a, r);
  launch(batch_norm_moments_kernel, {blocks_of(r.channels, kTreeColumns)}, kTreeThreads,
         kTreeThreads * sizeof(double), stream_of(a), to, s.partial, s.count, gamma, r,
         double(eps));
}
void finish_gradient_sums(const KernelArgs& a, const NormRows& r, const NormGradientSums& to,
                          const float* rstd) {
  const NormSpace s(a, r);
  launch(batch_norm_grad_sums_kernel, {blocks_of(r.channels, kTreeColumns)}, kTreeThreads,
         kTreeThreads * sizeof(double), stream_of(a), to, s.partial, s.count, rstd, r);
}

}  // namespace pal
