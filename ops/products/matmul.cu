// matmul (ops/products/cuda_matmul.h).
#include "ops/products/cuda_matmul.h"
#include "ops/products/matmul.h"

namespace pal {
namespace {

Prepared prepare_matmul(const Device& device, SpecSpan in, SpecSpan out, const Attrs& attrs) {
  return prepare_matmul_cuda(device, "matmul", matmul_product(in, attrs.as<MatmulAttrs>()), in,
                             out[0]);
}

}  // namespace

const Backend matmul_cuda{.run = run_matmul_cuda, .prepare = prepare_matmul};

}  // namespace pal
