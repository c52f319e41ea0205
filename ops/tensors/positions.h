// Sinusoidal positions (Vaswani et al. 2017, section 3.5).
#pragma once
#include <vector>

#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef add_positions_op;
[[gnu::weak]] extern const Backend add_positions_cuda;

struct AddPositionsAttrs {
  float factor = 1;
  auto fields() const { return std::tuple{field("factor", factor)}; }
};

// x (T, B, D) -> factor x[t,b,:] + PE(first + t), with first i32 (1), absent: 0, and
//   PE(pos)[2i] = sin(pos / 10000^(2i/D)),  PE(pos)[2i+1] = cos(pos / 10000^(2i/D)).
Val add_positions(Val x, float factor = 1, Val first = {});

// PE(0), PE(1), .. (steps, D).
std::vector<float> position_table(int64_t steps, int64_t width);

}  // namespace pal
