// What can be chosen of BERT.
#pragma once
#include <cstdint>
#include <string>

namespace pal {

struct BertOptions {
  int64_t vocab = 30522, positions = 512, segments = 2;
  int64_t first_position = 0;  // XLM-R's table begins with two rows that no word is at
  int64_t layers = 12, hidden = 768, ffn = 3072, heads = 12;
  float eps = 1e-12f;
  float dropout = 0.1f, attention_dropout = 0.1f;
  int64_t loss_chunks = 1;
};

// Why sizes do not fit each other, "model.heads: what"; empty where they do.
std::string fault(const BertOptions& options);

}  // namespace pal
