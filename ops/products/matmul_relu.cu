// matmul with relu or its gradient behind it (ops/products/cuda_matmul.h).
#include "ops/products/cuda_matmul.h"
#include "ops/products/matmul.h"
#include "ops/products/matmul_relu.h"

namespace pal {
namespace {

Prepared prepare_relu(const Device& device, SpecSpan in, SpecSpan out, const Attrs& attrs) {
  return prepare_matmul_cuda(device, "matmul_relu", matmul_product(in, attrs.as<MatmulAttrs>()), in,
                             out[0], Epilogue::relu);
}
Prepared prepare_relu_grad(const Device& device, SpecSpan in, SpecSpan out, const Attrs& attrs) {
  return prepare_matmul_cuda(device, "matmul_relu_grad",
                             matmul_product(in.first(kReluResult), attrs.as<MatmulAttrs>()), in,
                             out[0], Epilogue::relu_grad);
}

}  // namespace

const Backend matmul_relu_cuda{.run = run_matmul_cuda, .prepare = prepare_relu};
const Backend matmul_relu_grad_cuda{.run = run_matmul_cuda, .prepare = prepare_relu_grad};

}  // namespace pal
