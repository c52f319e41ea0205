// Views whose bytes lie elsewhere after all, stacks, and the gradient of a slice: contiguous
// copies.
#include "ops/tensors/cuda_move.h"
#include "ops/tensors/views.h"

namespace pal {

const Backend reshape_cuda{.run = copy_operand_async};
const Backend slice_cuda{.run = run_slice<CudaMove, SliceAttrs>};
const Backend slice_grad_cuda{.run = run_slice_grad<CudaMove, SliceGradAttrs>};
const Backend stack_cuda{.run = run_stack<CudaMove>};
const Backend unbind_cuda{.run = run_unbind<CudaMove>};

}  // namespace pal
