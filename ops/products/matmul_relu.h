// A matrix product whose result goes through relu, or through relu's gradient, as it is made. No
// model records these: a pass puts them where the two nodes stand (fuse_epilogues of
// memory/passes/fuse_recompute.h).
#pragma once
#include "core/op.h"
#include "core/rewrite.h"

namespace pal {

// matmul_relu: max(op(a)·op(b) + bias + c, 0), operands and attributes as matmul's
// (ops/products/matmul.h). matmul_relu_grad: op(a)·op(b) + c where y > 0, else 0, from a, b, c and
// y; c may be absent, and y may be bits.
extern const OpDef matmul_relu_grad_op, matmul_relu_op;
extern const Rewrite matmul_relu_grad_rewrite, matmul_relu_rewrite;
[[gnu::weak]] extern const Backend matmul_relu_grad_cuda, matmul_relu_cuda;

// matmul_relu_grad's last operand, where matmul has its bias.
constexpr size_t kReluResult = 3;

}  // namespace pal
