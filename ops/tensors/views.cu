// Views whose bytes lie elsewhere after all, stacks, and the gradient of a slice: contiguous
// copies.
#include "ops/elementwise/add.h"
#include "ops/kernels/cuda_elements.h"
#include "ops/kernels/cuda_row_copies.h"
#include "ops/tensors/views.h"

namespace pal {
namespace {

void run_slice(const KernelArgs& a) {
  const int64_t begin = a.attrs.as<SliceAttrs>().begin;
  copy_async(a, a.out[0], a.input<std::byte>(0) + begin * leading_row_bytes(a.in_spec[0]),
             a.out_spec[0].bytes());
}
void run_slice_grad(const KernelArgs& a) {
  const DType type = a.out_spec[0].dtype;
  const int64_t row = leading_row_bytes(a.out_spec[0]);
  const int64_t begin = a.attrs.as<SliceGradAttrs>().begin * row, part = a.in_spec[0].bytes();
  const int64_t after = a.out_spec[0].bytes() - begin - part;
  std::byte* out = a.output<std::byte>(0);
  const std::byte* sum = a.input<std::byte>(1);
  if (!sum) {
    zero_async(a, out, begin);
    copy_async(a, out + begin, a.in[0], part);
    return zero_async(a, out + begin + part, after);
  }
  copy_async(a, out, sum, begin);
  copy_async(a, out + begin + part, sum + begin + part, after);
  void* const in[] = {const_cast<std::byte*>(sum + begin), a.in[0]};
  void* const middle[] = {out + begin};
  const TensorSpec in_spec[] = {{a.in_spec[0].shape, type}, a.in_spec[0]};
  launch_map<2>({in, middle, in_spec, SpecSpan(in_spec, 1), a.attrs, nullptr, nullptr, a.queue},
                Add{});
}
void run_unbind(const KernelArgs& a) {
  const int64_t bytes = leading_row_bytes(a.in_spec[0]);
  for (size_t t = 0; t < a.out.size(); ++t) {
    if (a.out[t]) copy_async(a, a.out[t], a.input<std::byte>(0) + int64_t(t) * bytes, bytes);
  }
}
void run_stack(const KernelArgs& a) {
  const int64_t bytes = leading_row_bytes(a.out_spec[0]);
  for (size_t t = 0; t < a.in.size(); ++t) {
    std::byte* to = a.output<std::byte>(0) + int64_t(t) * bytes;
    if (a.in[t])
      copy_async(a, to, a.in[t], bytes);
    else
      zero_async(a, to, bytes);
  }
}

}  // namespace

const Backend reshape_cuda{.run = copy_operand_async};
const Backend slice_cuda{.run = run_slice};
const Backend slice_grad_cuda{.run = run_slice_grad};
const Backend stack_cuda{.run = run_stack};
const Backend unbind_cuda{.run = run_unbind};

}  // namespace pal
