// Which pair of layers a stashed feature map stands between, as Gist sorts them (section III-A,
// figure 3): the pair decides which encoding is meant for it.
#pragma once
#include <cstdint>
#include <vector>

#include "core/program.h"
#include "memory/price/gist_baseline.h"

namespace pal {

enum class LayerPair : uint8_t {
  relu_pool,  // Binarize: ReLU's result, read by pooling alone
  relu_conv,  // SSDC: ReLU's result, or several of them joined, read by a convolution
  pool_conv,  // SSDC: pooling's result, read by a convolution
  relu_join,  // ReLU's result, which a join copies: a bit will do here too. The paper has no word
              // for it; its figures have it among the others
  other
};
inline constexpr size_t kLayerPairs = size_t(LayerPair::other) + 1;
const char* to_string(LayerPair pair);  // ReLU-Pool
// Sparse encodings are meant for it.
constexpr bool is_for_ssdc(LayerPair pair) {
  return pair == LayerPair::relu_conv || pair == LayerPair::pool_conv;
}

// Of a value of the forward phase. Pooling is max and mean pooling of any window.
LayerPair pair_of(const Program& program, const Readers& readers, ValueId value);

// A feature map that the baseline stashes.
struct GistStash {
  ValueId value;
  LayerPair pair;
  int64_t bytes;
};
// Those of a footprint, in order of production.
std::vector<GistStash> stashes_of(const Program& program, const GistFootprint& footprint);

}  // namespace pal
