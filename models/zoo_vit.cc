// The Vision Transformer, base, with patches of 16x16 pixels (Dosovitskiy et al. 2021, figure 1).
#include <algorithm>

#include "models/encoder_layers.h"
#include "models/zoo_layers.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/columns.h"
#include "ops/tensors/row_order.h"
#include "ops/tensors/views.h"

namespace pal {
namespace {

constexpr int64_t kHead = 64;  // columns of an attention head

// x (S, B, D) behind one row that is the same for all of the batch: (S + 1, B, D).
Val behind_token(Val token, Val x) {
  const int64_t B = x.shape()[1], D = x.shape()[2], S = x.shape()[0];
  Val first = broadcast_leading(token, {B, D});
  Val all = concatenate({reshape(first, {B * D}), reshape(x, {S * B * D})});
  return reshape(all, {S + 1, B, D});
}

}  // namespace

Val vit_b16(ZooLayers& net, Val x) {
  Builder& b = net.builder();
  const int64_t D = net.wide(12 * kHead), batch = x.shape()[0];
  Val token = b.weight("class_token", {{D}}, {});
  x = net.conv_bias("patches", x, D, square(16, 16, 0));  // (B, H / 16, W / 16, D)
  const int64_t patches = x.shape()[1] * x.shape()[2];
  Val positions = b.weight("positions", {{patches + 1, D}}, {Init::Kind::normal, 0.02f});
  x = add_broadcast(reshape(x, {batch, patches, D}), slice(positions, 1, patches + 1));
  token = add_broadcast(reshape(slice(positions, 0, 1), {D}), token);
  x = behind_token(token, swap_leading(x));  // (S, B, D)
  const int64_t heads = std::max<int64_t>(1, D / kHead);
  EncoderLayers encoder(b, {.hidden = D, .ffn = 4 * D, .heads = heads, .eps = 1e-6f, .pre = true},
                        {});
  for (int layer = 0; layer < 12; ++layer) x = encoder.layer("layer" + std::to_string(layer), x);
  x = encoder.norm("norm", reshape(slice(x, 0, 1), {batch, D}));
  return net.linear("head", x, net.classes());
}

}  // namespace pal
