// What can be chosen of BERT.
#pragma once
#include <cstdint>
#include <string>

#include "models/option_help.h"
#include "models/rule.h"

namespace pal {

struct BertOptions {
  static constexpr const char* kType = "bert";
  static constexpr const char* kHelp = "text encoder; learns to guess hidden words of running text";

  int64_t vocab = 30522, positions = 512, segments = 2;
  int64_t first_position = 0;  // XLM-R's table begins with two rows that no word is at
  int64_t layers = 12, hidden = 768, ffn = 3072, heads = 12;
  float eps = 1e-12f;
  float dropout = 0.1f, attention_dropout = 0.1f;
  float hide = 0.15f;
  int64_t loss_chunks = 1;

  // How a configuration names the members: option(key, member, help, what is accepted).
  template <class Option> void declare(Option&& option) {
    option("layers", layers, "of the encoder", {.min = 1, .max = 256});
    option("hidden", hidden, "width of embeddings and of every layer", {.min = 1, .max = 65536});
    option("ffn", ffn, "inner width of the feed-forward layers", {.min = 1, .max = 262144});
    option("heads", heads, "heads of every attention; a divisor of hidden",
           {.min = 1, .max = 1024});
    option("positions", positions, "rows of the table of positions", {.min = 2, .max = 65536});
    option("dropout", dropout, "of embeddings and of what each sublayer adds",
           {.min = 0, .max = 1, .below_max = true});
    option("attention_dropout", attention_dropout, "of the attention's weights",
           {.min = 0, .max = 1, .below_max = true});
    option("hide", hide,
           "probability that a word is to be guessed: of these 8 in 10 are hidden, one is another "
           "word, one stands as it is",
           {.min = 0, .max = 1, .above_min = true});
    option("loss_chunks", loss_chunks, kLossChunksHelp,
           {.min = 1, .max = 65536, .recordings = {"1", "8"}});
  }
  static Rules<BertOptions> rules();
};

// Why sizes do not fit each other, "model.heads: what"; empty where they do.
std::string fault(const BertOptions& options);

}  // namespace pal
