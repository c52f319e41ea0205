// The CUDA backends of the operators, by the operators' names; each operator's .cu file defines
// them. The names are weak: a build without CUDA links none, and their addresses are null. An
// operator that has no kernel yet is null in every build. docs/cuda.md says how to add one.
#pragma once
#include "core/op.h"

namespace pal {

[[gnu::weak]] extern const Backend adam_cuda, add_cuda, add_broadcast_cuda, add_outer_cuda,
    add_positions_cuda, argmax_rows_cuda, assign_cuda, attention_cuda, attention_context_cuda,
    attention_grad_cuda, attention_step_cuda, avg_pool_cuda, avg_pool_grad_cuda, batch_norm_cuda,
    batch_norm_apply_cuda, batch_norm_grad_cuda, batch_norm_infer_cuda, batch_norm_statistics_cuda,
    batched_matmul_cuda, broadcast_leading_cuda, cast_cuda, clip_cuda, clip_norm_gate_cuda,
    concatenate_cuda, conv2d_cuda, conv2d_data_grad_cuda, conv2d_weight_grad_cuda, conv3d_cuda,
    conv3d_data_grad_cuda, conv3d_weight_grad_cuda, copy_in_cuda, copy_out_cuda, cross_entropy_cuda,
    cross_entropy_grad_cuda, ctc_loss_cuda, ctc_loss_grad_cuda, dot_channels_cuda, dot_last_cuda,
    dot_last_grad_cuda, dot_score_cuda, dropout_cuda, dropout_apply_cuda, dropout_mask_cuda,
    embedding_cuda, embedding_grad_cuda, fill_cuda, frame_norm_cuda, frame_norm_grad_cuda,
    frame_norm_infer_cuda, gelu_cuda, gelu_grad_cuda, global_avg_pool_cuda,
    global_avg_pool_grad_cuda, gru_cell_cuda, gru_cell_grad_cuda, gru_cell_replay_grad_cuda,
    hold_cuda, hold_grad_cuda, inner_product_cuda, layer_norm_cuda, layer_norm_grad_cuda,
    log_softmax_cuda, lrn_cuda, lrn_grad_cuda, lstm_cell_cuda, lstm_cell_grad_cuda,
    lstm_cell_replay_grad_cuda, masked_softmax_cuda, masked_softmax_grad_cuda, matmul_cuda,
    matmul_relu_cuda, matmul_relu_grad_cuda, max_pool_cuda, max_pool_grad_cuda, mlp_score_cuda,
    mlp_score_grad_cuda, mlp_score_replay_grad_cuda, momentum_cuda, moving_average_cuda, mul_cuda,
    pass_inside_cuda, relu_cuda, reshape_cuda, reverse_cuda, scale_cuda, scale_by_cuda,
    scale_channels_cuda, sgd_cuda, sigmoid_cuda, sigmoid_grad_cuda, silu_cuda, silu_grad_cuda,
    slice_cuda, slice_columns_cuda, slice_columns_grad_cuda, slice_grad_cuda, softmax_cuda,
    softmax_grad_cuda, stack_cuda, step_scalars_cuda, sub_cuda, subsample_cuda, subsample_grad_cuda,
    sum_all_cuda, sum_leading_cuda, sum_of_squares_cuda, swap_leading_cuda, tanh_cuda,
    tanh_grad_cuda, to_bits_cuda, unbind_cuda;

}  // namespace pal
