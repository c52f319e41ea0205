// Every operator there is, for the tests that meet all of them. Sorted by name.
#include "core/op.h"

namespace pal {

extern const OpDef
    add_op, add_broadcast_op, assign_op, batched_matmul_op, broadcast_leading_op, cast_op, clip_op,
    concatenate_op, copy_in_op, copy_out_op, dropout_op, dropout_apply_op, dropout_mask_op,
    embedding_op, embedding_grad_op, fill_op, matmul_op, moving_average_op, mul_op, pass_inside_op,
    relu_op, reshape_op, reverse_op, scale_op, sigmoid_op, sigmoid_grad_op, slice_op,
    slice_columns_op, slice_columns_grad_op, slice_grad_op, stack_op, step_scalars_op, sub_op,
    sum_all_op, sum_leading_op, tanh_op, tanh_grad_op, to_bits_op, unbind_op;

std::span<const OpDef* const> all_ops() {
  static const OpDef* const ops[] = {
      &add_op,
      &add_broadcast_op,
      &assign_op,
      &batched_matmul_op,
      &broadcast_leading_op,
      &cast_op,
      &clip_op,
      &concatenate_op,
      &copy_in_op,
      &copy_out_op,
      &dropout_op,
      &dropout_apply_op,
      &dropout_mask_op,
      &embedding_op,
      &embedding_grad_op,
      &fill_op,
      &matmul_op,
      &moving_average_op,
      &mul_op,
      &pass_inside_op,
      &relu_op,
      &reshape_op,
      &reverse_op,
      &scale_op,
      &sigmoid_op,
      &sigmoid_grad_op,
      &slice_op,
      &slice_columns_op,
      &slice_columns_grad_op,
      &slice_grad_op,
      &stack_op,
      &step_scalars_op,
      &sub_op,
      &sum_all_op,
      &sum_leading_op,
      &tanh_op,
      &tanh_grad_op,
      &to_bits_op,
      &unbind_op,
  };
  return ops;
}

}  // namespace pal
