// sgd and momentum, one or several weights in a launch.
#include "ops/optimizer/cuda_update.h"
#include "ops/optimizer/sgd.h"

namespace pal {

const Backend momentum_cuda{.run = run_update<Momentum, MomentumAttrs>};
const Backend sgd_cuda{.run = run_update<Sgd, SgdAttrs>};

}  // namespace pal
