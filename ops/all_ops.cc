// Every operator there is, for the tests that meet all of them. Sorted by name.
#include "core/op.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_context.h"
#include "ops/attention/attention_score.h"
#include "ops/attention/attention_step.h"
#include "ops/convolution/avg_pool.h"
#include "ops/convolution/conv2d.h"
#include "ops/convolution/conv3d.h"
#include "ops/convolution/conv_relu.h"
#include "ops/convolution/global_avg_pool.h"
#include "ops/convolution/max_pool.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/elementwise/dropout.h"
#include "ops/elementwise/scale_channels.h"
#include "ops/elementwise/self_gated.h"
#include "ops/elementwise/sum_inside.h"
#include "ops/encodings/dpr.h"
#include "ops/encodings/ssdc.h"
#include "ops/exchange/exchange.h"
#include "ops/losses/cross_entropy.h"
#include "ops/losses/ctc_loss.h"
#include "ops/losses/log_softmax.h"
#include "ops/losses/masked_softmax.h"
#include "ops/losses/softmax.h"
#include "ops/losses/top_k.h"
#include "ops/norms/batch_norm.h"
#include "ops/norms/batch_norm_relu.h"
#include "ops/norms/frame_norm.h"
#include "ops/norms/layer_norm.h"
#include "ops/norms/lrn.h"
#include "ops/norms/norm_over_ranks.h"
#include "ops/optimizer/adam.h"
#include "ops/optimizer/sgd.h"
#include "ops/products/batched_matmul.h"
#include "ops/products/matmul.h"
#include "ops/products/matmul_relu.h"
#include "ops/recurrent/gru.h"
#include "ops/recurrent/hold.h"
#include "ops/recurrent/lstm.h"
#include "ops/recurrent/recurrent_layer.h"
#include "ops/sums/dot_last.h"
#include "ops/sums/gates.h"
#include "ops/sums/reduce.h"
#include "ops/sums/scale_by.h"
#include "ops/sums/square_tiles.h"
#include "ops/tensors/casts.h"
#include "ops/tensors/clip_bits.h"
#include "ops/tensors/columns.h"
#include "ops/tensors/embedding.h"
#include "ops/tensors/fill.h"
#include "ops/tensors/positions.h"
#include "ops/tensors/reorder.h"
#include "ops/tensors/row_order.h"
#include "ops/tensors/state.h"
#include "ops/tensors/state_rows.h"
#include "ops/tensors/subsample.h"
#include "ops/tensors/transfers.h"
#include "ops/tensors/views.h"

namespace pal {

std::span<const OpDef* const> all_ops() {
  static const OpDef* const ops[] = {
      &adam_op,
      &add_op,
      &add_broadcast_op,
      &add_outer_op,
      &add_positions_op,
      &all_gather_op,
      &all_reduce_op,
      &all_to_all_op,
      &argmax_rows_op,
      &assign_op,
      &attention_op,
      &attention_context_op,
      &attention_grad_op,
      &attention_step_op,
      &avg_pool_op,
      &avg_pool_grad_op,
      &batch_norm_op,
      &batch_norm_apply_op,
      &batch_norm_grad_op,
      &batch_norm_infer_op,
      &batch_norm_relu_op,
      &batch_norm_relu_grad_op,
      &batch_norm_statistics_op,
      &batched_matmul_op,
      &broadcast_leading_op,
      &cast_op,
      &clip_op,
      &clip_bits_op,
      &clip_norm_gate_op,
      &concatenate_op,
      &conv2d_op,
      &conv2d_data_grad_op,
      &conv2d_relu_op,
      &conv2d_weight_grad_op,
      &conv3d_op,
      &conv3d_data_grad_op,
      &conv3d_relu_op,
      &conv3d_weight_grad_op,
      &copy_in_op,
      &copy_out_op,
      &count_nonzeros_op,
      &cross_entropy_op,
      &cross_entropy_grad_op,
      &ctc_loss_op,
      &ctc_loss_grad_op,
      &dot_channels_op,
      &dot_last_op,
      &dot_last_grad_op,
      &dot_score_op,
      &dpr_decode_op,
      &dpr_encode_op,
      &dropout_op,
      &dropout_add_op,
      &dropout_apply_op,
      &dropout_mask_op,
      &embedding_op,
      &embedding_grad_op,
      &encodings_fit_op,
      &fill_op,
      &frame_norm_op,
      &frame_norm_apply_op,
      &frame_norm_grad_op,
      &frame_norm_infer_op,
      &gate_and_op,
      &gather_state_op,
      &gelu_op,
      &gelu_grad_op,
      &gelu_tanh_op,
      &gelu_tanh_grad_op,
      &global_avg_pool_op,
      &global_avg_pool_grad_op,
      &gru_cell_op,
      &gru_cell_grad_op,
      &gru_cell_replay_grad_op,
      &gru_layer_op,
      &gru_layer_grad_op,
      &hold_op,
      &hold_grad_op,
      &inner_product_op,
      &layer_norm_op,
      &layer_norm_grad_op,
      &layer_norm_grad_add_op,
      &log_softmax_op,
      &lrn_op,
      &lrn_grad_op,
      &lstm_cell_op,
      &lstm_cell_grad_op,
      &lstm_cell_replay_grad_op,
      &lstm_layer_op,
      &lstm_layer_grad_op,
      &masked_softmax_op,
      &masked_softmax_grad_op,
      &matmul_op,
      &matmul_relu_op,
      &matmul_relu_grad_op,
      &max_pool_op,
      &max_pool_grad_op,
      &mlp_score_op,
      &mlp_score_grad_op,
      &mlp_score_replay_grad_op,
      &moments_over_ranks_op,
      &momentum_op,
      &move_op,
      &moving_average_op,
      &moving_averages_op,
      &mul_op,
      &norm_gradient_apply_op,
      &norm_gradient_sums_op,
      &norm_moments_op,
      &own_piece_op,
      &pairwise_sum_op,
      &pass_inside_op,
      &put_row_op,
      &reduce_scatter_op,
      &relu_op,
      &reorder_op,
      &reshape_op,
      &reverse_op,
      &scale_op,
      &scale_by_op,
      &scale_channels_op,
      &sgd_op,
      &sigmoid_op,
      &sigmoid_grad_op,
      &silu_op,
      &silu_grad_op,
      &slice_op,
      &slice_columns_op,
      &slice_columns_grad_op,
      &slice_grad_op,
      &softmax_op,
      &softmax_grad_op,
      &square_tiles_op,
      &ssdc_decode_op,
      &ssdc_encode_op,
      &stack_op,
      &step_scalars_op,
      &sub_op,
      &subsample_op,
      &subsample_grad_op,
      &sum_all_op,
      &sum_inside_op,
      &sum_leading_op,
      &sum_of_op,
      &sum_of_squares_op,
      &sum_tiles_op,
      &swap_leading_op,
      &tanh_op,
      &tanh_grad_op,
      &to_bits_op,
      &top_k_op,
      &unbind_op,
  };
  return ops;
}

}  // namespace pal
