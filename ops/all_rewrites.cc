// Every rewrite there is.
#include "core/rewrite.h"
#include "ops/attention/attention_score.h"
#include "ops/convolution/conv_relu.h"
#include "ops/convolution/max_pool.h"
#include "ops/elementwise/dropout.h"
#include "ops/elementwise/sum_inside.h"
#include "ops/norms/batch_norm.h"
#include "ops/norms/batch_norm_relu.h"
#include "ops/norms/layer_norm.h"
#include "ops/products/matmul_relu.h"
#include "ops/recurrent/gru.h"
#include "ops/recurrent/lstm.h"
#include "ops/tensors/clip_bits.h"

namespace pal {

std::span<const Rewrite* const> all_rewrites() {
  static const Rewrite* const rewrites[] = {
      &batch_norm_in_parts,         &batch_norm_apply_rewrite,     &batch_norm_apply_relu_rewrite,
      &batch_norm_relu_rewrite,     &batch_norm_relu_grad_rewrite, &clip_bits_rewrite,
      &conv2d_relu_rewrite,         &conv3d_relu_rewrite,          &dropout_rewrite,
      &dropout_add_rewrite,         &gru_replay_rewrite,           &lstm_replay_rewrite,
      &layer_norm_grad_add_rewrite, &matmul_relu_rewrite,          &matmul_relu_grad_rewrite,
      &max_pool_relu_rewrite,       &mlp_score_replay_rewrite,     &relu_bits_rewrite,
      &sum_inside_rewrite,
  };
  return rewrites;
}

}  // namespace pal
