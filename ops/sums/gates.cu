// The gradients' norm, and the gate that it makes.
#include "core/scalars.h"
#include "ops/kernels/operands.h"
#include "ops/sums/cuda_sums.h"
#include "ops/sums/gates.h"

namespace pal {
namespace {

void run_squares(const KernelArgs& a) { sum_products(a, 0, 0, nullptr); }

// ---- clip_norm_gate ----

constexpr int kPartials = 256;  // sums of squares that a launch takes
struct Partials {
  const float* of[kPartials];
  int count;
};

// Adds to `sum`, from zero in the first launch; the last makes the gate. One thread.
__global__ void gate_kernel(Partials partials, double* sum, bool first, bool last,
                            const StepScalars* scalars, const float* loss, ClipNormAttrs attrs,
                            Gate* out) {
  if (threadIdx.x) return;
  double total = first ? 0 : *sum;
  for (int k = 0; k < partials.count; ++k) total += double(*partials.of[k]);
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
    launch(gate_kernel, {1}, kWarp, 0, stream_of(a), partials,
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
const Backend sum_of_squares_cuda{.run = run_squares, .prepare = prepare_products};

}  // namespace pal
