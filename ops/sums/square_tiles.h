// sum_of_squares in two halves, so that ranks can each take the first of their own piece.
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef square_tiles_op, sum_tiles_op;
[[gnu::weak]] extern const Backend square_tiles_cuda, sum_tiles_cuda;

// x, floats of any shape -> f32[tiles]: the sum of the squares of each kTile elements.
Val square_tiles(Val x);
// f32[tiles] -> f32[1]: their sum, of which sum_tiles(square_tiles(x)) has the bits of
// sum_of_squares(x).
Val sum_tiles(Val tiles);

}  // namespace pal
