// Tests of whole steps on a GPU, emulated or real.
#pragma once
#include "tests/emulation/fixture.h"

namespace pal::test {

class Steps : public OnGpu {};

}  // namespace pal::test
