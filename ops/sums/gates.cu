// The gradients' norm, and the gate that it makes.
#include <algorithm>

#include "core/scalars.h"
#include "ops/kernels/operands.h"
#include "ops/sums/cuda_sums.h"
#include "ops/sums/gates.h"

namespace pal {
namespace {

// ---- sum_of_squares ----

constexpr int kSquared = 100;  // tensors in a launch: what is said of them is its parameter (4 KB)
struct Squared {
  const void* x;
  float* out;
  int64_t size;
  int first_chunk;
  DType type;
};
struct SquaredTensors {
  Squared at[kSquared];
  double* partial;
  int count, chunks;  // tensors, and chunks of all of them

  __device__ int chunks_of(int which) const {
    return (which + 1 < count ? at[which + 1].first_chunk : chunks) - at[which].first_chunk;
  }
};

// A block a chunk. The sum of a tensor of one chunk is the result.
__launch_bounds__(kProductThreads) __global__ void squares_kernel(SquaredTensors tensors) {
  float* sums = shared_memory<float>();
  int which = 0, behind = tensors.count;  // the last tensor that begins with this chunk or before
  while (behind - which > 1) {
    const int middle = (which + behind) / 2;
    (tensors.at[middle].first_chunk <= int(blockIdx.x) ? which : behind) = middle;
  }
  const Squared& t = tensors.at[which];
  const int64_t chunk = (int64_t(blockIdx.x) - t.first_chunk) * kElementGrain;
  double total = 0;
  switch (t.type) {
    case DType::bf16: {
      const auto* x = static_cast<const bf16*>(t.x);
      total = chunk_sum(x, x, chunk, t.size, sums);
      break;
    }
    case DType::f16: {
      const auto* x = static_cast<const f16*>(t.x);
      total = chunk_sum(x, x, chunk, t.size, sums);
      break;
    }
    default: {
      const auto* x = static_cast<const float*>(t.x);
      total = chunk_sum(x, x, chunk, t.size, sums);
    }
  }
  if (threadIdx.x) return;
  if (tensors.chunks_of(which) > 1)
    tensors.partial[blockIdx.x] = total;
  else
    *t.out = float(total);
}
// A block a tensor.
__global__ void finish_squares_kernel(SquaredTensors tensors) {
  const Squared& t = tensors.at[blockIdx.x];
  const int chunks = tensors.chunks_of(int(blockIdx.x));
  if (chunks == 1) return;
  const double* partial = tensors.partial + t.first_chunk;
  const double sum =
      tree_sum(chunks, shared_memory<double>(), [&](int64_t i) { return partial[i]; });
  if (threadIdx.x == 0) *t.out = float(sum);
}

int64_t chunks_of(const TensorSpec& x) {
  return std::max<int64_t>(1, blocks_of(x.numel(), kElementGrain));
}

void run_squares(const KernelArgs& a) {
  SquaredTensors tensors{.partial = reinterpret_cast<double*>(a.workspace)};
  const auto start = [&] {
    launch(squares_kernel, {tensors.chunks}, kProductThreads, kTilesPerChunk * sizeof(float),
           stream_of(a), tensors);
    if (tensors.chunks > tensors.count) {
      launch(finish_squares_kernel, {tensors.count}, kTreeLanes, kTreeLanes * sizeof(double),
             stream_of(a), tensors);
    }
    tensors.partial += tensors.chunks, tensors.count = tensors.chunks = 0;
  };
  for (size_t k = 0; k < a.in.size(); ++k) {
    if (!a.out[k]) continue;
    const int64_t chunks = chunks_of(a.in_spec[k]);
    if (tensors.count == kSquared) start();
    tensors.at[tensors.count++] = {a.in[k], a.output(k), a.in_spec[k].numel(), tensors.chunks,
                                   a.in_spec[k].dtype};
    tensors.chunks += int(chunks);
  }
  if (tensors.count) start();
}
Prepared prepare_squares(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  int64_t chunks = 0;
  for (const TensorSpec& x : in) chunks += chunks_of(x);
  return {.workspace = chunks * int64_t(sizeof(double))};
}

// ---- clip_norm_gate ----

constexpr int kPartials = 256;  // sums of squares that a launch takes
struct Partials {
  const float* of[kPartials];
  int count;
};

// Adds to `sum`, from zero in the first launch; the last makes the gate. All threads bring the
// partials, one adds them up.
__global__ void gate_kernel(Partials partials, double* sum, bool first, bool last,
                            const StepScalars* scalars, const float* loss, ClipNormAttrs attrs,
                            Gate* out) {
  float* brought = shared_memory<float>();
  const int mine = int(threadIdx.x);
  if (mine < partials.count) brought[mine] = *partials.of[mine];
  __syncthreads();
  if (mine) return;
  double total = first ? 0 : *sum;
  for (int k = 0; k < partials.count; ++k) total += double(brought[k]);
  *sum = total;
  if (!last) return;
  *out = make_gate(total, double(scalars->loss_scale), loss, attrs);
}
void run_gate(const KernelArgs& a) {
  bool first = true;
  for (size_t k = 2; first || k < a.in.size();) {
    Partials partials{};
    for (; k < a.in.size() && partials.count < kPartials; ++k) {
      if (const float* p = input_if_present<float>(a, k)) partials.of[partials.count++] = p;
    }
    launch(gate_kernel, {1}, kPartials, kPartials * sizeof(float), stream_of(a), partials,
           reinterpret_cast<double*>(a.workspace), first, k >= a.in.size(), a.input<StepScalars>(0),
           input_if_present<float>(a, 1), a.attrs.as<ClipNormAttrs>(), a.output<Gate>(0));
    first = false;
  }
}
Prepared prepare_gate(const Device&, SpecSpan, SpecSpan, const Attrs&) {
  return {.workspace = int64_t(sizeof(double))};
}

// ---- encodings_fit, gate_and ----

struct Counts {
  const int32_t* of[kPartials];
  int count;
};

// One thread.
__global__ void fit_kernel(Counts counts, bool first, Gate* out) {
  if (threadIdx.x) return;
  int misses = first ? 0 : int(out->overflows);
  for (int k = 0; k < counts.count; ++k) misses += counts.of[k][0] > counts.of[k][1];
  *out = {1, misses ? 0.0f : 1.0f, 0, float(misses)};
}
void run_fit(const KernelArgs& a) {
  for (size_t k = 0; k < a.in.size();) {
    const bool first = k == 0;
    Counts counts{};
    while (k < a.in.size() && counts.count < kPartials) {
      counts.of[counts.count++] = a.input<int32_t>(k++);
    }
    launch(fit_kernel, {1}, kWarp, 0, stream_of(a), counts, first, a.output<Gate>(0));
  }
}

__global__ void and_kernel(const Gate* a, const Gate* b, Gate* out) {
  if (threadIdx.x == 0) *out = gate_and(*a, *b);
}
void run_and(const KernelArgs& a) {
  launch(and_kernel, {1}, kWarp, 0, stream_of(a), a.input<Gate>(0), a.input<Gate>(1),
         a.output<Gate>(0));
}

}  // namespace

const Backend encodings_fit_cuda{.run = run_fit};
const Backend gate_and_cuda{.run = run_and};
const Backend clip_norm_gate_cuda{.run = run_gate, .prepare = prepare_gate};
const Backend sum_of_squares_cuda{.run = run_squares, .prepare = prepare_squares};

}  // namespace pal
