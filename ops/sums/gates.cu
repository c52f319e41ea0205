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

}  // namespace

const Backend clip_norm_gate_cuda{.run = run_gate, .prepare = prepare_gate};
const Backend sum_of_squares_cuda{.run = run_squares, .prepare = prepare_products};

}  // namespace pal
