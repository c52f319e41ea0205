// A card on which toy networks take time.
#pragma once
#include "memory/price/predict.h"

namespace pal::test {

// As a data sheet has it; `link` 0: none.
inline DeviceProfile toy_card(double link = 0) {
  return {.name = "toy",
          .f32 = 1e9,
          .vector = 1e9,
          .memory = 1e8,
          .link = link,
          .launch = 1e-6,
          .tile = 1};
}

}  // namespace pal::test
