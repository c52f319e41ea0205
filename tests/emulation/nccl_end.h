// What a test may have the emulated NCCL do.
#pragma once
#include <functional>

namespace pal::emulation {

inline std::function<void()>
    at_nccl_end;  // before a communicator is destroyed, and as one is given up

}  // namespace pal::emulation
