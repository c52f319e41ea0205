// How cuBLASLt reads the mask of its DRELU epilogue: asked of the library itself, since its manual
// does not say.
#pragma once
#include "core/device.h"
#include "core/spec.h"

namespace pal {

// Whether bit k of a byte stands for element k of a group of eight, and rows for rows
// (ops/libraries/lt_product.h): a small product under a mask of no regular pattern, run once on a
// device for operands and a result of these types. Where it says no, a line on stderr says so,
// once. False as well where the library does no such product, or the device has no room to try it.
// Not while something is recorded.
bool reads_masks_as_written(const Device& device, DType type, DType result);

}  // namespace pal
