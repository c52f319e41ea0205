// batched_matmul (ops/products/cuda_matmul.h).
#include "ops/products/batched_matmul.h"
#include "ops/products/cuda_matmul.h"

namespace pal {
namespace {

Prepared prepare_batched(const Device& device, SpecSpan in, SpecSpan out, const Attrs& attrs) {
  return prepare_matmul_cuda(device, "batched_matmul",
                             batched_matmul_product(in, attrs.as<BatchedMatmulAttrs>()), in,
                             out[0]);
}

}  // namespace

const Backend batched_matmul_cuda{.run = run_matmul_cuda, .prepare = prepare_batched};

}  // namespace pal
