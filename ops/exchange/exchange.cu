// Exchanges as work of the node's queue: the ranks' device group carries them. pairwise_sum adds a
// thread's elements row by row, with a sum for every bit of the number of rows so far: the tree of
// the processor's kernel, and its bits.
#include "core/ranks/device_group.h"
#include "ops/exchange/exchange.h"
#include "ops/exchange/exchange_run.h"
#include "ops/kernels/cuda_elements.h"

namespace pal {
namespace {

constexpr int kMostLevels = 24;  // of a tree: rows below 2^24

struct QueueCarrier {
  const KernelArgs& a;
  DeviceGroup* group;

  explicit QueueCarrier(const KernelArgs& args) : a(args), group(device_group_of(args)) {}
  void copy(void* to, const void* from, int64_t bytes) const { copy_async(a, to, from, bytes); }
  void zero(void* to, int64_t bytes) const { zero_async(a, to, bytes); }
  void all_to_all(std::span<const Exchanged> x, const Peers& peers) const {
    group->all_to_all(x, peers, a.queue);
  }
  void all_gather(std::span<const Exchanged> x) const { group->all_gather(x, a.queue); }
  void all_reduce(std::span<const Reduced> x) const { group->all_reduce(x, a.queue); }
  void reduce_scatter(std::span<const Reduced> x) const { group->reduce_scatter(x, a.queue); }
};

void queue_all_to_all(const KernelArgs& a) { exchange_rows(a, QueueCarrier(a)); }
void queue_all_gather(const KernelArgs& a) { gather_pieces(a, QueueCarrier(a), false); }
void queue_gather_state(const KernelArgs& a) { gather_pieces(a, QueueCarrier(a), true); }
void queue_all_reduce(const KernelArgs& a) { reduce_over(a, QueueCarrier(a), false); }
void queue_reduce_scatter(const KernelArgs& a) { reduce_over(a, QueueCarrier(a), true); }
void queue_own_piece(const KernelArgs& a) { take_own_piece(a, QueueCarrier(a)); }

__global__ void pairwise_sum_kernel(Stored x, Stored y, int64_t rows, int64_t width) {
  const int64_t i = thread_number() * kGroup;
  if (i >= width) return;
  const int n = group_size(i, width);
  float sums[kMostLevels][kGroup];  // level k: of 2^k rows
  for (int64_t row = 0; row < rows; ++row) {
    float v[kGroup];
    load8(x, row * width + i, n, v);
    int level = 0;
    for (; row >> level & 1; ++level) {
#pragma unroll
      for (int k = 0; k < kGroup; ++k) v[k] = sums[level][k] + v[k];
    }
#pragma unroll
    for (int k = 0; k < kGroup; ++k) sums[level][k] = v[k];
  }
  // What is left over goes up as it is, the last rows first.
  float all[kGroup];
  bool any = false;
  for (int level = 0; rows >> level; ++level) {
    if (!(rows >> level & 1)) continue;
#pragma unroll
    for (int k = 0; k < kGroup; ++k) all[k] = any ? sums[level][k] + all[k] : sums[level][k];
    any = true;
  }
  store8(y, i, n, all);
}
void queue_pairwise_sum(const KernelArgs& a) {
  const int64_t rows = a.in_spec[0].shape[0], width = a.out_spec[0].numel();
  require_of(pairwise_sum_op, rows >> kMostLevels == 0, rows,
             " rows are more than a GPU's kernel adds");
  launch(pairwise_sum_kernel, grid_of_groups(groups_of(width)), a,
         stored(a.in[0], a.in_spec[0], width), stored(a.out[0], a.out_spec[0]), rows, width);
}

}  // namespace

const Backend all_to_all_cuda{.run = queue_all_to_all, .prepare = prepare_exchange<AllToAllAttrs>};
const Backend all_gather_cuda{.run = queue_all_gather, .prepare = prepare_exchange<GatherAttrs>};
const Backend all_reduce_cuda{.run = queue_all_reduce, .prepare = prepare_exchange<RanksAttrs>};
const Backend reduce_scatter_cuda{.run = queue_reduce_scatter,
                                  .prepare = prepare_exchange<RanksAttrs>};
const Backend gather_state_cuda{.run = queue_gather_state, .prepare = prepare_exchange<RanksAttrs>};
const Backend own_piece_cuda{.run = queue_own_piece, .prepare = prepare_ranks<RanksAttrs>};
const Backend pairwise_sum_cuda{.run = queue_pairwise_sum};

}  // namespace pal
