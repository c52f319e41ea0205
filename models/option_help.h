// Help of options that several models have.
#pragma once

namespace pal {

inline constexpr const char* kLossChunksHelp =
    "output layer and loss in so many runs of rows: with memory.schedule lifetime one run's "
    "logits are in memory at a time; the loss is the same but for the order of its sums";

}  // namespace pal
