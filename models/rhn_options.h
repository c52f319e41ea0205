// What can be chosen of the recurrent highway network.
#pragma once
#include <cstdint>

#include "models/option_help.h"

namespace pal {

struct RhnOptions {
  static constexpr const char* kType = "rhn";
  static constexpr const char* kHelp =
      "recurrent highway network; learns to guess the next word of running text";

  int64_t vocab = 10000, hidden = 830, depth = 10;  // the 23 million weights of table 1
  bool tied = true;  // the output layer's matrix is that of the embedding
  float input_dropout = 0.75f, output_dropout = 0.75f;
  float transform_bias = -2;  // of the gates that let new content in
  int64_t loss_chunks = 1;

  // How a configuration names the members: option(key, member, help, what is accepted).
  template <class Option> void declare(Option&& option) {
    option("depth", depth, "layers from one word to the next", {.min = 1, .max = 256});
    option("hidden", hidden, "width of the embedding and of the state", {.min = 1, .max = 65536});
    option("tied", tied, "the output layer's matrix is that of the embedding");
    option("input_dropout", input_dropout, "of the words' embeddings",
           {.min = 0, .max = 1, .below_max = true});
    option("output_dropout", output_dropout, "of the states, before the output",
           {.min = 0, .max = 1, .below_max = true});
    option("transform_bias", transform_bias, "first bias of the gates that let new content in",
           {.min = -10, .max = 10});
    option("loss_chunks", loss_chunks, kLossChunksHelp,
           {.min = 1, .max = 65536, .recordings = {"1", "8"}});
  }
};

}  // namespace pal
