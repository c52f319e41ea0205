// adam, one or several weights in a launch.
#include "ops/optimizer/adam.h"
#include "ops/optimizer/cuda_update.h"

namespace pal {

const Backend adam_cuda{.run = run_update<Adam, AdamAttrs>, .prepare = prepare_ranks<AdamAttrs>};

}  // namespace pal
