// matmul and batched_matmul: a product of cuBLASLt's, whose operands go through f32 copies in the
// workspace where the library does not combine their types.
#include "ops/batched_matmul.h"
#include "ops/cuda.h"
#include "ops/cuda_elements.h"
#include "ops/cuda_product.h"
#include "ops/matmul.h"
#include "ops/operands.h"

namespace pal {
namespace {

struct State {
  std::unique_ptr<CudaProduct> product;
  // Copies, behind the product's own workspace.
  bool copy_a = false, copy_b = false, copy_out = false;
  int64_t a_at = 0, b_at = 0, out_at = 0;
};

Prepared prepare_product(const Device& device, const char* op, ProductShape shape, DType a, DType b,
                         DType out) {
  auto state = std::make_shared<State>();
  State& s = *state;
  // bf16 or f16, both alike, into that type or f32; or all f32.
  const bool halves = a == b && a != DType::f32 && (out == a || out == DType::f32) && !shape.bias;
  s.copy_a = !halves && a != DType::f32;
  s.copy_b = !halves && b != DType::f32;
  s.copy_out = !halves && out != DType::f32;
  shape.in = halves ? a : DType::f32, shape.out = halves ? out : DType::f32;
  s.product = std::make_unique<CudaProduct>(device, op, shape);
  int64_t bytes = s.product->workspace();
  auto reserve = [&](bool needed, int64_t elements) {
    const int64_t at = bytes;
    if (needed) bytes += align_up(elements * int64_t(sizeof(float)));
    return at;
  };
  s.a_at = reserve(s.copy_a, shape.batch * shape.m * shape.k);
  s.b_at = reserve(s.copy_b, shape.batch * shape.k * shape.n);
  s.out_at = reserve(s.copy_out, shape.batch * shape.m * shape.n);
  return {.state = std::move(state), .workspace = bytes};
}

struct Convert {
  PAL_HD float operator()(float x) const { return x; }
};
void convert(const KernelArgs& a, void* to, DType to_type, const void* from, DType from_type,
             int64_t n) {
  const Operands<1> operands{
      .in = {stored(from, {{n}, from_type})}, .out = stored(to, {{n}, to_type}), .n = n};
  launch(map_kernel<1, Convert>, grid_of_groups(groups_of(n)), kThreads, 0, stream_of(a), operands,
         Convert{});
}

void run_product(const KernelArgs& a) {
  if (!a.out[0]) return;
  const State& s = *static_cast<const State*>(a.state);
  auto operand = [&](size_t i, bool copy, int64_t at) -> const void* {
    if (!copy) return a.in[i];
    std::byte* to = a.workspace + at;
    convert(a, to, DType::f32, a.in[i], a.in_spec[i].dtype, a.in_spec[i].numel());
    return to;
  };
  const void* right = operand(1, s.copy_b, s.b_at);
  const void* left = operand(0, s.copy_a, s.a_at);
  const void* sum = input_if_present(a, 2);
  void* out = a.out[0];
  const int64_t results = a.out_spec[0].numel();
  if (s.copy_out) {
    out = a.workspace + s.out_at;
    if (sum) convert(a, out, DType::f32, sum, a.out_spec[0].dtype, results), sum = out;
  }
  s.product->run(stream_of(a), left, right, sum, out, input_if_present(a, 3), a.workspace);
  if (s.copy_out) convert(a, a.out[0], a.out_spec[0].dtype, out, DType::f32, results);
}

Prepared prepare_matmul(const Device& device, SpecSpan in, SpecSpan out, const Attrs& attrs) {
  return prepare_product(device, "matmul", matmul_product(in, attrs.as<MatmulAttrs>()), in[0].dtype,
                         in[1].dtype, out[0].dtype);
}
Prepared prepare_batched(const Device& device, SpecSpan in, SpecSpan out, const Attrs& attrs) {
  return prepare_product(device, "batched_matmul",
                         batched_matmul_product(in, attrs.as<BatchedMatmulAttrs>()), in[0].dtype,
                         in[1].dtype, out[0].dtype);
}

}  // namespace

const Backend batched_matmul_cuda{.run = run_product, .prepare = prepare_batched};
const Backend matmul_cuda{.run = run_product, .prepare = prepare_matmul};

}  // namespace pal
