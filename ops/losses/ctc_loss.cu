// ctc_loss and its gradient after the CPU's recursion (ops/losses/ctc_loss.cc), a block a sequence:
// step follows step, and the states of a step (labels with blanks between) are the threads'. What
// of the gradient is not a recursion has kernels of its own, for all steps side by side. Sums have
// the CPU's order, also those of a symbol that several states stand for, without atomics.
#include <algorithm>

#include "core/scalars.h"
#include "ops/kernels/cuda_rows.h"
#include "ops/losses/ctc_loss.h"

namespace pal {
namespace {

constexpr int kSequenceThreads = 512, kWarps = kSequenceThreads / kWarp;  // a block a sequence
constexpr size_t kMaxima = 2 * kWarps;  // of the warps, for two maxima of a block in turn

struct Batch {
  const float* logits;  // (T, B, V)
  const int32_t *labels, *steps, *lengths;
  int64_t most_steps, batch, width, longest, blank;

  __device__ CtcSequence sequence(int64_t b) const {
    return {b,     batch,     width, steps[b], 2 * int64_t(lengths[b]) + 1, 2 * longest + 1,
            blank, labels + b};
  }
};

// The largest of all threads' numbers, for all of them. `maxima`: kWarps floats that no thread
// still reads.
__device__ float block_max(float x, float* maxima) {
  x = warp_max(x);
  if (lane_number() == 0) maxima[warp_number()] = x;
  __syncthreads();
  float best = maxima[0];
  for (int w = 1; w < kWarps; ++w) best = maxima[w] > best ? maxima[w] : best;
  return best;
}

// Takes `most`, the row's largest, off this thread's states; leaves a row of kCtcNever alone.
__device__ void take_off(float* x, int64_t states, float most) {
  if (!(most > kCtcAlmostNever)) return;
  for (int64_t s = threadIdx.x; s < states; s += kSequenceThreads) {
    x[s] = x[s] > kCtcAlmostNever ? x[s] - most : kCtcNever;
  }
}

// Whether steps and labels are such as the CPU takes.
__device__ bool in_range(const Batch& a, const CtcSequence& q, float* maxima) {
  const int64_t length = (q.states - 1) / 2;
  bool bad = q.steps < 0 || q.steps > a.most_steps || length < 0 || length > a.longest;
  if (!bad) {
    for (int64_t i = threadIdx.x; i < length; i += kSequenceThreads) {
      const int64_t label = q.labels[i * q.batch];
      bad |= label < 0 || label >= q.width || label == q.blank;
    }
  }
  const bool all = block_max(bad ? 1 : 0, maxima) == 0;
  __syncthreads();
  return all;
}

// -log P from the last step's alpha, less what was taken off.
__device__ double total_of(const CtcSequence& q, const float* last_row, double taken) {
  if (q.steps == 0) return q.states == 1 ? 0 : __builtin_huge_val();
  const float last = last_row[q.states - 1];
  const float before = q.states > 1 ? last_row[q.states - 2] : kCtcNever;
  if (last <= kCtcAlmostNever && before <= kCtcAlmostNever) return __builtin_huge_val();
  return -taken - double(ctc_log_sum(last, before, kCtcNever));
}

// Two steps' alpha in turn lie in shared memory, or in `flow` where that is too small.
constexpr size_t kFlowShared = 24 << 10;
__global__ void __launch_bounds__(kSequenceThreads)
    ctc_loss_kernel(Batch a, double* nll, float* lse, float* alpha, float* flow) {
  float* maxima = shared_memory<float>();
  CtcSequence q = a.sequence(blockIdx.x);
  const bool good = in_range(a, q, maxima);
  if (!good) q.steps = 0, q.states = 1;
  for (int64_t t = warp_number(); t < a.most_steps; t += kWarps) {
    const float norm = t < q.steps ? log_sum_exp(a.logits + q.row(t) * q.width, q.width) : 0;
    if (lane_number() == 0) lse[q.row(t)] = norm;
  }
  __syncthreads();
  float* rows = flow ? flow + 2 * q.b * q.most_states : maxima + kMaxima;
  const int64_t own = threadIdx.x;
  const bool has_own = own < q.states;
  const int64_t own_symbol = has_own ? q.symbol(own) : 0;
  const bool own_jump = has_own && q.jumps(own);
  float logit_ahead = 0, norm_ahead = 0;  // of the step to come
  const auto look_ahead = [&](int64_t t) {
    if (t >= q.steps) return;
    norm_ahead = lse[q.row(t)];
    if (has_own) logit_ahead = a.logits[q.row(t) * q.width + own_symbol];
  };
  look_ahead(0);
  double taken = 0;
  const float* before = nullptr;
  for (int64_t t = 0; t < q.steps; ++t) {
    const float *x = a.logits + q.row(t) * q.width, norm = norm_ahead, logit = logit_ahead;
    look_ahead(t + 1);
    float* to = rows + t % 2 * q.most_states;
    float best = -__builtin_huge_valf();
    for (int64_t s = own; s < q.states; s += kSequenceThreads) {
      const float y = (s == own ? logit : x[q.symbol(s)]) - norm;
      float v = s < 2 ? y : kCtcNever;
      if (t > 0) {
        const bool jump = s == own ? own_jump : q.jumps(s);
        const float one = s > 0 ? before[s - 1] : kCtcNever;
        const float two = (s > 1 ? before[s - 2] : kCtcNever) + (jump ? 0 : kCtcNever);
        v = y + ctc_log_sum(before[s], one, two);
      }
      to[s] = v;
      best = v > best ? v : best;
    }
    const float most = block_max(best, maxima + t % 2 * kWarps);
    take_off(to, q.states, most);
    if (most > kCtcAlmostNever) taken += double(most);
    for (int64_t s = own; alpha && s < q.states; s += kSequenceThreads) {
      alpha[q.row(t) * q.most_states + s] = to[s];
    }
    __syncthreads();
    before = to;
  }
  if (alpha) {  // what no sequence has
    for (int64_t t = 0; t < a.most_steps; ++t) {
      float* row = alpha + q.row(t) * q.most_states;
      for (int64_t s = (t < q.steps ? q.states : 0) + threadIdx.x; s < q.most_states;
           s += kSequenceThreads) {
        row[s] = 0;
      }
    }
  }
  if (threadIdx.x == 0) nll[q.b] = good ? total_of(q, before, taken) : __builtin_nan("");
}

// One block: the sum of the batch's losses.
__global__ void ctc_sum_kernel(float* loss, float* nll_out, const double* nll, int64_t batch,
                               bool zero_infinity, const StepScalars* scalars) {
  const double total = tree_sum(batch, shared_memory<double>(), [&](int64_t b) {
    if (nll_out) nll_out[b] = float(nll[b]);
    return zero_infinity && nll[b] == __builtin_huge_val() ? 0 : nll[b];
  });
  if (threadIdx.x == 0 && loss) *loss = float(total / double(scalars->tokens));
}

constexpr int32_t kNotFirst = 1 << 30;  // a state before it has its symbol

// next[s] of odd states: the next with the same label, or 0.
__device__ void link_labels(const CtcSequence& q, int32_t* next) {
  for (int64_t s = threadIdx.x; s < q.states; s += blockDim.x) {
    if (s % 2 == 0) continue;
    const int64_t label = q.symbol(s);
    int32_t found = 0;
    for (int64_t k = s + 2; k < q.states && !found; k += 2) {
      if (q.symbol(k) == label) found = int32_t(k);
    }
    for (int64_t k = 1; k < s; k += 2) {
      if (q.symbol(k) == label) found |= kNotFirst;
    }
    next[s] = found;
  }
}

// to[symbol] less what its states bring, in their order: the blank's are all even ones.
__device__ void subtract_states(const CtcSequence& q, const float* part, const int32_t* next,
                                float* to) {
  for (int64_t s = threadIdx.x; s < q.states; s += blockDim.x) {
    if (s == 0) {
      float sum = to[q.blank];
#pragma unroll 8
      for (int64_t k = 0; k < q.states; k += 2) sum -= part[k];
      to[q.blank] = sum;
    } else if (s % 2 && !(next[s] & kNotFirst)) {
      float sum = to[q.symbol(s)];
      for (int64_t k = s; k; k = next[k] & ~kNotFirst) sum -= part[k];
      to[q.symbol(s)] = sum;
    }
  }
}

struct GradTensors {
  float* dlogits;  // may lie over the logits
  const float *dloss, *nll, *lse, *alpha;
  const StepScalars* scalars;
  bool zero_infinity;
};
// Of the gradient: y[t, b, s], which beta is written over, then what link_labels says.
struct CtcGradSpace {
  float* beta;
  int32_t* next;
  CtcGradSpace(const KernelArgs& a, const Batch& batch)
      : beta(reinterpret_cast<float*>(a.workspace)) {
    next =
        reinterpret_cast<int32_t*>(beta + batch.most_steps * batch.batch * (2 * batch.longest + 1));
  }
};
__device__ bool has_gradient(float nll) { return nll == nll && nll != __builtin_huge_valf(); }

// y, a thread a state.
__global__ void ctc_emissions_kernel(Batch a, const float* nll, const float* lse, float* y) {
  const int64_t i = thread_number(), most = 2 * a.longest + 1, row = divide(i, most);
  if (row >= a.most_steps * a.batch) return;
  const int64_t t = divide(row, a.batch), s = i - row * most;
  const CtcSequence q = a.sequence(row - t * a.batch);
  if (!has_gradient(nll[q.b]) || t >= q.steps || s >= q.states) return;
  y[i] = a.logits[row * q.width + q.symbol(s)] - lse[row];
}

// The recursion. A step's y plus beta lie in shared memory, or in `flow`, where that is too small:
// three rows of states, two of them for a step in turn, and the step's beta.
__global__ void __launch_bounds__(kSequenceThreads)
    ctc_beta_kernel(Batch a, const float* nll, CtcGradSpace space, float* flow) {
  float* maxima = shared_memory<float>();
  const CtcSequence q = a.sequence(blockIdx.x);
  if (!has_gradient(nll[q.b])) return;
  link_labels(q, space.next + q.b * q.most_states);
  float* rows = flow ? flow + 3 * q.b * q.most_states : maxima + kMaxima;
  float* beta = rows + 2 * q.most_states;
  const int64_t own = threadIdx.x;
  const bool own_jump = own + 2 < q.states && q.jumps(own + 2);
  float ahead = 0;  // y of the step to come
  if (own < q.states && q.steps) ahead = space.beta[q.row(q.steps - 1) * q.most_states + own];
  for (int64_t t = q.steps; t-- > 0;) {
    const float y = ahead;
    if (own < q.states && t > 0) ahead = space.beta[q.row(t - 1) * q.most_states + own];
    const float* after = rows + (t + 1) % 2 * q.most_states;
    float most = 0;
    if (t + 1 < q.steps) {
      float best = -__builtin_huge_valf();
      for (int64_t s = own; s < q.states; s += kSequenceThreads) {
        const float one = s + 1 < q.states ? after[s + 1] : kCtcNever;
        const bool jump = s == own ? own_jump : s + 2 < q.states && q.jumps(s + 2);
        const float two = (s + 2 < q.states ? after[s + 2] : kCtcNever) + (jump ? 0 : kCtcNever);
        beta[s] = ctc_log_sum(after[s], one, two);
        best = beta[s] > best ? beta[s] : best;
      }
      most = block_max(best, maxima + t % 2 * kWarps);
    }
    float *here = rows + t % 2 * q.most_states, *kept = space.beta + q.row(t) * q.most_states;
    for (int64_t s = own; s < q.states; s += kSequenceThreads) {
      float b = s >= q.states - 2 ? 0 : kCtcNever;
      if (t + 1 < q.steps) b = beta[s];
      if (t + 1 < q.steps && most > kCtcAlmostNever) b = b > kCtcAlmostNever ? b - most : kCtcNever;
      here[s] = (s == own ? y : kept[s]) + b;
      kept[s] = b;
    }
    __syncthreads();
  }
}

// Each step's gradient by a block.
constexpr int kStepThreads = 64;
__global__ void ctc_loss_grad_kernel(Batch a, GradTensors g, CtcGradSpace space, float* rows) {
  const int64_t row = blockIdx.x, t = divide(row, a.batch);
  const CtcSequence q = a.sequence(row - t * a.batch);
  const float nll = g.nll[q.b], factor = *g.dloss / g.scalars->tokens;
  float* to = g.dlogits + row * q.width;
  if (!has_gradient(nll) || t >= q.steps) {
    const float rest = nll != nll || !g.zero_infinity ? __builtin_nanf("") : 0;
    for (int64_t v = threadIdx.x; v < q.width; v += kStepThreads) {
      to[v] = !has_gradient(nll) && t < q.steps ? rest : 0;
    }
    return;
  }
  float* likely = rows ? rows + row * q.most_states : shared_memory<float>();
  const float *alpha = g.alpha + row * q.most_states, *beta = space.beta + row * q.most_states;
  const float *x = a.logits + row * q.width, norm = g.lse[row];
  float most = -__builtin_huge_valf();
  for (int64_t s = lane_number(); s < q.states; s += kWarp) {
    const float v = alpha[s] + beta[s];
    most = v > most ? v : most;
  }
  most = warp_max(most);
  for (int64_t v = threadIdx.x; v < q.width; v += kStepThreads) to[v] = factor * exp(x[v] - norm);
  for (int64_t s = threadIdx.x; s < q.states; s += kStepThreads) {
    likely[s] = exp(alpha[s] + beta[s] - most);
  }
  __syncthreads();
  const float sum = warp_row_sum(q.states, [&](int64_t s) { return likely[s]; });
  __syncthreads();
  for (int64_t s = threadIdx.x; s < q.states; s += kStepThreads) {
    likely[s] = factor * (likely[s] / sum);
  }
  __syncthreads();
  subtract_states(q, likely, space.next + q.b * q.most_states, to);
}

// logits, labels, steps, label_lengths from operand `first` on.
Batch batch_of(const KernelArgs& a, size_t logits, size_t labels) {
  const Shape& shape = a.in_spec[logits].shape;
  return {.logits = a.input(logits),
          .labels = a.input<int32_t>(labels),
          .steps = a.input<int32_t>(labels + 1),
          .lengths = a.input<int32_t>(labels + 2),
          .most_steps = shape[0],
          .batch = shape[1],
          .width = shape[2],
          .longest = a.in_spec[labels].shape[0],
          .blank = a.attrs.as<CtcAttrs>().blank};
}

// logits, labels, steps, label_lengths, scalars -> loss, nll, lse, alpha
void run_ctc_loss(const KernelArgs& a) {
  const Batch batch = batch_of(a, 0, 1);
  double* nll = reinterpret_cast<double*>(a.workspace);
  float* lse = reinterpret_cast<float*>(nll + batch.batch);
  float* rows = lse + batch.most_steps * batch.batch;
  if (a.out[2]) lse = a.output(2);
  const size_t maxima = kMaxima * sizeof(float);
  const size_t flow = size_t(2 * (2 * batch.longest + 1)) * sizeof(float);
  const bool fits = maxima + flow <= kFlowShared;
  launch(ctc_loss_kernel, {batch.batch}, kSequenceThreads, maxima + (fits ? flow : 0), stream_of(a),
         batch, nll, lse, a.output(3), fits ? nullptr : rows);
  if (!a.out[0] && !a.out[1]) return;
  launch(ctc_sum_kernel, {1}, kTreeLanes, kTreeLanes * sizeof(double), stream_of(a), a.output(0),
         a.output(1), nll, batch.batch, a.attrs.as<CtcAttrs>().zero_infinity,
         a.input<StepScalars>(4));
}
Prepared prepare_ctc_loss(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  const int64_t steps = in[0].shape[0], batch = in[0].shape[1], states = 2 * in[1].shape[0] + 1;
  return {.workspace = batch * (8 + 4 * (steps + 2 * states))};
}

// dloss, logits, nll, lse, alpha, labels, steps, label_lengths, scalars -> dlogits
void run_ctc_loss_grad(const KernelArgs& a) {
  const Batch batch = batch_of(a, 1, 5);
  const GradTensors grad{.dlogits = a.output(0),
                         .dloss = a.input(0),
                         .nll = a.input(2),
                         .lse = a.input(3),
                         .alpha = a.input(4),
                         .scalars = a.input<StepScalars>(8),
                         .zero_infinity = a.attrs.as<CtcAttrs>().zero_infinity};
  const CtcGradSpace space(a, batch);
  const int64_t states = 2 * batch.longest + 1, steps = batch.most_steps * batch.batch;
  // The beta of steps in shared memory, unless it has too many states.
  const size_t maxima = kMaxima * sizeof(float), flow = size_t(3 * states) * sizeof(float);
  const bool fits = maxima + flow <= kFlowShared;
  float* more = fits ? nullptr : reinterpret_cast<float*>(space.next + batch.batch * states);
  launch(ctc_emissions_kernel, {blocks_of(steps * states, kThreads)}, a, batch, grad.nll, grad.lse,
         space.beta);
  launch(ctc_beta_kernel, {batch.batch}, kSequenceThreads, maxima + (fits ? flow : 0), stream_of(a),
         batch, grad.nll, space, more);
  launch(ctc_loss_grad_kernel, {steps}, kStepThreads, fits ? size_t(states) * sizeof(float) : 0,
         stream_of(a), batch, grad, space, more);
}
Prepared prepare_ctc_loss_grad(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  const int64_t steps = in[1].shape[0], batch = in[1].shape[1], states = 2 * in[5].shape[0] + 1;
  const size_t shared = (kMaxima + size_t(3 * states)) * sizeof(float);
  const int64_t more = shared <= kFlowShared ? 0 : std::max<int64_t>(3, steps);
  return {.workspace = batch * (steps + 1 + more) * states * 4};
}

}  // namespace

const Backend ctc_loss_cuda{.run = run_ctc_loss, .prepare = prepare_ctc_loss};
const Backend ctc_loss_grad_cuda{.run = run_ctc_loss_grad, .prepare = prepare_ctc_loss_grad};

}  // namespace pal
