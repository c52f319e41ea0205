// Help of options that several models have, and what is said where they do not go together.
#pragma once

namespace pal {

inline constexpr const char* kLossChunksHelp =
    "output layer and loss in so many runs of rows: with memory.schedule lifetime one run's "
    "logits are in memory at a time; the loss is the same but for the order of its sums";

// Of a network that asks for whole layers and for the parts of their cells.
inline constexpr const char* kWholeLayersHaveNoParts =
    "model.whole_layers: not with model.fused: false, which asks for the steps' parts";

}  // namespace pal
