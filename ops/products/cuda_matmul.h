// The CUDA kernels of all matrix products: a product of cuBLASLt's, whose operands go through f32
// copies in the workspace where it does not combine their types.
#pragma once
#include "core/op.h"
#include "ops/libraries/lt_product.h"

namespace pal {

// `in`: a, b, ..; `op` for errors.
Prepared prepare_matmul_cuda(const Device& device, const char* op, ProductShape shape, SpecSpan in,
                             const TensorSpec& out, Epilogue epilogue = Epilogue::none);
// Operands a, b, sum (or absent), bias (or absent); with Epilogue::relu_grad the last is relu's
// result instead.
void run_matmul_cuda(const KernelArgs& a);

}  // namespace pal
