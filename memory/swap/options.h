// What can be asked of swapping.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/ids.h"
#include "core/names.h"

namespace pal {

enum class Swap : uint8_t {
  none,
  naive,    // every feature map that the backward pass reads; compute waits for each copy
  vdnn,     // Rhu et al. 2016: inputs of layers, each copy beside one layer
  planned,  // ours, after Capuchin (Peng et al. 2020): what has the most time to be away
};
constexpr auto names(Swap) { return std::array{"none", "naive", "vdnn", "planned"}; }

enum class VdnnInputs : uint8_t {
  conv,  // of compute-heavy layers
  all,   // of all layers
};
constexpr auto names(VdnnInputs) { return std::array{"conv", "all"}; }

struct SwapOptions {
  Swap method = Swap::none;
  VdnnInputs vdnn = VdnnInputs::conv;
  // planned: what shares bytes with one of these values leaves, if it can, or, where that is
  // better, what one of the ranks takes (memory/swap/planned.h); nothing else is tried.
  std::optional<std::vector<ValueId>> chosen = {};
};

}  // namespace pal
