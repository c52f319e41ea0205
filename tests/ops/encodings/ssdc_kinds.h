// What a sparse encoding can be, for loops over all of it.
#pragma once
#include "ops/encodings/ssdc.h"

namespace pal {

inline constexpr SsdcForm kForms[] = {SsdcForm::csr, SsdcForm::mask};
inline constexpr DType kTypes[] = {DType::f32, DType::bf16};
inline constexpr SsdcValues kValues[] = {SsdcValues::plain, SsdcValues::fp16, SsdcValues::fp10,
                                         SsdcValues::fp8};

}  // namespace pal
