// What can be chosen of the recurrent highway network.
#pragma once
#include <cstdint>

namespace pal {

struct RhnOptions {
  int64_t vocab = 10000, hidden = 830, depth = 10;  // the 23 million weights of table 1
  bool tied = true;  // the output layer's matrix is that of the embedding
  float input_dropout = 0.75f, output_dropout = 0.75f;
  float transform_bias = -2;  // of the gates that let new content in
  int64_t loss_chunks = 1;
};

}  // namespace pal
