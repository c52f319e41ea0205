// The operands' f32 copies in the workspace, the product, and what comes behind it.
#include <limits>

#include "ops/elementwise/activations.h"
#include "ops/kernels/cuda_elements.h"
#include "ops/kernels/operands.h"
#include "ops/libraries/cuda_mask.h"
#include "ops/libraries/cuda_product.h"
#include "ops/products/cuda_matmul.h"

namespace pal {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct ProductState {
  std::unique_ptr<CudaProduct> product;
  Epilogue epilogue = Epilogue::none;
  // Copies, behind the product's own workspace.
  bool copy_a = false, copy_b = false, copy_out = false, copy_bias = false;
  int64_t a_at = 0, b_at = 0, out_at = 0, bias_at = 0, mask_at = 0;
  int64_t bias_row = 0;  // bytes of a bias as the product reads it

  bool wants_mask() const { return product->epilogue() == Epilogue::relu_grad; }
};

void convert(const KernelArgs& a, void* to, DType to_type, const void* from, DType from_type,
             int64_t n) {
  Operands<1> operands{
      .in = {stored(from, {{n}, from_type})}, .out = stored(to, {{n}, to_type}), .n = n};
  operands.choose_eights();
  launch(map_kernel<1, Same>, grid_of_groups(groups_of(n)), a, operands, Same{});
}

// Whether relu's result is above zero, as bits in rows of `leading` of them; a byte a thread.
__global__ void mask_kernel(Stored y, int64_t rows, int64_t width, int64_t leading, uint8_t* mask) {
  const int64_t i = thread_number(), row = divide(i, leading / 8);
  if (row >= rows) return;
  const int64_t column = (i - row * (leading / 8)) * 8, first = row * width + column;
  const int n = column < width ? group_size(column, width) : 0;
  float v[kGroup];
  if (y.type == DType::bit && width % kGroup) {  // the group's bits may lie in two bytes
#pragma unroll
    for (int k = 0; k < kGroup; ++k) v[k] = k < n ? load1(y, first + k) : 0;
  } else {
    load8(y, n ? first : 0, n, v);
  }
  uint32_t byte = 0;
#pragma unroll
  for (int k = 0; k < kGroup; ++k) byte |= uint32_t(k < n && 0 < v[k] && v[k] < kInfinity) << k;
  mask[i] = uint8_t(byte);
}

// What relu's gradient lets through, as cuBLASLt reads it: the operand itself where it is that.
const void* mask_of(const KernelArgs& a, const ProductState& s) {
  const void* y = a.in.back();
  const TensorSpec& spec = a.in_spec.back();
  const int64_t width = spec.shape.back(), rows = spec.numel() / width;
  if (spec.dtype == DType::bit && bits_are_lt_mask(width) &&
      reinterpret_cast<uintptr_t>(y) % CudaProduct::kMaskBoundary == 0) {
    return y;
  }
  const int64_t leading = lt_mask_leading(width);
  uint8_t* mask = reinterpret_cast<uint8_t*>(a.workspace + s.mask_at);
  launch(mask_kernel, grid_of_groups(rows * leading / 8), a,
         stored(y, spec, width, bits_of_interval(0, kInfinity)), rows, width, leading, mask);
  return mask;
}

// The epilogue in a kernel of its own, over the result where it lies.
void run_epilogue(const KernelArgs& a, Epilogue epilogue) {
  void* const in[] = {a.out[0], a.in.back()};
  const TensorSpec in_spec[] = {a.out_spec[0], a.in_spec.back()};
  const KernelArgs over = with_operands(a, in, in_spec);
  if (epilogue == Epilogue::relu) return launch_map<1>(over, Relu{});
  const PassInside above_zero(IntervalAttrs{});
  launch_map<2>(over, above_zero, above_zero.bit_meaning());
}

}  // namespace

Prepared prepare_matmul_cuda(const Device& device, const char* op, ProductShape shape, SpecSpan in,
                             const TensorSpec& result, Epilogue epilogue) {
  const DType a = in[0].dtype, b = in[1].dtype, out = result.dtype;
  auto state = std::make_shared<ProductState>();
  ProductState& s = *state;
  // bf16 or f16, both alike, into that type or f32; or all f32.
  const bool halves = a == b && a != DType::f32 && (out == a || out == DType::f32);
  s.copy_a = !halves && a != DType::f32;
  s.copy_b = !halves && b != DType::f32;
  s.copy_out = !halves && out != DType::f32;
  shape.in = halves ? a : DType::f32, shape.out = halves ? out : DType::f32;
  // cuBLASLt's bias has the result's type. A step hands over such copies (matmul_card_type).
  // One that is shorter than the result's rows is copied into one, where the rest is zero.
  s.copy_bias = shape.bias && (in[3].dtype != shape.out || in[3].numel() != shape.n);
  s.bias_row = shape.n * bits(shape.out) / 8;
  s.epilogue = epilogue;
  // Copies begin on wide ones.
  ProductBoundaries boundaries;
  if (!s.copy_a) boundaries.a = row_boundary(in[0]);
  if (!s.copy_b) boundaries.b = row_boundary(in[1]);
  if (!s.copy_out) boundaries.c = row_boundary(result);
  if (!s.copy_bias) boundaries.bias = row_boundary({{shape.n}, shape.out});
  // A kernel behind the product does what the library's epilogue is not trusted with.
  const bool trusted =
      epilogue != Epilogue::relu_grad || reads_masks_as_written(device, shape.in, shape.out);
  s.product = std::make_unique<CudaProduct>(device, op, shape, boundaries,
                                            trusted ? epilogue : Epilogue::none);
  int64_t bytes = s.product->workspace();
  auto reserve = [&](bool needed, int64_t size) {
    const int64_t at = bytes;
    if (needed) bytes += align_up(size);
    return at;
  };
  constexpr int64_t f32 = sizeof(float);
  s.a_at = reserve(s.copy_a, in[0].numel() * f32);
  s.b_at = reserve(s.copy_b, in[1].numel() * f32);
  s.out_at = reserve(s.copy_out, shape.batch * shape.m * shape.n * f32);
  s.bias_at = reserve(s.copy_bias, s.bias_row);
  s.mask_at = reserve(s.wants_mask(), shape.m * lt_mask_leading(shape.n) / 8);
  std::string by = s.product->by();
  if (s.product->epilogue() != epilogue) by += "; relu by a kernel";
  return {.state = std::move(state), .workspace = bytes, .by = std::move(by)};
}

void run_matmul_cuda(const KernelArgs& a) {
  const ProductState& s = *static_cast<const ProductState*>(a.state);
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
  const void* bias = s.epilogue == Epilogue::relu_grad ? nullptr : input_if_present(a, 3);
  if (s.copy_bias) {
    const int64_t n = a.in_spec[3].numel();
    const DType type = s.copy_out ? DType::f32 : a.out_spec[0].dtype;
    std::byte* const row = a.workspace + s.bias_at;
    convert(a, row, type, bias, a.in_spec[3].dtype, n);
    const int64_t behind = n * bits(type) / 8;
    if (behind < s.bias_row) zero_async(a, row + behind, s.bias_row - behind);
    bias = row;
  }
  s.product->run(stream_of(a), left, right, sum, out, bias, a.workspace,
                 s.wants_mask() ? mask_of(a, s) : nullptr);
  if (s.copy_out) convert(a, a.out[0], a.out_spec[0].dtype, out, DType::f32, results);
  if (s.product->epilogue() != s.epilogue) run_epilogue(a, s.epilogue);
}

}  // namespace pal
