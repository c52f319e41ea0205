// sgd and momentum, one or several weights in a launch.
#include "ops/optimizer/cuda_update.h"
#include "ops/optimizer/sgd.h"

namespace pal {

const Backend momentum_cuda{.run = run_update<Momentum, MomentumAttrs>,
                            .prepare = prepare_ranks<MomentumAttrs>};
const Backend sgd_cuda{.run = run_update<Sgd, SgdAttrs>, .prepare = prepare_ranks<SgdAttrs>};

}  // namespace pal
