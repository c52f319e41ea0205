// cast and to_bits, eight elements a thread.
#include "ops/kernels/cuda_elements.h"
#include "ops/tensors/casts.h"

namespace pal {
namespace {

struct Identity {
  PAL_HD float operator()(float x) const { return x; }
};

void run_cast(const KernelArgs& a) {
  if (a.in_spec[0].dtype == a.out_spec[0].dtype) {
    return copy_async(a, a.out[0], a.in[0], a.out_spec[0].bytes());
  }
  launch_map<1>(a, Identity{});
}

}  // namespace

const Backend cast_cuda{.run = run_cast};
const Backend to_bits_cuda{.run = run_map<1, Inside>};

}  // namespace pal
